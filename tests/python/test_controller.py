"""Workers, switchml-controller and software switches together: one switch, and a tree of three between hosts."""

import os
import subprocess
import sys

import lab
import pytest
import reducing_rank

pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

MISSING = "" if lab.program("switchml-controller") else "switchml-controller is not built: docs/controller.md says what it needs"
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
TOKENS = "tokens:\n  - name: team\n    token: open-sesame-of-the-team\n    max_jobs: 1\n  - name: other\n    token: let-the-others-in-too\n"


class Controlled(lab.Lab):
    """Switches and a controller, all on loopback of the test's own namespace unless said otherwise."""

    def switch(self, name, listen="127.0.0.1:0", agent="127.0.0.1:0", namespace=None):
        """Starts a software switch with an agent; (agent's address, packets' address)."""
        (self.folder / f"{name}.token").write_text(f"token-of-the-agent-of-{name}\n")
        process = self.start(name, lab.program("switchml-switchd"), "--listen", listen, "--agent", agent,
                             "--agent-token-file", self.folder / f"{name}.token", namespace=namespace)  # fmt: skip
        served = self.await_line(name, process, "agent on ")
        return served, self.await_line(name, process, "listening on ")

    def controller(self, topology, listen="127.0.0.1:0", namespace=None, tokens=TOKENS, *options):
        (self.folder / "topology.yaml").write_text(topology)
        (self.folder / "tokens.yaml").write_text(tokens)
        process = self.start("controller", lab.program("switchml-controller"), "--topology", self.folder / "topology.yaml",
                             "--tokens", self.folder / "tokens.yaml", "--listen", listen, *options, namespace=namespace)  # fmt: skip
        return self.await_line("controller", process, "listening on ")


def described(name, agent, address, more=""):
    return f"  - name: {name}\n    agent: {agent}\n    agent_token_file: {name}.token\n    address: {address}\n{more}"


def settings(controller, token="open-sesame-of-the-team", **more):
    return {"SWITCHML_CONTROLLER": controller, "SWITCHML_CONTROLLER_TOKEN": token, **more}


def embedded(network, size, **more):
    return reducing_rank.run_ranks(network, "reference", [None] * size, {"SWITCHML_INTERFACE": "lo", **more})


def test_one_switch_gives_the_bits_of_the_embedded_one(tmp_path):
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        at = network.controller("switches:\n" + described("solo", agent, address))
        payload = {"SWITCHML_PAYLOAD": "1024"}
        got = reducing_rank.run_ranks(network, "ours", [None] * 3, settings(at, **payload))
        sharded = reducing_rank.run_ranks(network, "sharded", [None] * 3, settings(at, SWITCHML_SHARDS="3", **payload))
        expected = embedded(network, 3, **payload)
    reducing_rank.assert_same(got, expected)
    reducing_rank.assert_same(sharded, expected)
    assert got[0]["stats"]["session"]["switch"] == f"{address} (of controller {at})"


def failing(network, name, values, size=2):
    """What rank 0 says when the group cannot be made."""
    values = {"SWITCHML_CONNECT_TIMEOUT": "10", **values}
    with pytest.raises(lab.LabError):
        reducing_rank.run_ranks(network, name, [None] * size, values, seconds=60)
    return network.log(f"{name}-0")


def test_refusals_reach_every_rank(tmp_path):
    with Controlled(tmp_path) as network:
        agent, address = network.switch("solo")
        at = network.controller("switches:\n" + described("solo", agent, address))
        for name, values, part in (
            ("stranger", settings(at, "guess"), "refuses"),
            ("nobody", settings("127.0.0.1:1"), "controller 127.0.0.1:1 does not answer"),
        ):
            assert part in failing(network, name, values)
            assert part in network.log(f"{name}-1")
        # The session of a team that may have one, held open by a rank that does not end.
        network.start("holder", sys.executable, "-c", HOLDER, str(tmp_path / "holder.store"), **settings(at))
        network.start("holder1", sys.executable, "-c", HOLDER, str(tmp_path / "holder.store"), **settings(at, RANK="1"))
        network.await_line("holder", network.processes[-2], "holding")
        assert '"team" has 1 jobs; max_jobs allows 1' in failing(network, "second", settings(at))
        reducing_rank.run_ranks(network, "other", [None] * 2, settings(at, "let-the-others-in-too"))


