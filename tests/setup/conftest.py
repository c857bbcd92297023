"""How to run: `make test`, or `.venv/bin/python -m pytest tests/setup`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
