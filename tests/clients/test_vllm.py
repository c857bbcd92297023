"""vLLM over this backend, with the real package and a tiny model of random weights: `make test-clients`."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import lab

SERVING = lab.ROOT / "benchmarks" / "serving"
BATCHES, NUMBER = [1, 4], 8
PATIENCE = 1200

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="vLLM is not installed: make test-clients")


@pytest.fixture(scope="module")
def generation():
    sys.path[:0] = [str(SERVING), str(SERVING.parent / "common")]
    import generation

    return generation


def run(generation, hosts):
    """{backend: what tokens.py has of each of two ranks}"""
    return generation.run(sys.executable, f"{lab.build_folder()}/python", hosts, BATCHES, NUMBER, 1)


def check(results, way):
    """All have generated the same; the calls of switchml went that way, and none through Gloo."""
    texts = {name: [rank["texts"] for rank in ranks] for name, ranks in results.items()}
    expected = texts["gloo"][0]
    assert {len(text) for text in expected["4"]} == {NUMBER} and len(expected["4"]) == 4
    assert texts == dict.fromkeys(texts, [expected, expected])
    for rank in results["switchml"]:
        (counters,) = rank["counters"]
        assert counters[way] > 100


def test_two_ranks_of_one_host_generate_what_they_do_over_vllms_own_memory(generation):
    results = run(generation, 1)
    assert set(results) == {"switchml", "gloo", "vllm"}
    check(results, "calls_memory")


@pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
def test_two_hosts(generation):
    check(run(generation, 2), "calls_switch")


def test_vllm_starts_its_own_ranks(generation, tmp_path):
    """As a user has it: one process, and VLLM_PLUGINS=switchml."""
    (tmp_path / "config.json").write_text(json.dumps(generation.LLAMA))
    what = {"model": str(tmp_path), "backend": "switchml", "batches": [2], "tokens": 4, "repeats": 1}
    what["out"] = str(tmp_path / "out.json")
    command = [sys.executable, generation.TOKENS, json.dumps(what)]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    counters = json.loads((tmp_path / "out.json").read_text())["counters"]
    assert [each["calls_memory"] > 50 for each in counters] == [True, True], counters


@pytest.mark.parametrize("plugins, backend", ((None, "gloo"), ("another", "gloo"), ("another,switchml", "switchml")))
def test_only_who_names_the_plug_in_gets_it(plugins, backend):
    script = """
from vllm.platforms import current_platform
from vllm.plugins import load_general_plugins

load_general_plugins()
print(current_platform.dist_backend, current_platform.get_device_communicator_cls())
"""
    environment = {name: value for name, value in os.environ.items() if name != "VLLM_PLUGINS"}
    if plugins:
        environment["VLLM_PLUGINS"] = plugins
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    said = done.stdout.splitlines()[-1].split() if done.stdout else [done.stderr]
    own = "switchml._vllm.Communicator"
    assert said[0] == backend and (said[1] == own) == (backend == "switchml"), done.stdout + done.stderr
