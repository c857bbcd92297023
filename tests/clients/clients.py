"""What the tests of programs that serve models have in common."""

import sys

import lab

SERVING = lab.ROOT / "benchmarks" / "serving"
sys.path[:0] = [str(SERVING), str(SERVING.parent / "common")]
import generation  # noqa: E402, F401
