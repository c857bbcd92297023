"""Every tool of benchmarks/ explains itself: argparse formats a text only when somebody asks for it."""

import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS


@pytest.mark.parametrize("tool", sorted(folder.parent.name for folder in BENCHMARKS.glob("*/__main__.py")))
def test_help(tool):
    found = subprocess.run([sys.executable, str(BENCHMARKS / tool), "--help"], capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"usage: benchmarks/{tool} "), found.stdout


@pytest.mark.parametrize(
    "arguments, error",
    [
        (("--offload",), "--offload needs --network"),
        (("--network", "--offload", "--loss", "0,0.01"), "--offload is not allowed with --loss"),
        (("--per-host", "2"), "--per-host needs --network"),
    ],
)
def test_allreduce_names_options_that_do_not_go_together(arguments, error):
    found = subprocess.run([sys.executable, str(BENCHMARKS / "allreduce"), *arguments], capture_output=True, text=True, timeout=300)
    assert found.returncode == 2
    assert f"error: {error}" in found.stderr, found.stderr
