"""What switch_p4/tna can hold, and which entries a session takes in its tables: of the driver for BFRuntime, without a
switch."""

import itertools
import re

import pytest

pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")

import bfrt_switch
from switchml_agent import api, bfrt_program, bfrt_tables, frames, sessions
from vectors.wire import ROOT

m = api.messages


# ---- the program ----


def program(segments=1, pipes=4, loop_ports=None, pairs=False, sessions=72):
    loops = tuple(pipe << 7 | 68 for pipe in range(pipes)) if loop_ports is None else loop_ports
    pages = 80 * min(pipes, segments) // segments
    return bfrt_program.Program(256 * segments, 64, sessions, pages, 128, 32, 4096, segments, pipes, loops, pairs)


def test_a_program_is_known_by_its_tables():
    loops = (68, 196, 324, 452)
    assert bfrt_program.Program.of(bfrt_switch.program_tables(1), 4, loops) == program()
    tables = bfrt_switch.program_tables(4)
    assert [bfrt_program.Program.of(tables, pipes, loops[:pipes]).pages for pipes in (4, 2, 1)] == [80, 40, 20]
    assert bfrt_program.Program.of(tables, 2, loops[:2]) == program(4, 2, sessions=78)


def test_another_program_is_refused():
    tables = bfrt_switch.Switch().tables
    del tables[bfrt_program.HOMES]
    with pytest.raises(bfrt_program.NotSwitchml, match=re.escape(f"has no {bfrt_program.HOMES}: load the one")):
        bfrt_program.Program.of(tables, 4, ())


def test_page_slots_are_those_of_the_program():
    sizes = (ROOT / "switch_p4/sizes.p4").read_text(encoding="utf-8")
    assert f"#define PAGE_SLOTS {bfrt_program.PAGE_SLOTS}\n" in sizes


def test_passes_are_those_of_the_program():
    """By the steps of passes.p4: those that take words in, and from which half each other one reads."""
    source = (ROOT / "switch_p4/tna/passes.p4").read_text(encoding="utf-8")
    steps = [int(step) for step in re.findall(r"\(_, \d+, \w+ ANY_CARRIER\): (?:consume|give_\w+)\((\d+)\)", source)]
    assert sorted(set(steps)) == list(range(1, len(bfrt_program.LATER_PASSES[4]) + 1))


@pytest.mark.parametrize("segments", (1, 4))
@pytest.mark.parametrize("pipes", (1, 2, 4))
def test_no_two_pages_share_registers(segments, pipes):
    made = program(segments, pipes)
    for home in range(pipes):  # any two jobs: pages are theirs alone, wherever the segments lie
        held = [(made.pipe(home, i), made.page(page, i)) for page in range(made.pages) for i in range(segments)]
        assert len(set(held)) == len(held) and max(page for _, page in held) < 80
    owners = {}
    for home, page, i in itertools.product(range(pipes), range(made.pages), range(segments)):
        assert owners.setdefault((made.pipe(home, i), made.page(page, i)), page) == page


def test_jobs_are_spread_over_pipes_and_their_loop_ports():
    made = program(loop_ports=(68, 72, 76, 196, 200, 324, 452))
    assert [made.first_home(job) for job in range(1, 9)] == [1, 2, 3, 0, 1, 2, 3, 0]
    assert [made.ways(job, job % 4) for job in (1, 2, 3, 4)] == [(196, 200), (324,), (452,), (72, 76)]
    assert [made.ways(job, job % 4) for job in (5, 8)] == [(200, 196), (76, 68)]
    wide = program(4, 4)
    assert [wide.ways(1, 1, segment) for segment in range(4)] == [(196,), (324,), (452,), (68,)]
    for ports, ways in ((4, 4), (7, 4), (8, 8), (15, 8), (17, 16), (30, 16)):
        assert len(set(program(loop_ports=range(64, 64 + ports)).ways(4, 0))) == ways


# ---- a session in the tables ----


@pytest.mark.parametrize(
    "first, count", [(128 * page, count) for page in (0, 3, 79) for count in (1, 2, 127, 128)] + [(0, 77)]
)
def test_patterns_match_these_slots_once(first, count):
    patterns = bfrt_tables.slot_patterns(first, count)
    hits = [slot for slot in range(2**14) for value, mask in patterns if slot & mask == value]
    assert hits == list(range(first, first + count)) and len(patterns) <= 7


