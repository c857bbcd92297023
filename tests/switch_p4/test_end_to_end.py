"""PyTorch over the P4 program: two ranks in network namespaces of their own, with nothing between them but simple_switch,
find it through a switchml-controller, and get the bits that the software switch gives.

    namespace of rank 0 --- port 0 |               |  control port --- switchml_agent
    namespace of rank 1 --- port 1 | simple_switch |
            |                        thrift ------------------------------+   namespace of the switch
            +------------------ a wire to the controller ---- switchml-controller --- gRPC to the agent
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import pytest

from vectors.targets import bmv2_switch as bmv2

torch = pytest.importorskip("torch")
pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWITCH_IP, SWITCH_MAC = "10.77.0.254", "02:77:00:00:ff:fe"
CONTROL_PORT = 2
PATIENCE = 30.0
TOKEN = "secret-of-the-job"


def program(name):
    """A binary of the build folder that belongs to this Python, or of PATH."""
    debian = pathlib.Path(sys.prefix).name.endswith("-debian")
    build = os.environ.get("SWITCHML_TEST_BUILD") or str(ROOT / ("build-debian" if debian else "build"))
    return shutil.which(name, path=os.pathsep.join([f"{build}/backend/controllerd", os.environ["PATH"]]))


def missing():
    if bmv2.missing():
        return bmv2.missing()
    return "" if program("switchml-controller") else "switchml-controller is not built: docs/controller.md says what it needs"


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Lab:
    """Namespaces, the switch, its agent and a controller; `close` ends all of it."""

    def __init__(self, folder, words, ranks=2):
        self.folder, self.words, self.size = folder, words, ranks
        self.processes, self.namespaces = [], []
        self.name = f"swml-{os.getpid()}"
        self.home = f"{self.name}-s"
        try:
            self.wire()
            self.start_switch()
            self.start_agent()
            self.start_controller()
        except BaseException:
            self.close()
            raise

    def namespace(self, name):
        bmv2.run("ip", "netns", "add", name)
        self.namespaces.append(name)
        self.inside(name, "ip", "link", "set", "lo", "up")
        self.inside(name, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")

    def inside(self, namespace, *command):
        return bmv2.run("ip", "netns", "exec", namespace, *command)

    def wire(self):
        self.namespace(self.home)
        for rank in range(self.size):
            worker = f"{self.name}-{rank}"
            self.namespace(worker)
            # The data network: one port of the switch each. Offloads would leave checksums unfinished.
            self.link(self.home, f"s{rank}", worker, "data")
            self.inside(worker, "ip", "address", "add", f"10.77.0.{rank + 1}/24", "dev", "data")
        self.link(self.home, f"s{CONTROL_PORT}", self.home, "cpu")
        # The way to the controller, which only rank 0 needs.
        self.link(self.home, "manage", f"{self.name}-0", "manage")
        self.inside(self.home, "ip", "address", "add", "10.78.0.254/24", "dev", "manage")
        self.inside(f"{self.name}-0", "ip", "address", "add", "10.78.0.1/24", "dev", "manage")

    def link(self, here, name, there, peer):
        self.inside(here, "ip", "link", "add", name, "type", "veth", "peer", "name", peer, "netns", there)
        for namespace, end in ((here, name), (there, peer)):
            self.inside(namespace, "ip", "link", "set", end, "mtu", "4000", "up")
            with contextlib.suppress(bmv2.SwitchError):  # no ethtool, or nothing to switch off
                self.inside(namespace, "ethtool", "-K", end, "tx", "off")

    def start(self, name, *command, namespace=None, environment=None):
        """A process whose output goes to NAME.log."""
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", namespace or self.home, *map(str, command)],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def await_line(self, name, process, text):
        end = time.monotonic() + PATIENCE
        while text not in self.log(name):
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"{name} did not say {text!r}:\n{self.log(name)[-3000:]}")
            time.sleep(0.05)

    def start_switch(self):
        loaded = bmv2.compile_program(self.folder, self.words)
        ports = [word for port in (*range(self.size), CONTROL_PORT) for word in ("-i", f"{port}@s{port}")]
        switch = self.start("switch", "simple_switch", *ports, "--thrift-port", "9090",
                            "--notifications-addr", f"ipc://{self.folder}/notifications.ipc", loaded)  # fmt: skip
        end = time.monotonic() + PATIENCE
        while True:
            with bmv2.inside(self.home), socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", 9090)) == 0:
                    return
            if switch.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"simple_switch does not answer:\n{self.log('switch')[-3000:]}")
            time.sleep(0.05)

    def start_agent(self):
        (self.folder / "agent.token").write_text("agent-token\n")
        agent = self.start(
            "agent", sys.executable, "-m", "switchml_agent", "bmv2", "--thrift", "127.0.0.1:9090", "--listen", "127.0.0.1:50052",
            "--control-interface", "cpu", "--control-port", CONTROL_PORT, "--address", SWITCH_IP, "--mac", SWITCH_MAC,
            "--token-file", self.folder / "agent.token",
            environment={"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT / "python")])},
        )  # fmt: skip
        self.await_line("agent", agent, "listening on")

    def start_controller(self):
        (self.folder / "tokens.yaml").write_text(f"tokens:\n  - name: team\n    token: {TOKEN}\n")
        (self.folder / "topology.yaml").write_text(
            "switches:\n"
            "  - name: bench\n"
            "    agent: 127.0.0.1:50052\n"
            "    agent_token_file: agent.token\n"
            f"    address: {SWITCH_IP}:48879\n"
        )
        controller = self.start("controller", program("switchml-controller"), "--topology", self.folder / "topology.yaml",
                                "--tokens", self.folder / "tokens.yaml", "--listen", "10.78.0.254:50051")  # fmt: skip
        self.await_line("controller", controller, "listening on")

    def reduce(self, **environment):
        """What every rank got: [{"results": [tensor], "stats": dict}]."""
        store = self.folder / f"store-{time.monotonic_ns()}"
        outs = [self.folder / f"{store.name}-{rank}.pt" for rank in range(self.size)]
        settings = {"SWITCHML_CONTROLLER": "10.78.0.254:50051", "SWITCHML_CONTROLLER_TOKEN": TOKEN,
                    "SWITCHML_RTO_MIN": "200", "SWITCHML_RTO_MAX": "2000", **environment}  # fmt: skip
        ranks = [
            self.start(f"rank{rank}", sys.executable, ROOT / "tests/switch_p4/rank.py", rank, self.size, store, outs[rank],
                       namespace=f"{self.name}-{rank}", environment=settings)
            for rank in range(self.size)
        ]  # fmt: skip
        end = time.monotonic() + 240
        for rank, process in enumerate(ranks):
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
            others = "".join(f"\n{name}:\n{self.log(name)[-1500:]}" for name in ("controller", "agent"))
            assert process.returncode == 0, f"rank {rank}:\n{self.log(f'rank{rank}')[-4000:]}{others}"
        return [torch.load(out, weights_only=False) for out in outs]

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        for name in self.namespaces:
            bmv2.run("ip", "netns", "del", name)
        self.namespaces, self.processes = [], []


def on_the_software_switch(folder, size, payload):
    """The same all-reduces with the embedded switch, over loopback."""
    store = folder / f"reference-{payload}"
    outs = [folder / f"reference-{payload}-{rank}.pt" for rank in range(size)]
    environment = {**os.environ, "SWITCHML_PAYLOAD": str(payload), "SWITCHML_INTERFACE": "lo"}
    command = [sys.executable, str(ROOT / "tests/switch_p4/rank.py")]
    ranks = [subprocess.Popen([*command, str(rank), str(size), str(store), str(outs[rank])], env=environment)
             for rank in range(size)]  # fmt: skip
    for process in ranks:
        assert process.wait(120) == 0
    return [torch.load(out, weights_only=False) for out in outs]


def bits(tensor):
    return tensor.view(torch.uint8) if tensor.dtype != torch.bfloat16 else tensor.view(torch.int16)


@pytest.mark.parametrize("words", (64, 256), ids=("256B", "1024B"))
def test_two_ranks_get_the_bits_of_the_software_switch(tmp_path, words):
    lab = Lab(tmp_path, words)
    try:
        ours = lab.reduce()
        again = lab.reduce(SWITCHML_SHARDS="2", SWITCHML_SLOTS="256")
    finally:
        lab.close()
    expected = on_the_software_switch(tmp_path, 2, 4 * words)
    for got in (ours, again):
        for rank in range(2):
            assert got[rank]["stats"]["session"]["payload_bytes"] == 4 * words
            assert SWITCH_IP in got[rank]["stats"]["session"]["switch"]
            assert got[rank]["stats"]["calls_switch"] == len(expected[rank]["results"])
            for i, (tensor, reference) in enumerate(zip(got[rank]["results"], expected[rank]["results"])):
                assert torch.equal(bits(tensor), bits(reference)), f"rank {rank}, tensor {i}"
