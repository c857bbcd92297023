"""Starts the ranks of a benchmark that has Open MPI beside other backends: under mpirun where it takes part, else under
torchrun."""

import ctypes
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

PATIENCE = 1800  # seconds for all that some number of ranks does
PR_SET_PDEATHSIG = 1


def end_with_parent(by=signal.SIGKILL):
    """The kernel sends this process that signal when the one that started it ends, even if it is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, by)


def launcher(ranks, openmpi, python):
    if openmpi:
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks, python]
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", ranks]


def run(worker, ranks, what, python=sys.executable, environment=None):
    """What rank 0 prints last, with the number of ranks. worker.py gets a store and `what`, as JSON."""
    with tempfile.TemporaryDirectory(prefix="switchml-bench-") as folder:
        store = pathlib.Path(folder) / "store"
        command = [*launcher(ranks, "openmpi" in what["backends"], python), worker, store, json.dumps(what)]
        launched = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        )
        try:
            said = launched.communicate(timeout=PATIENCE)[0]
        finally:  # not by SIGKILL: launchers clear up after their ranks
            launched.terminate()
            launched.wait()
    if launched.returncode:
        raise OSError(f"{ranks} ranks ended with status {launched.returncode}: what they say is above")
    return {"ranks": ranks, **json.loads(said.strip().splitlines()[-1])}
