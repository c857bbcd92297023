"""Starts the ranks of a benchmark that has Open MPI beside other backends: under mpirun where it takes part, else under
torchrun."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

PATIENCE = 1800  # seconds for all that some number of ranks does


def launcher(ranks, openmpi, python):
    if openmpi:
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks, python]
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", ranks]


def run(worker, ranks, what, python=sys.executable, environment=None):
    """What rank 0 prints last, with the number of ranks. worker.py gets a store and `what`, as JSON."""
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder:
        store = pathlib.Path(folder) / "store"
        command = [*launcher(ranks, "openmpi" in what["backends"], python), worker, store, json.dumps(what)]
        done = subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
    if done.returncode:
        raise OSError(f"{ranks} ranks ended with status {done.returncode}: what they say is above")
    return {"ranks": ranks, **json.loads(done.stdout.strip().splitlines()[-1])}
