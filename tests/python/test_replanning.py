"""Plans that change while ranks add: no call fails, and bits stay. Needs root, for hosts that are namespaces."""

import signal
import sys
import time

import lab
import pytest
from controlled import MISSING, Controlled, described, settings

pytestmark = [
    pytest.mark.skipif(bool(lab.missing()), reason=lab.missing()),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
for _package in ("numpy", "scipy", "networkx", "yaml", "matplotlib", "grpc"):
    pytest.importorskip(_package)

PLAN = "import sys, _switchml_entry; sys.exit(_switchml_entry.plan())"
RANK = """
import os, sys, torch, torch.distributed as dist, switchml
rank, store, over = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("switchml", init_method="file://" + store, rank=rank, world_size=2)
inputs = [torch.randn(30000, generator=torch.Generator().manual_seed(r)) for r in range(2)]
seen, end = None, torch.zeros(1)
while not end:
    total = inputs[rank].clone()
    dist.all_reduce(total)
    assert torch.equal(total, inputs[0] + inputs[1])
    end[0] = os.path.exists(over)
    dist.all_reduce(end, dist.ReduceOp.MAX)
    stats = switchml.stats()
    now = ("without" if stats["without_switch"] else "at") + " " + stats["session"]["switch"]
    if now != seen:
        print(now, flush=True)
    seen = now
dist.destroy_process_group()
"""


class Hosts(Controlled):
    """Two hosts with a rank each, and a core with three switches, a controller and a planner that watches."""

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.close()
            raise
        return self

    def build(self):
        self.core = self.namespace("core")
        self.address(self.core, "lo", "10.79.0.1/32")
        self.do(self.core, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        self.hosts = [self.host(number) for number in (1, 2)]
        self.switches, links = {}, ""
        topology = "switches:\n"
        for number, name in enumerate("abc"):
            topology += described(name, *self.serve(name, number))
            links += "".join(f"  - {{ends: [host{host}, {name}], speed: 1G}}\n" for host in (1, 2))
        topology += "workers:\n" + "".join(
            f"  - {{name: host{n}, addresses: [10.79.{n}.1], switch: a, speed: 1G}}\n" for n in (1, 2)
        )
        self.at = self.controller(topology + "links:\n" + links, "10.79.0.1:50051", self.core)

    def host(self, number):
        host = self.namespace(f"host{number}")
        self.link(self.core, f"to{number}", host, "eth0")
        self.address(self.core, f"to{number}", f"10.79.{number}.254/24")
        self.address(host, "eth0", f"10.79.{number}.1/24")
        self.do(host, "ip", "route", "add", "default", "via", f"10.79.{number}.254")
        return host

    def serve(self, name, number):
        served = self.switch(name, f"10.79.0.1:4888{number}", f"10.79.0.1:5010{number}", self.core)
        self.switches[name] = self.processes[-1]
        return served

    def watch(self, jobs):
        (self.folder / "jobs.yaml").write_text(jobs)
        (self.folder / "token").write_text("plans-for-all-of-them\n")
        self.planner = self.start(
            "planner", sys.executable, "-c", PLAN, self.folder / "topology.yaml", "--jobs", self.folder / "jobs.yaml",
            "--shares", 2, "--controller", self.at, "--token-file", self.folder / "token", "--watch",
            namespace=self.core,
        )  # fmt: skip
        self.await_line("planner", self.planner, "and by those that follow")

    def start_ranks(self):
        values = settings(self.at, SWITCHML_PRECISION="auto", SWITCHML_ON_SWITCH_FAILURE="fallback")
        self.ranks = {
            f"rank{rank}": self.start(f"rank{rank}", sys.executable, "-c", RANK, rank, self.folder / "store",
                                      self.folder / "over", namespace=host, **values)
            for rank, host in enumerate(self.hosts)
        }  # fmt: skip

    def await_ranks(self, *allowed):
        """Until the last thing that each rank has said is one of these."""
        end = time.monotonic() + lab.PATIENCE
        while not all((self.log(name).splitlines() or [""])[-1] in allowed for name in self.ranks):
            ended = [name for name, process in self.ranks.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                raise lab.LabError(f"not {allowed}; ended: {ended}; {[self.log(name)[-2000:] for name in self.ranks]}")
            time.sleep(0.05)

    def at_switches(self, names):
        places = [f"10.79.0.1:4888{'abc'.index(name)} (of controller {self.at})" for name in names]
        return "at " + ", ".join(places)


def job(root):
    return f"jobs:\n  - {{name: j, workers: [host1, host2], root: {root}}}\n"


def test_a_running_group_goes_where_it_is_planned(tmp_path):
    """First all of a tensor over one switch, in two shares; then over another one; then over two, and one is killed."""
    with Hosts(tmp_path) as network:
        network.watch(job("a"))
        network.start_ranks()
        network.await_ranks(network.at_switches("aa"))
        (tmp_path / "jobs.yaml").write_text(job("b"))
        network.await_ranks(network.at_switches("bb"))

        said = len(network.log("planner"))
        (tmp_path / "jobs.yaml").write_text("jobs:\n  - {name: j, workers: [host1, host2]}\n")
        network.await_line("planner", network.planner, "planned anew, with all switches", said)
        network.kill(network.switches["b"])
        network.await_ranks(network.at_switches("ac"), network.at_switches("ca"))

        network.planner.send_signal(signal.SIGINT)
        assert network.planner.wait(lab.PATIENCE) == 0
        (tmp_path / "over").touch()
        network.finish(network.ranks, 2 * lab.PATIENCE)
        assert "no plans any more" in network.log("planner")
