"""Engines that serve models over this backend, with the real packages: two ranks with tensor parallelism, and a tiny
model of random weights: `make test-clients`."""

import importlib.util
import sys

import clients
import pytest

import lab

BATCHES, NUMBER = [1, 4], 8
NEEDS_HOSTS = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
EACH_ENGINE = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(name, marks=pytest.mark.skipif(not importlib.util.find_spec(name), reason=f"{name} is not there"))
        for name in clients.generation.ENGINES
    ],
)


def run(engine, hosts):
    """{backend: what each of two ranks has written}"""
    python = f"{lab.build_folder()}/python"
    return clients.generation.run(engine, sys.executable, python, hosts, BATCHES, NUMBER, 1)


def check(results, way):
    """All have generated the same; the calls of switchml went that way."""
    texts = {name: [rank["texts"] for rank in ranks] for name, ranks in results.items()}
    expected = texts["gloo"][0]
    assert {len(text) for text in expected["4"]} == {NUMBER} and len(expected["4"]) == 4
    assert texts == dict.fromkeys(texts, [expected, expected])
    for rank in results["switchml"]:
        (counters,) = rank["counters"]
        assert counters[way] > 100


@EACH_ENGINE
def test_two_ranks_of_one_host_generate_what_they_do_over_the_engines_own_memory(engine):
    results = run(engine, 1)
    assert set(results) == {"switchml", "gloo", engine}
    check(results, "calls_memory")


@NEEDS_HOSTS
@EACH_ENGINE
def test_two_hosts(engine):
    check(run(engine, 2), "calls_switch")
