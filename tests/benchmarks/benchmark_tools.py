"""The tools of benchmarks/: what they make of figures. The figures here are made up; nothing is timed."""

import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path[:0] = [
    str(BENCHMARKS / name) for name in ("common", "targets", "compare", "profile", "ddp", "accuracy", "scale")
]


def main_of(tool):
    """benchmarks/TOOL/__main__.py as a module."""
    spec = importlib.util.spec_from_file_location(f"main_of_{tool}", BENCHMARKS / tool / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
