"""Options of these tests, and what they find beside them.

--netlab-minutes N   all-reduces under loss for N minutes, and comparisons of times (make soak); without it
                     the first in short
"""

import argparse
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "python")]

import faults  # noqa: E402
import lab  # noqa: E402


def minutes(text):
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10080:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed: use more than 0, up to 10080 (minutes)")
    return value


def pytest_addoption(parser):
    parser.addoption(
        "--netlab-minutes", type=minutes, metavar="N", help="a soak of N minutes (more than 0, up to 10080)"
    )


@pytest.fixture(scope="session", autouse=True)
def needs(tmp_path_factory):
    """Says what is lacking, where something is."""
    why = faults.missing() or ("" if lab.program("switchml-switchd") else "switchml-switchd is not built")
    why = why or faults.refusal(tmp_path_factory.mktemp("trial"))
    if why:
        pytest.skip(f"no network with faults: {why}")


@pytest.fixture(scope="session")
def quiet_machine(soak_minutes):
    """For tests that compare times."""
    if soak_minutes is None:
        pytest.skip("compares times; run with --netlab-minutes, beside nothing else")


@pytest.fixture(scope="session")
def soak_minutes(request):
    """None: the short form."""
    return request.config.getoption("--netlab-minutes")
