"""Loads the planner from the source folder, as the package `planner`: without a build, and without PyTorch. Where a
package is missing, tests are skipped."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

for _package in ("numpy", "scipy", "networkx", "yaml", "matplotlib"):
    pytest.importorskip(_package)

sys.path.insert(0, str(ROOT / "python"))
from _switchml_entry import load_planner  # noqa: E402

sys.path.remove(str(ROOT / "python"))
planner = load_planner("planner", str(ROOT / "python" / "switchml" / "planner"))
