"""How to run: `make test`, or `python -m pytest tests/planner` with a Python that has scipy, networkx and PyYAML. No
build and no PyTorch is needed.

    --planner-cases N   so many random topologies (300 unless given)"""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "python" / "switchml")]

NEEDED = {"numpy": "numpy", "scipy": "scipy", "networkx": "networkx", "yaml": "PyYAML"}
MISSING = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]


def pytest_addoption(parser):
    parser.addoption("--planner-cases", type=int, default=300, help="random topologies that are planned")


def pytest_ignore_collect(collection_path):
    if MISSING and collection_path.name.startswith("test_") and collection_path.name != "test_planner_packages.py":
        return True
    return None
