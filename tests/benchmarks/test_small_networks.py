"""The benchmarks that make networks of their own, for real and in small: they run to their end, and every result of
theirs is verified. Rates are nobody's target."""

import json
import subprocess
import sys

from benchmark_tools import BENCHMARKS

import places
import pytest

PLANNING = BENCHMARKS / "planning"
pytestmark = pytest.mark.skipif(bool(places.lab.missing()), reason=places.lab.missing())


def rows_of(tmp_path, name, *options):
    file = tmp_path / "found.json"
    command = [sys.executable, BENCHMARKS / name, *options, "--json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text())["rows"]


@pytest.mark.skipif(places.lab.program("switchml-controller") is None, reason="switchml-controller is not built")
@pytest.mark.slow
def test_two_racks_by_a_plan(tmp_path):
    for module in ("grpc", "numpy", "scipy", "networkx", "yaml", "torch"):
        pytest.importorskip(module)
    (row,) = rows_of(tmp_path, "planning", "--topology", PLANNING / "two_racks.yaml", "--jobs",
                     PLANNING / "eight_workers.yaml", "--ways", "nearest", "--unit", "50", "--size", "64K", "--iters",
                     "1")  # fmt: skip
    assert row["way"] == "nearest" and row["rate"] > 0


@pytest.mark.slow
def test_a_job_beside_tcp(tmp_path):
    pytest.importorskip("torch")
    (row,) = rows_of(tmp_path, "sharing", "--mixtures", "1+1", "--control", "cubic", "--settling", "0", "--seconds",
                     "2")  # fmt: skip
    assert len(row["rates"]) == 2 and min(row["rates"]) > 0
