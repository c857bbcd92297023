"""Every tool of benchmarks/ explains itself: argparse formats a text only when somebody asks for it."""

import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS


@pytest.mark.parametrize("tool", sorted(folder.parent.name for folder in BENCHMARKS.glob("*/__main__.py")))
def test_help(tool):
    found = subprocess.run(
        [sys.executable, str(BENCHMARKS / tool), "--help"], capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"usage: benchmarks/{tool} "), found.stdout


@pytest.mark.parametrize(
    "arguments, error",
    [
        (("--offload",), "--offload needs --network"),
        (("--network", "--offload", "--loss", "0,0.01"), "--offload is not allowed with --loss"),
        (("--per-host", "2"), "--per-host needs --network"),
        (("--no-switch",), "--no-switch needs --network"),
        (("--network", "--rate", "100,none", "--loss", "0.01"), "--rate none is not allowed with --loss"),
        (("--network", "--rate", "no"), "'no' is not allowed"),
        (("--types", "float32,int32"), "'int32' is not allowed: use float32, bfloat16, float16, float64"),
        (
            ("--types", "float64", "--sizes", "1K,12"),
            "a tensor of 12 bytes is not allowed with --types float64: use multiples of 8",
        ),
    ],
)
def test_allreduce_names_options_that_do_not_go_together(arguments, error):
    found = subprocess.run(
        [sys.executable, str(BENCHMARKS / "allreduce"), *arguments], capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 2
    assert "error: " in found.stderr and error in found.stderr, found.stderr
