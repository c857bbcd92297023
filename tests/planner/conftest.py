"""How to run: `make test`, or `python -m pytest tests/planner` with a Python that has scipy, networkx, PyYAML and
matplotlib. No build and no PyTorch is needed.

--planner-cases N   so many random topologies (300 unless given)
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "benchmarks" / "planner")]


def pytest_addoption(parser):
    parser.addoption("--planner-cases", type=int, default=300, help="random topologies that are planned")