HOLDER = """
import os, sys, time, torch, torch.distributed as dist, switchml
dist.init_process_group("switchml", init_method="file://" + sys.argv[1], rank=int(os.environ.get("RANK", "0")), world_size=2)
print("holding", flush=True)
time.sleep(120)
"""


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_a_tree_of_three_switches_between_hosts(tmp_path):
    """Two hosts with two ranks and a leaf each, a root and the controller in between. The ranks' addresses tell the
    controller which leaf is theirs."""
    with Controlled(tmp_path) as network:
        core = network.namespace("core")
        network.address(core, "lo", "10.79.0.1/32")
        network.do(core, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        hosts = []
        for number in (1, 2):
            host = network.namespace(f"host{number}")
            network.link(core, f"to{number}", host, "eth0", mtu=9000)
            network.address(core, f"to{number}", f"10.79.{number}.254/24")
            network.address(host, "eth0", f"10.79.{number}.1/24")
            network.do(host, "ip", "route", "add", "default", "via", f"10.79.{number}.254")
            hosts.append(host)
        topology = "switches:\n"
        agent, address = network.switch("root", "10.79.0.1:48879", "10.79.0.1:50052", core)
        topology += described("root", agent, address)
        for number, host in enumerate(hosts, 1):
            agent, address = network.switch(f"leaf{number}", f"10.79.{number}.1:48879", f"10.79.{number}.1:50052", host)
            topology += described(f"leaf{number}", agent, address, "    parent: root\n")
        topology += "workers:\n"
        for number in (1, 2):
            topology += f"  - name: host{number}\n    addresses: [10.79.{number}.1]\n    switch: leaf{number}\n"
        at = network.controller(topology, "10.79.0.1:50051", core)

        where = [hosts[0], hosts[0], hosts[1], hosts[1]]
        wired = {"SWITCHML_PAYLOAD": "1024", "GLOO_SOCKET_IFNAME": "eth0"}
        got = reducing_rank.run_ranks(network, "tree", where, settings(at, **wired))
        lossy = settings(at, **wired, SWITCHML_FAULTS="seed=3,send_loss=0.02,receive_loss=0.02,duplicate=0.02")
        under_loss = reducing_rank.run_ranks(network, "lossy", where, lossy)
        alone = reducing_rank.run_ranks(network, "alone", [hosts[1]] * 2, settings(at, **wired))
        expected = embedded(network, 4, SWITCHML_PAYLOAD="1024")
        pair = reducing_rank.run_ranks(network, "pair", [None] * 2, {"SWITCHML_INTERFACE": "lo", "SWITCHML_PAYLOAD": "1024"})
        state = lab.run("ip", "netns", "exec", core, lab.program("switchml-controller"), "--state", at,
                        "--token-file", write(tmp_path / "token", "open-sesame-of-the-team"))  # fmt: skip
    reducing_rank.assert_same(got, expected)
    reducing_rank.assert_same(under_loss, expected)
    reducing_rank.assert_same(alone, pair)
    assert [rank["stats"]["session"]["switch"].split()[0] for rank in got] == [
        "10.79.1.1:48879", "10.79.1.1:48879", "10.79.2.1:48879", "10.79.2.1:48879"]  # fmt: skip
    for name in ("root", "leaf1", "leaf2"):
        assert name in state


def write(path, text):
    path.write_text(text + "\n")
    return path


def test_the_topology_is_checked_before_anything_starts(tmp_path):
    (tmp_path / "bad.yaml").write_text("switches:\n  - name: a\n    agent: 127.0.0.1:1\n    address: nowhere\n")
    command = [lab.program("switchml-controller"), "--topology", str(tmp_path / "bad.yaml"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=30)
    assert done.returncode == 2
    assert "bad.yaml:4: " in done.stderr and "nowhere" in done.stderr
