"""Three simple_switch processes wired to a tree, each with its agent: four workers get the sum, whatever is lost
between them.

    worker 0, worker 1 --- leaf A \\
                                   root
    worker 2, worker 5 --- leaf B /
"""

import random
import select
import threading
import time

import pytest

from vectors import wire
from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())
try:
    from agent_process import CONTROL, Agent
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

from switchml_agent import api, frames  # noqa: E402

m = api.messages
JOB, EPOCH, SLOTS, USES = 3, 0xC0FFEE01, 4, 20
UPLINK = 2  # port of a leaf; the root has leaf A at port 0 and leaf B at port 1
RANKS = {"A": (0, 1), "B": (2, 5)}
PATIENCE = 60.0


def ip_of(name):
    return f"10.77.9.{ord(name)}"


def mac_of(name):
    return f"02:77:99:00:00:{ord(name):02x}"


def switch_place(name, port):
    return m.SwitchPlace(address=f"{ip_of(name)}:{frames.UDP_PORT}", mac=mac_of(name), port=port)


class Wire:
    """Carries frames both ways between two ports, but for those that it loses."""

    def __init__(self, one, other, loss, seed):
        self.ends, self.loss, self.random = (one, other), loss, random.Random(seed)
        self.lost = self.carried = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.is_set():
            for ready in select.select(self.ends, [], [], 0.1)[0]:
                frame, address = ready.recvfrom(65536)
                if address[2] == bmv2.PACKET_OUTGOING:
                    continue
                if self.random.random() < self.loss:
                    self.lost += 1
                else:
                    self.carried += 1
                    self.ends[ready is self.ends[0]].send(frame)

    def stop(self):
        self.ended.set()
        self.thread.join()


class Rank:
    """A worker at a leaf, with the socket of the leaf's port."""

    def __init__(self, number, leaf, port, socket):
        self.number, self.leaf, self.port, self.socket = number, leaf, port, socket
        self.ip, self.mac, self.udp_port = f"10.77.8.{number + 1}", f"02:77:88:00:00:{number + 1:02x}", 7000 + number
        self.results = {}  # by (slot, seq)

    @property
    def place(self):
        return m.SwitchPlace(address=f"{self.ip}:{self.udp_port}", mac=self.mac, port=self.port)

    def contribute(self, packet):
        datagram = bmv2.udp(self.udp_port, frames.UDP_PORT, packet.encode())
        packet = bmv2.ipv4(self.ip, ip_of(self.leaf), 17, datagram)
        self.socket.send(bmv2.ethernet(mac_of(self.leaf), self.mac, 0x0800, packet))

    def take(self):
        """Keeps what came; a result that came before must come with the same bytes."""
        frame, address = self.socket.recvfrom(65536)
        if address[2] == bmv2.PACKET_OUTGOING:
            return
        packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
        assert frame[:6] == bmv2.mac_bytes(self.mac) and frame[6:12] == bmv2.mac_bytes(mac_of(self.leaf))
        result = wire.Packet.decode(packet[28:])
        assert (result.kind, result.worker, result.job, result.epoch) == (2, 255, JOB, EPOCH)
        assert self.results.setdefault((result.slot, result.seq), result) == result


