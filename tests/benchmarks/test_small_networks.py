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


def content_of(tmp_path, name, *options):
    file = tmp_path / "found.json"
    command = [sys.executable, BENCHMARKS / name, *options, "--json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text())


@pytest.mark.skipif(places.lab.program("switchml-controller") is None, reason="switchml-controller is not built")
@pytest.mark.slow
def test_two_racks_by_a_plan(tmp_path):
    for module in ("grpc", "numpy", "scipy", "networkx", "yaml", "torch"):
        pytest.importorskip(module)
    (row,) = content_of(tmp_path, "planning", "--topology", PLANNING / "two_racks.yaml", "--jobs",
                        PLANNING / "eight_workers.yaml", "--ways", "nearest", "--unit", "50", "--size", "64K", "--iters",
                        "1")["rows"]  # fmt: skip
    assert row["way"] == "nearest" and row["rate"] > 0


@pytest.mark.slow
def test_a_job_beside_tcp(tmp_path):
    pytest.importorskip("torch")
    (row,) = content_of(tmp_path, "sharing", "--mixtures", "1+1", "--control", "cubic", "--settling", "0", "--seconds",
                        "2")["rows"]  # fmt: skip
    assert len(row["rates"]) == 2 and min(row["rates"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "transport, most",
    (("udp", {"bf16": 0.56, "fp8": 0.32, "int8": 0.32}), ("tcp", {"bf16": 0.51, "fp8": 0.27, "int8": 0.27})),
)
def test_hooks_send_fewer_bytes(tmp_path, transport, most):
    """Between hosts, with headers and acknowledgements. A datagram has room for sums of its terms, so these do not fill
    it."""
    pytest.importorskip("torch")
    options = ("--ranks", "2,3", "--steps", "1", "--rate", "250", "--transport", transport)
    for run in content_of(tmp_path, "hooks", *options)["runs"]:
        sent = {row["way"]: row["bytes"] for row in run["rows"]}
        assert run["transport"] == transport
        assert all(sent[hook] <= most[hook] * sent["float32"] for hook in most), (run["ranks"], sent)
