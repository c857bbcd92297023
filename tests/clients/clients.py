"""What the tests of programs that serve models have in common: two ranks, and a tiny model of random weights."""

import sys

import pytest

import lab

SERVING = lab.ROOT / "benchmarks" / "serving"
BATCHES, NUMBER = [1, 4], 8
NEEDS_HOSTS = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
sys.path[:0] = [str(SERVING), str(SERVING.parent / "common")]
import generation  # noqa: E402


def run(engine, hosts):
    """{backend: what each of two ranks has written}"""
    return generation.run(engine, sys.executable, f"{lab.build_folder()}/python", hosts, BATCHES, NUMBER, 1)


def check(results, way):
    """All have generated the same; the calls of switchml went that way, and none through Gloo."""
    texts = {name: [rank["texts"] for rank in ranks] for name, ranks in results.items()}
    expected = texts["gloo"][0]
    assert {len(text) for text in expected["4"]} == {NUMBER} and len(expected["4"]) == 4
    assert texts == dict.fromkeys(texts, [expected, expected])
    for rank in results["switchml"]:
        (counters,) = rank["counters"]
        assert counters[way] > 100
