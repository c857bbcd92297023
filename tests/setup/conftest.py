"""How to run: `make test`, or `.venv/bin/python -m pytest tests/setup`."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    """Tests of other folders set a transport for all of the process."""
    for name in [name for name in os.environ if name.startswith("SWITCHML_") and not name.startswith("SWITCHML_TEST")]:
        monkeypatch.delenv(name)
