"""Sessions that the driver for BFRuntime installs carry the vectors' packets through the compiled program, on the
Tofino model."""

import dataclasses

import pytest

from vectors import parse, runner, vector, wire
from vectors.targets import bmv2_switch as packets
from vectors.targets import tofino_switch
from vectors.wire import ROOT

pytestmark = pytest.mark.skipif(bool(tofino_switch.missing()), reason=tofino_switch.missing())
try:
    import bfrt_model
    from switchml_agent import frames
except ImportError as error:
    pytest.skip(
        f"{error} (pip install grpcio protobuf, or apt install python3-grpcio python3-protobuf)",
        allow_module_level=True,
    )

# Those for which it matters what is in the tables: all of them, in every role, and that they are gone in time.
OF_TABLES = (
    "jobs_interleaved",
    "reopened_many_times",
    "slot_out_of_range",
    "stale_epoch",
    "tree_leaf",
    "tree_result_from_parent_only",
    "tree_root_with_workers",
    "unknown_job",
    "workers_33",
    "wrong_source",
    "wrong_worker",
)
SHAPES = {
    "256B": (bfrt_model.BfrtTarget, 1, OF_TABLES),
    "1024B": (bfrt_model.BfrtTarget, 4, ("payload_1024",)),
    "256B-pairs": (bfrt_model.BfrtPairsTarget, 1, OF_TABLES),
}


@pytest.fixture(scope="module", params=SHAPES)
def target(request):
    kind, segments, names = SHAPES[request.param]
    made = kind(segments)
    yield names, made
    made.close()


def test_vectors(target):
    names, made = target
    for name in names:
        loaded = parse.load(ROOT / f"tests/vectors/{name}.txt")
        assert not made.capabilities.lacks(loaded.needs), name
        runner.Runner(made).run(loaded)


def test_requests_go_to_the_agent_and_answers_to_the_worker(target):
    _, made = target
    made.reset()
    places = [made.place(name) for name in ("A.0", "A.1", "A.2", "A.3")]  # at ports of two pipes
    for number, place in enumerate(places, 1):
        request = bytes((wire.VERSION << 4 | 3,)) + bytes(range(23))
        datagram = packets.udp(place.udp_port, frames.UDP_PORT, request)
        frame = packets.ethernet(
            packets.SWITCH_MAC, place.mac, 0x0800, packets.ipv4(place.ip, packets.SWITCH_IP, 17, datagram)
        )
        made.switch.inject(place.port, frame)
        ((port, handed_over),) = made.switch.settle()
        assert (port, handed_over) == (bfrt_model.CONTROL_PORT, place.port.to_bytes(2, "big") + frame)
        assert frames.packet_in(handed_over) == (place, request)

        answer = frames.packet_out(place, packets.SWITCH_IP, packets.SWITCH_MAC, b"joined")
        made.switch.inject(bfrt_model.CONTROL_PORT, answer)
        assert made.switch.settle() == [(place.port, answer[2:])]
        assert made.all_counters()[0]["control_requests"] == number


def test_contributors_are_read_from_the_registers(target):
    """In the pipe and at the index where the program has them, in either half of the bitmap and either version."""
    _, made = target
    made.reset()
    members = range(40)
    spec = next(
        step for step in parse.load(ROOT / "tests/vectors/slots_interleaved.txt").steps if isinstance(step, vector.Open)
    )
    made.open_session(dataclasses.replace(spec, name="other", members=(0,), slots=100))
    opened = made.open_session(dataclasses.replace(spec, name="A", members=tuple(members), slots=200))
    words = (1,) * (made.capabilities.payload // wire.WORD_BYTES)

    def send(worker, slot, seq):
        packet = wire.Packet(job=opened.job, epoch=opened.epoch, worker=worker, slot=slot, seq=seq, words=words)
        return made.send(f"A.{worker}", packet.encode())

    for worker, slot, seq in ((3, 199, 7), (39, 199, 7), (31, 199, 8), (32, 5, 7)):
        assert send(worker, slot, seq) == []
    asked = {
        (slot, seq): made.contributors("A", slot, seq)
        for slot, seq in ((199, 7), (199, 8), (5, 7), (5, 8), (199, 5), (199, 9))
    }
    assert asked == {(199, 7): [3, 39], (199, 8): [31], (5, 7): [32], (5, 8): [], (199, 5): list(members), (199, 9): []}
