"""Software switches above and below the P4 program: four ranks in one tree get the bits of a single software switch.

rank 0 --- port 0 |               | port 2 --- software switch "root", rank 3
rank 1 --- port 1 | simple_switch | port 3 --- software switch "leaf", rank 2
"""

import lab
import pytest
from test_end_to_end import SwitchLab, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
reducing_rank = pytest.importorskip("reducing_rank", reason="needs torch")

ROOT, LEAF = 2, 3  # ports


class MixedLab(SwitchLab):
    def __init__(self, folder, words):
        super().__init__(folder, words, ranks=2, switches=2)
        self.workers += [self.hosts[LEAF], self.hosts[ROOT]]

    def wire(self):
        super().wire()
        self.hosts = {}
        for port, name in ((ROOT, "root"), (LEAF, "leaf")):
            host = self.hosts[port] = self.namespace(name)
            self.plug(port, host, self.ip(port))
            self.do(host, "ip", "link", "set", "data", "address", self.mac(port))
            self.link(self.home, f"to-{name}", host, "agent")
            self.address(self.home, f"to-{name}", f"10.78.{port}.254/24")
            self.address(host, "agent", f"10.78.{port}.1/24")

    @staticmethod
    def ip(port):
        return f"10.77.0.{100 + port}"

    @staticmethod
    def mac(port):
        return f"02:77:00:00:01:{port:02x}"

    def start_controller(self):
        for port, host in self.hosts.items():
            (self.folder / f"{port}.token").write_text(f"token-of-the-agent-{port}\n")
            switch = self.start(
                f"switchd-{port}",
                lab.program("switchml-switchd"),
                "--listen",
                f"{self.ip(port)}:48879",
                "--agent",
                f"10.78.{port}.1:50052",
                "--agent-token-file",
                self.folder / f"{port}.token",
                namespace=host,
            )
            self.await_line(f"switchd-{port}", switch, "agent on ")
        super().start_controller()

    def software(self, name, port, more):
        return (
            f"  - name: {name}\n    agent: 10.78.{port}.1:50052\n    agent_token_file: {port}.token\n"
            f"    address: {self.ip(port)}\n    mac: {self.mac(port)}\n{more}"
        )

    def topology(self):
        above = f"    parent: root\n    parent_port: {ROOT}\n"
        below = f"    parent: bench\n    port_at_parent: {LEAF}\n"
        places = (("bench", "10.77.0.1"), ("bench", "10.77.0.2"), ("leaf", self.ip(LEAF)), ("root", self.ip(ROOT)))
        workers = "".join(f"  - {{name: w{i}, addresses: [{ip}], switch: {at}}}\n" for i, (at, ip) in enumerate(places))
        switches = self.software("root", ROOT, "") + self.entry() + above + self.software("leaf", LEAF, below)
        return f"switches:\n{switches}workers:\n{workers}"


@pytest.mark.parametrize("words", (64, 256), ids=("256B", "1024B"))
def test_p4_between_software_gives_the_bits_of_one_switch(tmp_path, words):
    with MixedLab(tmp_path, words) as network:
        got, expected = network.reduce_both_ways()
    for ours in got:
        reducing_rank.assert_same(ours, expected)
        where = [rank["stats"]["session"]["switch"].split(":")[0] for rank in ours]
        assert where == ["10.77.0.254", "10.77.0.254", network.ip(LEAF), network.ip(ROOT)]
        assert {rank["stats"]["session"]["payload_bytes"] for rank in ours} == {4 * words}
