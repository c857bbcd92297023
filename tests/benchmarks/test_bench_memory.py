"""bench_memory: what memory allows an all-reduce inside one host."""

import json
import os
import subprocess

from benchmark_tools import BENCHMARKS  # noqa: F401  the path to the next one

import pytest
import repository

PROGRAM = repository.built("benchmarks/micro/bench_memory")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def bench_memory(*arguments):
    return subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_times_of_every_number_of_ranks(tmp_path):
    done = bench_memory("--ranks", "1,3", "--mib", 1, "--rounds", 4, "--json", tmp_path / "memory.json")
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "memory.json").read_text())
    assert content["benchmark"] == "memory" and content["mib"] == 1
    assert [run["ranks"] for run in content["runs"]] == [1, 3]
    for run in content["runs"]:
        assert len(run["seconds"]) == 4 and run["seconds"] == sorted(run["seconds"]) and run["seconds"][0] > 0
    several = len(os.sched_getaffinity(0)) > 1
    assert len(done.stdout.splitlines()) == (7 if several else 3)
    assert ("hand_over" in content) == several
    for times in content.get("hand_over", {}).values():
        assert len(times) == 9 and times == sorted(times) and times[0] > 0


def test_a_single_processor_hands_nothing_over(tmp_path):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        done = bench_memory("--ranks", "1", "--mib", 1, "--rounds", 1, "--json", tmp_path / "memory.json")
    finally:
        os.sched_setaffinity(0, before)
    assert done.returncode == 0, done.stderr
    assert "hand_over" not in json.loads((tmp_path / "memory.json").read_text())


@pytest.mark.parametrize(
    "option, value",
    [("--ranks", "2,65"), ("--ranks", "2,"), ("--mib", "0"), ("--rounds", "many"), ("--json", "/nowhere/x.json")],
)
def test_what_cannot_be_is_refused_by_name(option, value):
    done = bench_memory(*(("--mib", "1", "--rounds", "1", "--ranks", "1") if option == "--json" else ()), option, value)
    assert done.returncode != 0 and option in done.stderr
