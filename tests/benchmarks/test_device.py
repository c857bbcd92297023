"""benchmarks/device, on the tests' own accelerator."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS

sys.path.insert(0, str(BENCHMARKS.parent / "tests" / "python"))
import mock_device

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)


def test_parts_and_the_whole_are_timed(tmp_path):
    out = tmp_path / "device.json"
    (tmp_path / "loads_mock.py").write_text("import mock_device\n\nmock_device.load()\n")
    folders = [tmp_path, pathlib.Path(mock_device.__file__).parent, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, BENCHMARKS / "device", "--sizes", "4K,4M", "--calls", 3, "--json", out]
    command += ["--module", "loads_mock"]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(out.read_text())["runs"]
    assert run["ranks"] == 2 and [row["bytes"] for row in run["rows"]] == [4096, 4 << 20]
    for row in run["rows"]:
        assert row["seconds"]["switchml"].keys() == {"in", "host", "out", "device", "caller"}
        assert min(row["seconds"]["switchml"].values()) > 0
