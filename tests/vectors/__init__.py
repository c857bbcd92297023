"""Packet sequences with their expected answers, and what runs them against any data plane.

*.txt        the vectors, one file per behaviour; README.md has the grammar
parse.py     text to steps (vector.py)
runner.py    steps against a Target
targets/     what a data plane must offer to be run, and the data planes
model.py     docs/protocol.md as a small program: what generate.py's random sequences expect
"""

import pathlib
import sys

sys.path.append(
    str(pathlib.Path(__file__).resolve().parents[2] / "python")
)  # where no built switchml_agent is installed
