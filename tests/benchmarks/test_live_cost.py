"""benchmarks/status, as a whole."""

import json
import subprocess
import sys

from benchmark_tools import BENCHMARKS


def test_a_stopped_rank_is_named_and_pages_have_a_cost(tmp_path):
    out = tmp_path / "status.json"
    command = [sys.executable, BENCHMARKS / "status", "--ranks", 2, "--trials", 2, "--rounds", 2, "--json", out]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is named in 2 of 2 trials" in done.stdout and "a DDP step" in done.stdout, done.stdout
    (run,) = json.loads(out.read_text())["runs"]
    (row,) = run["rows"]
    assert row["named"] == len(row["seconds"]) == 2
    assert set(row["costs"]) == {"calls", "steps"}
    assert all(len(costs["with_page"]) == 2 and costs["cost"] > 0 for costs in row["costs"].values())
