"""README and the pages of docs/, as a new user reads them."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_readme_can_be_read_at_once():
    assert len((ROOT / "README.md").read_text().split()) <= 900
