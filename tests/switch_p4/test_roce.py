"""What the programs take for a message of a queue pair, and what not, on bmv2 and the Tofino model. The vectors run
over pairs too: targets bmv2-roce and tofino-roce."""

import dataclasses

import pytest
from vectors import roce, vector, wire
from vectors.targets import make_target, pairs, unavailable

SEND_ONLY = 0x24  # of an unreliable pair


@pytest.fixture(scope="module", params=("bmv2-roce", "tofino-roce"))
def target(request):
    if unavailable(request.param):
        pytest.skip(f"{request.param}: {unavailable(request.param)}")
    running = make_target(request.param)
    yield running
    running.close()


@dataclasses.dataclass
class Job:
    """A session of two workers with a pair each."""

    target: pairs.PairedWorkers
    opened: object

    def frame(self, worker, seq=1, **fields):
        packet = wire.Packet(self.opened.job, self.opened.epoch, worker, 0, seq, words=(worker + 1,) * 64)
        return dataclasses.replace(packet, **fields).encode()

    def result(self, seq=1):
        return self.frame(255, seq, kind=wire.KINDS["result"], words=(3,) * 64)

    def moved(self, before):
        return {name: value - before[name] for name, value in self.target.counters().items() if value != before[name]}


@pytest.fixture
def job(target):
    target.reset()
    yield Job(target, target.open_session(vector.Open(0, "A", (0, 1), slots=8, payload=256, shards=1)))
    target.close_session("A")


def test_workers_with_pairs_get_the_result_into_their_memory(target, job):  # [RDMA-10, RDMA-11, RDMA-14, RDMA-15]
    for seq in (1, 2, 3, 4):  # packet numbers wrap after the second
        assert target.send("A.0", job.frame(0, seq)) == []
        assert sorted(target.send("A.1", job.frame(1, seq))) == [("A.0", job.result(seq)), ("A.1", job.result(seq))]
    assert target.send("A.0", job.frame(0, 4, flags=wire.REPEAT)) == [("A.0", job.result(4))]


@pytest.mark.parametrize(
    "fields, reason",
    (
        ({"opcode": roce.OPCODES["write_only"]}, "dropped_kind"),
        ({"opcode": SEND_ONLY}, "dropped_kind"),
        ({"transport_version": 1}, "dropped_kind"),
        ({"pad": 1}, "dropped_length"),
        ({"queue_pair": pairs.STRANGE_PAIR}, "dropped_source"),
    ),
)
def test_what_is_no_message_of_a_member_is_dropped(target, job, fields, reason):  # [RDMA-12, RDMA-13]
    before = target.counters()
    assert target.send_message("A.0", job.frame(0), **fields) == []
    assert job.moved(before) == {reason: 1}
    assert target.send("A.1", job.frame(1)) == [], "a dropped packet changes nothing"
    assert job.moved(before) == {reason: 1, "contributions_added": 1, "uses_started": 1}


@pytest.mark.parametrize("size, reason", ((16, "dropped_short"), (24, "dropped_length"), (272, "dropped_length")))
def test_messages_of_other_lengths_are_dropped(target, job, size, reason):  # [RDMA-12]
    before = target.counters()
    frame = job.frame(0)[:size]
    assert target.send_message("A.0", frame) == []
    assert job.moved(before) == {reason: 1}


def test_a_pair_belongs_to_one_worker_and_one_address(target, job):  # [RDMA-13]
    before = target.counters()
    others = {"queue_pair": target.cards.pair_number("A.1")}
    assert target.send_message("A.0", job.frame(0), **others) == []
    assert target.send_message("A.0", job.frame(1), **others) == []
    assert target.send_datagram("A.0", job.frame(0)) == []
    assert job.moved(before) == {"dropped_source": 3}


def test_the_udp_port_is_the_cards_affair(target, job):  # [RDMA-13]
    before = target.counters()
    assert target.send_message("A.0", job.frame(0), udp_port=0xC123) == []
    assert job.moved(before) == {"contributions_added": 1, "uses_started": 1}


def test_address_rkey_immediate_and_packet_number_are_not_read(target, job):  # [RDMA-12, RDMA-15]
    before = target.counters()
    other = {"address": 2**64 - 1, "rkey": 2**32 - 1, "bytes": 1, "slot": 7, "seq_low": 9, "psn": 0}
    assert target.send_message("A.0", job.frame(0), **other) == []
    assert job.moved(before) == {"contributions_added": 1, "uses_started": 1}


def test_requests_do_not_come_by_pairs(target, job):
    before = target.counters()
    assert target.send("A.0", job.frame(0, kind=wire.KINDS["request"])) == []
    assert job.moved(before) == {"dropped_kind": 1}
