"""How vLLM gets this backend, with the real package: `make test-clients`. test_generation.py has what it then does."""

import importlib.util
import json
import os
import subprocess
import sys

import clients
import pytest

PATIENCE = 1200

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="vLLM is not installed: make test-clients")


def test_vllm_starts_its_own_ranks(tmp_path):
    """As a user has it: one process, and VLLM_PLUGINS=switchml."""
    (tmp_path / "config.json").write_text(json.dumps(clients.generation.LLAMA))
    what = {"model": str(tmp_path), "backend": "switchml", "batches": [2], "tokens": 4, "repeats": 1}
    what["out"] = str(tmp_path / "out.json")
    command = [sys.executable, clients.SERVING / "vllm_tokens.py", json.dumps(what)]
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
