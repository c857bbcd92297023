"""Runs single tests of torch.testing._internal.distributed.distributed_test for test_torch_distributed_suite.py.

    python torch_suite_runner.py gloo|switchml|switchml-as-gloo|switchml-as-mpi

reads one test name per line from stdin and answers each with one line of JSON on stdout:
{"name": str, "outcome": "passed" | "failed" | "skipped", "seconds": float, "detail": str}. The name "?" is answered
with {"names": [...]}: every test that this PyTorch has.

torch is imported once, here; the ranks of each test are forked from this process, which never makes a group or starts a
thread of torch's: a test costs a second and not the import of torch in four processes.

`switchml-as-gloo` makes every group that asks for "gloo" a switchml one and leaves the name "gloo" on it: PyTorch runs
a third of its tests for backends that it knows by name only. `switchml-as-mpi` chooses the tests meant for MPI, the
only ones of all_to_all with CPU tensors, and runs them on switchml.
"""

import json
import os
import sys
import tempfile
import time
import types
import unittest
import warnings

WORLD_SIZE = 4  # some tests want exactly 4, none wants an odd number
SECONDS_PER_TEST = 60

#: mode -> the name that PyTorch's tests see
MODES = {"gloo": "gloo", "switchml": "switchml", "switchml-as-gloo": "gloo", "switchml-as-mpi": "mpi"}


def prepare_environment(mode, folder):
    tempfile.tempdir = folder  # PyTorch leaves a file per test
    os.environ["BACKEND"] = MODES[mode]
    os.environ["WORLD_SIZE"] = str(WORLD_SIZE)
    os.environ["TEMP_DIR"] = folder
    os.environ["INIT_METHOD"] = f"file://{folder}/init_dir/shared"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(os.environ["TEMP_DIR"], name))


def provide_expecttest():
    """Debian has no expecttest; torch's test class needs its name, the tests run here nothing of what it does."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stub = types.ModuleType("expecttest")
        stub.ACCEPT = False
        stub.TestCase = type("TestCase", (unittest.TestCase,), {})
        sys.modules["expecttest"] = stub


def repair_torch_1():
    """torch 1.13's replicated tensors do not import on Python 3.11, and each rank of a test would switch them on."""
    try:
        from torch.nn.parallel import _replicated_tensor_ddp_utils as utils
    except ImportError:
        return
    utils._set_ddp_with_replicated_tensor = lambda value: None


def stand_in_for_gloo():
    """Makes groups that ask for "gloo" from switchml; whoever asks such a group for its backend still reads "gloo"."""
    from torch.distributed import distributed_c10d as c10d

    original = c10d._new_process_group_helper

    def helper(group_size, group_rank, ranks, backend, *args, **kwargs):
        if str(backend).lower() != "gloo":
            return original(group_size, group_rank, ranks, backend, *args, **kwargs)
        result = original(group_size, group_rank, ranks, "switchml", *args, **kwargs)
        rename_group(c10d, result[0] if isinstance(result, tuple) else result)
        return result

    c10d._new_process_group_helper = helper


def rename_group(c10d, group):
    world = getattr(c10d, "_world", None)
    groups = world.pg_map if world is not None else c10d._pg_map
    if group not in groups:  # this rank is not a member
        return
    groups[group] = ("gloo", groups[group][1])
    if world is not None and group in world.pg_backend_config:
        world.pg_backend_config[group] = "cpu:gloo"


def accept_both_titles(distributed_test):
    """A profile names calls by the backend that ran them and by what was called: "switchml:all_reduce_coalesced", where
    torch 1.13 looks for "gloo:all_reduce". Tests get the events by the name that they know."""
    original = distributed_test.get_profiling_event

    def get_profiling_event(name, *args, **kwargs):
        ours = name.replace("gloo:", "switchml:").replace("recvAnySource", "recv_any_source")
        for title in (name, ours, f"{ours}_coalesced"):
            events = original(title, *args, **kwargs)
            if events:
                break
        for event in events:
            event.name = name
        return events

    distributed_test.get_profiling_event = get_profiling_event


def load_suite(mode):
    provide_expecttest()
    import torch

    torch.set_num_threads(1)
    repair_torch_1()
    if mode != "gloo":
        import switchml  # noqa: F401  registers the backend, loads no library
    from torch.testing._internal import common_distributed

    common_distributed.TIMEOUT_DEFAULT = SECONDS_PER_TEST
    common_distributed.TIMEOUT_OVERRIDE.clear()
    # PyTorch 2 skips these with fewer than 8 ranks, for the sake of its machines with 4 GPUs; they need 3.
    common_distributed.skip_if_small_worldsize = lambda test: test
    for feature in ("ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add("switchml")
    if mode == "switchml-as-gloo":
        stand_in_for_gloo()
    from torch.testing._internal.distributed import distributed_test

    if mode == "switchml-as-gloo":
        accept_both_titles(distributed_test)
    if mode == "switchml-as-mpi":
        distributed_test.BACKEND = "switchml"  # "mpi" has done its work: the decorators have chosen

    class TorchSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self):
            ranks = self.processes
            super().tearDown()
            for rank in ranks:
                rank.join(5)
                if rank.exitcode is None:
                    rank.kill()

    return TorchSuite


def run_one(suite, name):
    if not hasattr(suite, name):
        return "skipped", "this PyTorch has no such test"
    result = unittest.TestResult()
    suite(name).run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    problems = result.failures + result.errors
    if problems:
        return "failed", problems[0][1]
    return "passed", ""


def main(mode, folder):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the tests' own prints go to stderr
    warnings.simplefilter("ignore")
    prepare_environment(mode, folder)
    suite = load_suite(mode)
    for line in sys.stdin:
        name = line.strip()
        if name == "?":
            names = unittest.TestLoader().getTestCaseNames(suite)
            answers.write(json.dumps({"names": names}) + "\n")
            continue
        started = time.monotonic()
        outcome, detail = run_one(suite, name)
        seconds = round(time.monotonic() - started, 2)
        answers.write(json.dumps({"name": name, "outcome": outcome, "seconds": seconds, "detail": detail}) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in MODES:
        sys.exit(f"usage: torch_suite_runner.py {'|'.join(MODES)}, not {sys.argv[1:]}")
    with tempfile.TemporaryDirectory(prefix="switchml-torch-suite-") as own_folder:
        main(sys.argv[1], own_folder)