class Tree:
    def __init__(self, folder, loss):
        self.switches, self.agents, self.wires, self.ranks = {}, {}, [], []
        try:
            for name in "ABR":
                self.switches[name] = bmv2.Bmv2Switch(control=CONTROL, bare=True)
                home = folder / name
                home.mkdir()
                self.agents[name] = Agent(self.switches[name], home, ip=ip_of(name), mac=mac_of(name))
            for port, leaf in enumerate("AB"):
                ends = self.switches[leaf].ports[UPLINK], self.switches["R"].ports[port]
                self.wires.append(Wire(*ends, loss, seed=port))
            self.install()
        except BaseException:
            self.close()
            raise

    def install(self):
        session = {"job": JOB, "epoch": EPOCH, "shards": 1, "slots": SLOTS, "payload_bytes": 256}
        self.agents["R"].call("Install", m.InstallRequest(**session, members=[0, 2], pages=[5]))
        for port, leaf in enumerate("AB"):
            first = RANKS[leaf][0]
            self.set_member("R", first, -1, switch_place(leaf, port))
            uplink = m.Uplink(worker=first, parent=switch_place("R", UPLINK))
            self.agents[leaf].call(
                "Install", m.InstallRequest(**session, members=RANKS[leaf], pages=[port], uplink=uplink)
            )
            for at, number in enumerate(RANKS[leaf]):
                self.ranks.append(Rank(number, leaf, at, self.switches[leaf].ports[at]))
                self.set_member(leaf, number, 0, self.ranks[-1].place)

    def set_member(self, switch, worker, shard, place):
        request = m.SetMemberRequest(job=JOB, epoch=EPOCH, worker=worker, shard=shard, place=place)
        self.agents[switch].call("SetMember", request)

    def aggregate(self, contributions):
        """Has every rank contribute {rank: packet} until it has the result; returns the results."""
        wanted = {packet.slot for packet in contributions.values()}.pop(), contributions[0].seq
        end, repeat = time.monotonic() + PATIENCE, 0
        while True:
            waiting = [rank for rank in self.ranks if wanted not in rank.results]
            if not waiting:
                return [rank.results[wanted] for rank in self.ranks]
            assert time.monotonic() < end, f"ranks {[rank.number for rank in waiting]} wait for {wanted}"
            for rank in waiting:
                packet = contributions[rank.number]
                rank.contribute(wire.Packet(**{**vars(packet), "flags": packet.flags | repeat}))
            repeat = wire.REPEAT
            self.listen(0.1, wanted)

    def listen(self, seconds, wanted):
        """Until everybody has what is wanted, or nothing has come for so long."""
        by_socket = {rank.socket: rank for rank in self.ranks}
        while any(wanted not in rank.results for rank in self.ranks):
            ready = select.select(by_socket, [], [], seconds)[0]
            if not ready:
                return
            for one in ready:
                by_socket[one].take()

    def counters(self, switch):
        jobs = self.agents[switch].call("Counters", m.CountersRequest()).jobs
        return next(dict(each.values) for each in jobs if each.job == JOB)

    def close(self):
        for each in self.wires:
            each.stop()
        for agent in self.agents.values():
            agent.stop()
        for switch in self.switches.values():
            switch.close()


@pytest.mark.parametrize("loss", (0.0, 0.3))
def test_four_workers_get_one_sum(tmp_path, loss):
    numbers = random.Random(7)
    tree = Tree(tmp_path, loss)
    try:
        for turn in range(USES):
            slot, seq, operation = turn % SLOTS, 1 + turn // SLOTS, turn % 3 == 2
            packets = {
                rank.number: wire.Packet(
                    job=JOB, epoch=EPOCH, worker=rank.number, slot=slot, seq=seq, flags=int(operation),
                    exponent=numbers.randrange(2**16), witness=numbers.randrange(2**32),
                    words=tuple(numbers.randrange(-(2**31), 2**31) for _ in range(64)),
                ) for rank in tree.ranks
            }  # fmt: skip
            combine = max if operation else lambda column: wire.wrap(sum(column))
            expected = wire.Packet(
                kind=2, job=JOB, epoch=EPOCH, worker=255, slot=slot, seq=seq, flags=int(operation),
                exponent=max(packet.exponent for packet in packets.values()),
                witness=sum(packet.witness for packet in packets.values()) % 2**32,
                words=tuple(combine(column) for column in zip(*(packet.words for packet in packets.values()))),
            )  # fmt: skip
            assert tree.aggregate(packets) == [expected] * 4
        assert [tree.counters(name)["uses_completed"] for name in "ABR"] == [USES] * 3
        assert tree.counters("R")["contributions_added"] == 2 * USES
        if loss:
            assert sum(each.lost for each in tree.wires) > 0
            assert tree.counters("R")["duplicates_answered"] > 0
    finally:
        tree.close()
