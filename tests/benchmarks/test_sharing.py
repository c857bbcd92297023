"""benchmarks/sharing: what it makes of what ranks and receivers say. Nothing is measured."""

import argparse

from benchmark_tools import BENCHMARKS, main_of

import pytest
import report


@pytest.fixture(name="sharing")
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "sharing"))
    return main_of("sharing")


def test_fairness_is_one_where_all_get_the_same():
    assert report.jain([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert report.jain([1, 1]) == 1 and report.jain([1, 1 / 1e9]) == pytest.approx(0.5)
    assert report.jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(1 / 4)


def test_calls_at_either_end_count_in_part(sharing):
    ended = [1.0, 3.0, 4.0, 8.0]  # of 2, 1 and 4 seconds
    assert sharing.finished_between(ended, 2.0, 5.0, 100) == pytest.approx(50 + 100 + 25)
    assert sharing.finished_between(ended, 8.0, 9.0, 100) == 0


def test_bytes_of_tcp_are_those_between_two_moments(sharing):
    lines = ["listening", "[1.0, 10]", "[2.0, 30]", "[3.0, 70]", "[4.0, 90]"]
    assert sharing.received_between(lines, 1.5, 3.5) == 40
    with pytest.raises(AssertionError, match="nothing"):
        sharing.received_between(lines, 9.0, 10.0)


def test_mixtures_are_jobs_and_flows(sharing):
    assert sharing.mixture("4") == (4, 0) and sharing.mixture("2+1") == (2, 1)
    for text in ("0", "17", "2+17", "+1", "two", "-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="JOBS"):
            sharing.mixture(text)
