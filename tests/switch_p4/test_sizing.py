"""The tables of docs/switch.md (slots and jobs) and docs/tofino.md (loop ports) are what switch_p4/sizing.py prints."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def sizing(*arguments):
    command = [sys.executable, ROOT / "switch_p4/sizing.py", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    "arguments, number", (((), 9), (("--rtt-us", "100"), 9), (("--loops",), 4)), ids=("15us", "100us", "loops")
)
def test_the_docs_have_its_rows(arguments, number):
    rows = [line for line in sizing(*arguments).stdout.splitlines() if line.startswith("| ")]
    text = "".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in ("switch", "tofino"))
    assert len(rows) == number
    assert [row for row in rows if row not in text] == []


@pytest.mark.parametrize("loop_ports", (1, 2, 3, 4, 6, 8, 17))
@pytest.mark.parametrize("segments", (1, 4))
@pytest.mark.parametrize("pipes", (1, 2, 4))
def test_it_counts_what_the_agent_offers(pipes, segments, loop_ports):
    pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")
    import bfrt_switch
    from switchml_agent import bfrt_program

    sys.path.insert(0, str(ROOT / "switch_p4"))
    import sizing as sizes

    loops = [pipe << 7 | port for pipe in range(pipes) for port in range(loop_ports)]
    offered = bfrt_program.Program.of(bfrt_switch.program_tables(segments), pipes, loops)
    for pages in (1, 2, 7, 30):
        for members in (1, 64):
            fit = min(offered.pages // pages, offered.sessions, offered.places // members)
            assert sizes.jobs_on(pipes, pages * offered.page_slots, segments, members, loop_ports) == fit


def test_slots_hold_the_bandwidth_delay_product():
    row = next(
        line
        for line in sizing("--rtt-us", "20", "--rates", "100", "--payloads", "1024").stdout.splitlines()
        if "| 100 |" in line
    )
    slots = int(row.split("|")[3])
    # 100 Gbit/s for 20 us are 250,000 bytes: 226 packets of 1024 + 86 bytes, and 5 * 16 slots of 306 are for others.
    assert slots == 306


@pytest.mark.parametrize(
    "arguments",
    (("--rtt-us", "0"), ("--payloads", "512"), ("--rates", "0"), ("--members", "65"), ("--loop-ports", "0")),
)
def test_values_that_mean_nothing_are_refused(arguments):
    done = sizing(*arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
