"""Every tool of benchmarks/ explains itself: argparse formats a text only when somebody asks for it."""

import subprocess
import sys

import pytest
from benchmark_tools import BENCHMARKS


@pytest.mark.parametrize("tool", sorted(folder.parent.name for folder in BENCHMARKS.glob("*/__main__.py")))
def test_help(tool):
    found = subprocess.run([sys.executable, str(BENCHMARKS / tool), "--help"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"usage: benchmarks/{tool} "), found.stdout
