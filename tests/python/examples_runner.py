"""Runs scripts of a framework in ranks that are started as torchrun starts them, over one backend after the other.

    python examples_runner.py RESULTS MODULE '[["SCRIPT.py", "ARGUMENT", ...], ...]'

A process of its own imports the framework once, and all ranks are forked from it; pytest's stays as it is. Each script
gets the backend's name as its first argument, and leaves its outcome in the variable `weights`.

RESULTS becomes a pickled list, with for each script {backend: outcome}: a list of what each rank has, its weights and
{(name, way)} of the calls that were counted, or the text of an error.
"""

import contextlib
import importlib
import json
import os
import pickle
import runpy
import sys

import torch
import torch.distributed as dist

import harness
from documented import all_counts

BACKENDS = ("switchml", "gloo")
SIZE = 2
#: What a framework imports when it is used. Imported before the ranks are forked it costs time once.
ALSO = {
    "transformers": ["transformers.trainer"],
    "deepspeed": ["torch._inductor.compile_fx", "deepspeed.runtime.zero.stage3"],
}


def rank_store():
    """torchrun's store, in rank 0, which keeps it for as long as it lives."""
    rank_store.kept = dist.TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    return rank_store.kept.port


def rank_script(rank, port, backend, script, arguments):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        GROUP_RANK="0",
        WORLD_SIZE=str(SIZE),
        LOCAL_WORLD_SIZE=str(SIZE),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        TORCHELASTIC_RUN_ID="switchml-test",
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    sys.argv = [script, backend, *arguments]
    weights = runpy.run_path(script, run_name="__main__")["weights"]
    return weights, set(all_counts())


def over(backend, script, arguments):
    """What the ranks return, or the text of what went wrong."""
    try:
        pool = harness.Pool(SIZE, join_group=False, environment={"SWITCHML_TRANSPORT": "auto", "HF_HUB_OFFLINE": "1"})
        with contextlib.closing(pool):
            (port,) = pool.run(rank_store, ranks=[0])
            for rank in range(SIZE):
                pool.start(rank_script, rank, port, backend, script, arguments, ranks=[rank])
            return pool.finish()
    except harness.PoolError as error:
        return str(error)


def main():
    results, module, scripts = sys.argv[1:]
    torch.set_num_threads(1)
    for each in (module, "torch._dynamo", "torch.distributed.tensor.parallel", *ALSO.get(module, ())):
        importlib.import_module(each)
    if module == "deepspeed":
        # Or it is probed what could be compiled, and the first run compiles for minutes what training does not need.
        importlib.import_module("deepspeed.ops").__compatible_ops__ = {}
    found = []
    for script, *arguments in json.loads(scripts):
        found.append({backend: over(backend, script, arguments) for backend in BACKENDS})
    with open(results, "wb") as stream:
        pickle.dump(found, stream)


if __name__ == "__main__":
    main()
