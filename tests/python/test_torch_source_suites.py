"""Suites that PyTorch has for every backend, over this one. They are in PyTorch's source alone, not in its package:
--torch-source=FOLDER names a checkout of the version that is installed, and without it these tests are skipped.

Run as a script, with the folder test/distributed of the checkout and a suite, this file prints {test: outcome}.
"""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import unittest

import pytest

SUITES = ("test_c10d_collectives", "test_c10d_fault_tolerance", "test_c10d_p2p", "test_c10d_process_group")
#: What these suites ask a backend's configuration for, and this backend does not have.
LACKS = {"supports_cuda_graph_barrier", "supports_work_result"}
#: Tests that fail here, and why they do not apply.
FAILS = {
    "test_noncontiguous_all_to_all_error": "tensors with gaps are taken, where others refuse them",
    "test_reconfigure_after_abort": "get_error() tells of an abort, as NCCL's does; the test allows that to nccl2 alone",
}
SECONDS = 600


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_of_the_source(suite, request):
    source = request.config.getoption("--torch-source")
    if source is None:
        pytest.skip("PyTorch's package does not have it: run with --torch-source=FOLDER")
    command = [sys.executable, __file__, os.path.join(source, "test", "distributed"), suite]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout, done.stderr[-4000:]
    outcomes = json.loads(done.stdout)
    assert "passed" in outcomes.values(), outcomes
    failed = {name: outcome for name, outcome in outcomes.items() if outcome not in ("passed", "skipped")}
    assert failed.keys() == FAILS.keys() & outcomes.keys(), failed


class Outcomes(unittest.TestResult):
    """By the name of a test."""

    def __init__(self):
        super().__init__()
        self.by_name = {}

    def startTest(self, test):
        self.by_name[test._testMethodName] = "passed"

    def addSkip(self, test, reason):
        self.by_name[test._testMethodName] = "skipped"

    def addFailure(self, test, error):
        self.by_name[test._testMethodName] = str(error[1])

    addError = addFailure


def load(folder, suite):
    sys.path.insert(0, folder)
    import torch
    from torch.testing._internal.common_distributed import MultiProcessTestCase

    import switchml  # noqa: F401  registers the backend, loads no library

    torch.set_num_threads(1)
    fork = torch.multiprocessing.get_context("fork").Process  # this process never makes a group
    MultiProcessTestCase._spawn_processes = lambda self: self._start_processes(fork)
    if suite == "test_c10d_fault_tolerance":
        module = importlib.import_module(suite)
        return module._make_fault_tolerance_test_class("switchml", "cpu")
    import c10d_backend_common as common

    names = {field.name for field in dataclasses.fields(common.BackendConfig) if field.name.startswith("supports_")}
    supports = {name: name not in LACKS for name in names}
    config = common.BackendConfig("switchml", "cpu", float8_dtypes=common.FLOAT8_DTYPES, **supports)
    common.C10D_BACKENDS = common.CUDA_BACKENDS = (config,)
    module = importlib.import_module(suite)
    return next(found for name, found in vars(module).items() if name.startswith("Switchml"))


def main(folder, suite):
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the tests' own prints go to stderr
    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromTestCase(load(folder, suite)).run(outcomes)
    json.dump(outcomes.by_name, answers)
    answers.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