def session(**changes):
    fields = {"job": 3, "epoch": 7, "shards": 1, "slots": 130, "payload_bytes": 256, "members": [2, 5], "pages": [9, 4]}
    made = program(changes.pop("segments", 1), changes.pop("pipes", 4))
    request = m.InstallRequest(**{**fields, "payload_bytes": made.payload, **changes})
    parent = frames.Place("10.0.0.2", frames.UDP_PORT, "02:00:00:00:00:02", 4)
    return all_entries(sessions.session_of(request, made, lambda place, name: parent), made)


def all_entries(session, made):
    """With the ways to the job's first home, and open."""
    entries = []
    for entry in bfrt_tables.session_entries(session, made):
        is_ways = isinstance(entry, bfrt_tables.Ways)
        entries += bfrt_tables.way_entries(session, made, made.first_home(session.job)) if is_ways else [entry]
    return [*entries, bfrt_tables.opening(session)]


def of(entries, table):
    return [
        (entry.keys, entry.values) for entry in entries if isinstance(entry, bfrt_tables.Entry) and entry.table == table
    ]


def test_entries_of_a_session():
    made = session()
    job = {"headers.switchml.job": 3}
    assert made[0] == sessions.Group(48)
    low = {"$MATCH_PRIORITY": 0}
    way = job | low | {"headers.bridge.step": (1, 15), "headers.switchml.slot": (0, 0)}
    assert of(made, bfrt_program.LOOPS) == [(way, {"port": 3 << 7 | 68, "segment": 0})]
    homes = [(job | low | {"intrinsic.ingress_port": (pipe << 7, 0x180)}, {"port": 3 << 7 | 68}) for pipe in (0, 1, 2)]
    assert of(made, bfrt_program.HOMES) == homes
    page = job | low | {"headers.bridge.segment": 0}
    assert of(made, bfrt_program.PAGES) == [
        (page | {"headers.switchml.slot": (0, 0xFF80)}, {"number": 9, "shard": 0, "audience": 48}),
        (page | {"headers.switchml.slot": (128, 0xFFFE)}, {"number": 4, "shard": 0, "audience": 48}),
    ]
    assert of(made, bfrt_program.UPLINKS) == []
    assert of(made[-1:], bfrt_program.SESSIONS) == [(job | {"headers.switchml.epoch": 7}, {"workers": 2})]


def test_entries_of_a_leaf_of_four_segments():
    uplink = m.Uplink(worker=2, parent=m.SwitchPlace(address="10.0.0.2:48879"))
    made = session(segments=4, pipes=2, slots=256, shards=2, uplink=uplink)
    ways = [
        (keys["headers.bridge.step"][0], values["segment"], values["port"])
        for keys, values in of(made, bfrt_program.LOOPS)
    ]
    # Job 3 begins in pipe 1, so even segments are there.
    assert ways == [
        (1, 1, 68),
        (2, 2, 196),
        (3, 3, 68),
        (4, 3, 68),
        (5, 2, 196),
        (6, 2, 196),
        (7, 1, 68),
        (8, 1, 68),
        (9, 0, 196),
        (10, 0, 196),
    ]
    pages = [
        (keys["headers.bridge.segment"], values["number"], values["shard"])
        for keys, values in of(made, bfrt_program.PAGES)
    ]
    assert pages == [(0, 18, 0), (1, 18, 0), (2, 19, 0), (3, 19, 0), (0, 8, 1), (1, 8, 1), (2, 9, 1), (3, 9, 1)]
    leaf = {"worker": 2, "mac": 0x020000000002, "ip": 0x0A000002, "port": 4}
    assert of(made, bfrt_program.UPLINKS) == [({"headers.switchml.job": 3}, leaf)]


def test_several_ways_share_by_slot_and_by_port():
    made = program(pipes=2, loop_ports=(68, 72, 196))
    entries = all_entries(sessions.Session(2, 7, 1, 1, (0,), (0,)), made)
    ways = [(keys["headers.switchml.slot"], values["port"]) for keys, values in of(entries, bfrt_program.LOOPS)]
    assert ways == [((0, 1), 72), ((1, 1), 68)]
    ways = [(keys["intrinsic.ingress_port"], values["port"]) for keys, values in of(entries, bfrt_program.HOMES)]
    assert ways == [((128, 0x184), 72), ((132, 0x184), 68)]


def test_bits_of_64_members():
    made = sessions.Session(3, 7, 1, 1, tuple(range(10, 74)), (0,))
    values = [next(bfrt_tables.worker_entries(made, worker)).values for worker in (10, 41, 42, 73)]
    assert values == [
        {"lower": 1, "upper": 0},
        {"lower": 2**31, "upper": 0},
        {"lower": 0, "upper": 1},
        {"lower": 0, "upper": 2**31},
    ]
