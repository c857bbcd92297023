"""The examples of frameworks end with Gloo's weights, to the bit, with nothing changed but the backend's name.

Their calls go the way that docs/collectives.md has for them. (test_parallelism.py has what belongs to PyTorch.)
"""

import functools
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile

import pytest

import harness
from documented import ROOT, documented_way
from harness import TORCH

pytestmark = [
    pytest.mark.skipif(TORCH < (2, 8), reason="the frameworks' present versions want a newer PyTorch"),
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="compares with Gloo"),
]

DATA_PARALLEL = {"all_reduce", "broadcast", "all_gather"}
SHARDING = {"all_gather_into_tensor", "reduce_scatter_tensor"}
#: What it needs, the example with its arguments, the calls that it makes.
SCRIPTS = {
    "FSDP2": ("torch.distributed.fsdp", ("with_fsdp2.py",), SHARDING),
    "Lightning, DDP": ("lightning", ("with_lightning.py", "ddp"), DATA_PARALLEL),
    "Lightning, FSDP2": ("lightning", ("with_lightning.py", "fsdp2"), SHARDING),
    "accelerate": ("accelerate", ("with_accelerate.py",), DATA_PARALLEL),
    "transformers": ("transformers", ("with_transformers.py",), DATA_PARALLEL),
    "DeepSpeed, ZeRO 1": ("deepspeed", ("with_deepspeed.py", "1"), {"all_reduce", "all_gather_into_tensor"}),
    "DeepSpeed, ZeRO 2": ("deepspeed", ("with_deepspeed.py", "2"), {"all_reduce", "all_gather_into_tensor"}),
    "DeepSpeed, ZeRO 3": ("deepspeed", ("with_deepspeed.py", "3"), SHARDING),
}


@functools.cache
def results_of(package):
    """{name: {backend: outcome}}, as examples_runner.py says, of all scripts of a package, which is imported once."""
    scripts = {name: script for name, (needed, script, _) in SCRIPTS.items() if needed == package}
    paths = [[os.path.join(ROOT, "examples", script), *arguments] for script, *arguments in scripts.values()]
    runner = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples_runner.py")
    with tempfile.NamedTemporaryFile() as results:
        command = [sys.executable, "-W", "ignore", runner, results.name, package, json.dumps(paths)]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=1200, **output)
        if done.returncode:
            return dict.fromkeys(scripts, {"switchml": done.stdout.decode(errors="replace")})
        return dict(zip(scripts, pickle.loads(results.read())))


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_as_over_gloo(name):
    package, _, calls = SCRIPTS[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
    results = results_of(package)[name]
    for backend, ranks in results.items():
        assert not isinstance(ranks, str), f"over {backend}: {ranks}"
    weights = [weights for weights, _ in results["switchml"]]
    assert weights == [weights for weights, _ in results["gloo"]]
    assert all(abs(weight - 1) < 1e-3 for row in weights[0] for weight in row), f"nothing was learnt: {weights}"
    for _, seen in results["switchml"]:
        assert {name for name, _ in seen} >= calls, f"counted was {seen}"
        assert seen == {(name, documented_way(name, "in memory")) for name, _ in seen}


def test_accelerate_does_not_take_the_name_by_itself():
    """Nor the Trainer, which hands its `ddp_backend` on to it. docs/operations.md has a line that works."""
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed: pip install accelerate")
    script = "from accelerate import PartialState; PartialState(cpu=True, backend='switchml')"
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK"), "0") | dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2")
    environment = os.environ | ranks | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    assert done.returncode == 1 and "Your assigned backend switchml is not available" in done.stderr.decode()
