"""PyTorch over the P4 program: two ranks in network namespaces of their own, with nothing between them but
simple_switch, find it through a switchml-controller, and get the bits that the software switch gives.

    namespace of rank 0 --- port 0 |               |  control port --- switchml_agent
    namespace of rank 1 --- port 1 | simple_switch |
            |                        thrift ------------------------------+   namespace of the switch
            +------------------ a wire to the controller ---- switchml-controller --- gRPC to the agent
"""

import socket
import sys
import time

import lab
import pytest
from vectors.targets import bmv2_switch as bmv2

torch = pytest.importorskip("torch")
pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

import agent_process  # noqa: E402  needs grpc
import reducing_rank  # noqa: E402  needs torch

SWITCH_IP, SWITCH_MAC = "10.77.0.254", "02:77:00:00:ff:fe"
TOKEN = "secret-of-the-job"


def missing():
    if bmv2.missing() or lab.missing("ethtool"):
        return bmv2.missing() or lab.missing("ethtool")
    return (
        ""
        if lab.program("switchml-controller")
        else "switchml-controller is not built: docs/controller.md says what it needs"
    )


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class SwitchLab(lab.Lab):
    """The switch, its agent, a controller and as many worker namespaces as there are ranks. Ports: the workers', those
    of other switches, the control port."""

    def __init__(self, folder, words, ranks=2, switches=0):
        super().__init__(folder)
        self.words, self.size, self.control_port = words, ranks, ranks + switches
        try:
            self.wire()
            self.start_switch()
            self.start_agent()
            self.start_controller()
        except BaseException:
            self.close()
            raise

    def wire(self):
        self.home = self.namespace("s")
        self.workers = [self.namespace(str(rank)) for rank in range(self.size)]
        for rank, worker in enumerate(self.workers):
            self.plug(rank, worker, f"10.77.0.{rank + 1}")
        self.link(self.home, f"s{self.control_port}", self.home, "cpu", mtu=4000)
        # The way to the controller, which only rank 0 needs.
        self.link(self.home, "manage", self.workers[0], "manage")
        self.address(self.home, "manage", "10.78.0.254/24")
        self.address(self.workers[0], "manage", "10.78.0.1/24")

    def plug(self, port, host, address):
        """The data network: one port of the switch each. With offloads a burst would come to the switch as one long
        packet, which it drops by its length, and checksums unfinished."""
        self.link(self.home, f"s{port}", host, "data", mtu=4000)
        self.address(host, "data", f"{address}/24")
        self.do(host, "ethtool", "-K", "data", "tx", "off")
        if "tx-checksumming: off" not in self.do(host, "ethtool", "-k", "data"):
            raise lab.LabError(
                f"ethtool -K data tx off has done nothing in {host}: simple_switch would be sent bursts as one packet"
            )

    def start_switch(self):
        loaded = bmv2.compile_program(self.folder, self.words)
        ports = [word for port in range(self.control_port + 1) for word in ("-i", f"{port}@s{port}")]
        switch = self.start("switch", "simple_switch", *ports, "--thrift-port", "9090", "--notifications-addr",
                            f"ipc://{self.folder}/notifications.ipc", loaded, namespace=self.home)  # fmt: skip
        end = time.monotonic() + lab.PATIENCE
        while True:
            with lab.inside(self.home), socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", 9090)) == 0:
                    return
            if switch.poll() is not None or time.monotonic() > end:
                raise lab.LabError(f"simple_switch does not answer:\n{self.log('switch')[-3000:]}")
            time.sleep(0.05)

    def start_agent(self):
        (self.folder / "agent.token").write_text("token-of-the-agent\n")
        agent = self.start(
            "agent",
            sys.executable,
            "-m",
            "switchml_agent",
            "bmv2",
            "--thrift",
            "127.0.0.1:9090",
            "--listen",
            "127.0.0.1:50052",
            "--control-interface",
            "cpu",
            "--control-port",
            self.control_port,
            "--address",
            SWITCH_IP,
            "--mac",
            SWITCH_MAC,
            "--token-file",
            self.folder / "agent.token",
            namespace=self.home,
            PYTHONPATH=agent_process.environment()["PYTHONPATH"],
        )
        self.await_line("agent", agent, "listening on")

    def start_controller(self):
        (self.folder / "tokens.yaml").write_text(f"tokens:\n  - name: team\n    token: {TOKEN}\n")
        (self.folder / "topology.yaml").write_text(self.topology())
        controller = self.start(
            "controller", lab.program("switchml-controller"), "--topology", self.folder / "topology.yaml",
            "--tokens", self.folder / "tokens.yaml", "--listen", "10.78.0.254:50051", namespace=self.home,
        )  # fmt: skip
        self.await_line("controller", controller, "listening on")

    def topology(self):
        return f"switches:\n{self.entry()}"

    def entry(self):
        return (
            "  - name: bench\n"
            "    agent: 127.0.0.1:50052\n"
            "    agent_token_file: agent.token\n"
            f"    address: {SWITCH_IP}:48879\n"
        )

    def reduce(self, name, **settings):
        """What every rank got."""
        preset = {
            "SWITCHML_CONTROLLER": "10.78.0.254:50051",
            "SWITCHML_CONTROLLER_TOKEN": TOKEN,
            "SWITCHML_PRECISION": "integer",
            "SWITCHML_RTO_MIN": "200",
            "SWITCHML_RTO_MAX": "2000",
            "GLOO_SOCKET_IFNAME": "data",
        }
        return reducing_rank.run_ranks(self, name, self.workers, {**preset, **settings})

    def reduce_both_ways(self):
        """What every rank got with one shard, and with two; and what it gets from a software switch of the same
        payload, which adds integers too."""
        got = self.reduce("one-shard"), self.reduce("two-shards", SWITCHML_SHARDS="2", SWITCHML_SLOTS="256")
        return got, self.embedded("reference", SWITCHML_PRECISION="integer")

    def embedded(self, name, **more):
        """What as many ranks get from a switch in one of them."""
        settings = {
            "SWITCHML_PAYLOAD": str(4 * self.words),
            "SWITCHML_INTERFACE": "lo",
            "SWITCHML_TRANSPORT": "udp",
            **more,
        }
        return reducing_rank.run_ranks(self, name, [None] * len(self.workers), settings)


@pytest.mark.parametrize("words", (64, 256), ids=("256B", "1024B"))
def test_two_ranks_get_the_bits_of_the_software_switch(tmp_path, words):
    with SwitchLab(tmp_path, words) as network:
        ours, expected = network.reduce_both_ways()
    for got in ours:
        reducing_rank.assert_same(got, expected)
        for rank in got:
            assert rank["stats"]["session"]["payload_bytes"] == 4 * words
            assert SWITCH_IP in rank["stats"]["session"]["switch"]


def test_hosts_add_beside_the_switch_what_is_small(tmp_path):
    """The switch forwards what they send each other."""
    with SwitchLab(tmp_path, 256) as network:
        got = network.reduce("mixed", SWITCHML_PRECISION="auto")
        of_integers, exact = (network.embedded(name, SWITCHML_PRECISION=name) for name in ("integer", "auto"))
    reducing_rank.assert_same(got, reducing_rank.mixed(of_integers, exact))
    assert {rank["stats"]["session"]["precision"] for rank in got} == {"mixed"}
