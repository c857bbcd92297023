"""Members with queue pairs, as the agent for bmv2 is told of them: over gRPC, with cards at the ports."""

import dataclasses

import pytest

from vectors import roce, wire
from vectors.targets import bmv2_switch as bmv2

pytestmark = pytest.mark.skipif(bool(bmv2.missing()), reason=bmv2.missing())
try:
    from agent_process import CONTROL, Agent
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

from switchml_agent import api, sessions  # noqa: E402

m = api.messages
JOB = 5
# Each test takes the next epoch, so that what others left in the slots means nothing.
SESSION = m.InstallRequest(job=JOB, epoch=0xB0000000, shards=1, slots=128, payload_bytes=256, members=[0, 1], pages=[7])


@dataclasses.dataclass
class Card:
    """Of a worker at a port of the switch."""

    worker: int
    pair: m.QueuePair
    end: m.QueuePair | None = None  # the switch's
    port: int = 0
    psn: int = 0  # of the next result

    @property
    def ip(self):
        return f"10.77.0.{self.worker + 1}"

    def member(self, **changes):
        place = m.SwitchPlace(address=f"{self.ip}:5000", mac=f"02:77:00:00:00:{self.worker + 1:02x}", port=self.port)
        fields = {"job": JOB, "epoch": SESSION.epoch, "worker": self.worker, "place": place, "pair": self.pair}
        return m.SetMemberRequest(**{**fields, **changes})

    def join(self, agent):
        self.end = agent.call("SetMember", self.member()).pair
        self.psn = self.end.first_psn

    def contribute(self, switch, seq):
        frame = wire.Packet(JOB, SESSION.epoch, self.worker, 0, seq, words=(self.worker + 1,) * 64).encode()
        message = roce.message(frame, queue_pair=self.end.number)
        datagram = bmv2.udp(0xC000, roce.PORT, message + bytes(roce.CHECK_BYTES))
        packet = bmv2.ipv4(self.ip, bmv2.SWITCH_IP, 17, datagram)[: -roce.CHECK_BYTES]
        packet += roce.invariant_check(packet)
        switch.inject(self.port, bmv2.ethernet(bmv2.SWITCH_MAC, "02:77:00:00:00:01", 0x0800, packet))
        return [(port, out) for port, out in switch.settle(self.port) if port != CONTROL]

    def takes(self, frame):
        """The result, if the card would take it."""
        packet = frame[14:]
        fields, message = roce.split(packet[28:])
        result = wire.Packet.decode(message)
        place = (result.slot << 1 | result.seq & 1) << roce.place_bits(256)
        assert (fields["queue_pair"], fields["rkey"]) == (self.pair.number, self.pair.rkey)
        assert fields["address"] == self.pair.address + place
        assert fields["psn"] == self.psn
        assert packet[-4:] == roce.invariant_check(packet[:-4])
        self.psn = (self.psn + 1) % 2**24
        return result


def cards():
    return [
        Card(worker, m.QueuePair(number=0x100 + worker, rkey=77 + worker, address=(worker + 1) << 32), port=worker + 1)
        for worker in (0, 1)
    ]


@pytest.fixture(scope="module")
def running_agent(tmp_path_factory):
    switch = bmv2.Bmv2Switch(control=CONTROL, bare=True)
    started = Agent(switch, tmp_path_factory.mktemp("agent"))
    yield started
    assert started.stop() == (0, "")
    switch.close()


@pytest.fixture
def agent(running_agent):
    SESSION.epoch += 1
    running_agent.call("Install", SESSION)
    yield running_agent
    running_agent.call("Reset", m.ResetRequest())


def dropped(agent):
    found = {each.job: each.values for each in agent.call("Counters", m.CountersRequest()).jobs}
    return found[JOB]["dropped_source"]


def use(agent, alice, bob, seq):
    """One use of slot 0."""
    assert alice.contribute(agent.switch, seq) == []
    out = dict(bob.contribute(agent.switch, seq))
    results = [alice.takes(out.pop(alice.port)), bob.takes(out.pop(bob.port))]
    assert out == {}
    assert [(result.seq, set(result.words)) for result in results] == [(seq, {3})] * 2


def test_members_with_pairs_get_results_in_their_memory(agent):  # [RDMA-10, RDMA-13, RDMA-15]
    alice, bob = cards()
    for card in (alice, bob):
        card.join(agent)
        assert card.end.number == sessions.pair_number(JOB, card.worker, 0)
    for seq in (1, 2, 3):
        use(agent, alice, bob, seq)


def test_the_same_pair_again_changes_nothing(agent):  # [MEET-4]
    alice, bob = cards()
    alice.join(agent)
    bob.join(agent)
    use(agent, alice, bob, 1)
    assert agent.call("SetMember", alice.member()).pair == alice.end
    use(agent, alice, bob, 2)


def test_another_pair_replaces_the_first(agent):  # [MEET-4]
    alice, bob = cards()
    alice.join(agent)
    bob.join(agent)
    use(agent, alice, bob, 1)
    alice.pair.number, alice.pair.address = 0x999, 9 << 32
    alice.join(agent)
    use(agent, alice, bob, 2)


def test_a_member_may_go_on_with_datagrams(agent):
    alice, bob = cards()
    alice.join(agent)
    bob.join(agent)
    before = dropped(agent)
    assert not agent.call("SetMember", alice.member(pair=None)).HasField("pair")
    assert alice.contribute(agent.switch, 1) == []
    assert dropped(agent) == before + 1


def test_pairs_end_with_their_session(agent):  # [MEET-5]
    for card in cards():
        card.join(agent)
    agent.call("Remove", m.RemoveRequest(job=JOB, epoch=SESSION.epoch))
    assert agent.switch.console.ask("table_num_entries", "pairs").split()[-1] == "0"


@pytest.mark.parametrize(
    "changes, problem",
    (
        ({"shard": -1}, "worker 0: a pair is for one shard, not for all"),
        ({"pair": m.QueuePair(number=1)}, "pair number 1: allowed are 2 to 16777215"),
        ({"pair": m.QueuePair(number=2**24)}, "pair number 16777216: allowed are 2 to 16777215"),
        ({"pair": m.QueuePair(number=9, address=4096)}, "pair address 0x1000: allowed are multiples of 2^32"),
    ),
)
def test_what_is_no_pair_is_refused(agent, changes, problem):
    assert agent.status("SetMember", cards()[0].member(**changes)) == ("INVALID_ARGUMENT", problem)
