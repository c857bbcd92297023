"""The vectors' package, from tests/; the agent's where no built one is installed, from python/."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.append(str(ROOT / "python"))
