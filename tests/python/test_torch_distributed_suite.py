"""PyTorch's own tests of torch.distributed, run over this backend in three ways; see torch_suite_runner.py.

torch_suite_ci.txt holds the selection that runs by default, torch_suite_skips.toml what is left out and why.
"""

import collections
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import tomllib

import pytest
import torch

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.path.join(HERE, "torch_suite_runner.py")
MODES = ("switchml-as-gloo", "switchml", "switchml-as-mpi") if harness.BACKEND != "gloo" else ("gloo",)
ANSWER_SECONDS = 150  # above the runner's own limit per test, and above what importing torch takes
#: Tests of the selection that must really run when switchml stands in for Gloo; with Gloo 115 (torch 2.13) or 114
# (1.13) do.
LEAST_TO_PASS = 100
#: For MPI, PyTorch has no test of its own but those of all_to_all.
IN_PLACE_OF_MPI = ("all_to_all",)
#: What CI runs a second time under the backend's own name: where the name matters (profiles, DDP's checks).
BY_NAME = ("all_reduce", "DistributedDataParallel", "ddp_")

outcomes = collections.defaultdict(collections.Counter)  # mode -> outcome -> tests


def selection(config):
    """[(mode, test name)] that this run is to execute."""
    if config.getoption("--torch-suite") == "all":
        with Runner(MODES[0]) as runner:
            names = runner.ask("?")["names"]
        words = {"switchml-as-mpi": IN_PLACE_OF_MPI}
    else:
        with open(os.path.join(HERE, "torch_suite_ci.txt")) as stream:
            names = [line.strip() for line in stream if line.strip() and not line.startswith("#")]
        words = {"switchml-as-mpi": IN_PLACE_OF_MPI, "switchml": BY_NAME}
    return [(mode, name) for mode in MODES for name in names if any(word in name for word in words.get(mode, ("",)))]


def pytest_generate_tests(metafunc):
    if "mode_and_name" in metafunc.fixturenames:
        chosen = selection(metafunc.config)
        metafunc.parametrize("mode_and_name", chosen, ids=[f"{mode}-{name}" for mode, name in chosen])
    if "skipped_mode_and_name" in metafunc.fixturenames:
        chosen = list(skipped())
        metafunc.parametrize("skipped_mode_and_name", chosen, ids=[f"{mode}-{name}" for mode, name in chosen])


def skips():
    with open(os.path.join(HERE, "torch_suite_skips.toml"), "rb") as stream:
        entries = tomllib.load(stream).get("skip", [])
    return [entry for entry in entries if torch.__version__.startswith(entry.get("torch", ""))]


def reason_to_skip(mode, name):
    for entry in skips():
        if name in entry["tests"] and mode in entry.get("modes", MODES):
            return entry["reason"]
    return None


def skipped():
    """(mode, test name) of every skip; one that is called an upstream failure has to show it over Gloo, too."""
    for entry in skips():
        modes = [mode for mode in entry.get("modes", MODES) if mode in MODES]
        for mode in modes + ["gloo"] * bool(entry.get("upstream")):
            yield from ((mode, name) for name in entry["tests"])


class Runner:
    """A torch_suite_runner.py process, in a session of its own so that its ranks end with it."""

    def __init__(self, mode):
        self.mode = mode
        self.log = tempfile.TemporaryFile()
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()
        self.log.close()

    def start(self):
        self.log.truncate(0)
        self.process = subprocess.Popen(
            [sys.executable, RUNNER, self.mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "SWITCHML_INTERFACE": "lo", "GLOO_SOCKET_IFNAME": "lo"},
            start_new_session=True,
        )

    def stop(self):
        if self.process is None:
            return
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # the session that start() made
            self.process.wait()
        self.process.stdout.close()
        self.process = None

    def ask(self, name):
        if self.process is None:
            self.start()
        self.process.stdin.write(name.encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        what = "died" if ready else f"did not answer within {ANSWER_SECONDS} s"
        self.stop()
        return {"outcome": "failed", "detail": f"the runner {what}; its stderr ends:\n{self.end_of_log()}"}

    def end_of_log(self):
        self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, self.log.tell() - 4000))
        return self.log.read().decode(errors="replace")


@pytest.fixture(scope="module")
def runners():
    """mode -> Runner, started on first use."""
    by_mode = {mode: Runner(mode) for mode in (*MODES, "gloo")}
    yield by_mode
    for runner in by_mode.values():
        runner.__exit__()


def test_every_skip_gives_a_reason():
    for entry in skips():
        assert entry["tests"] and len(entry["reason"]) > 10, entry
        assert set(entry.get("modes", MODES)) <= {"switchml", "switchml-as-gloo", "switchml-as-mpi"} | set(MODES), entry


def test_torch(mode_and_name, runners):
    mode, name = mode_and_name
    reason = reason_to_skip(mode, name)
    if reason:
        pytest.skip(reason)
    answer = runners[mode].ask(name)
    outcomes[mode][answer["outcome"]] += 1
    if answer["outcome"] == "skipped":
        pytest.skip(f"PyTorch skips it: {answer['detail']}")
    assert answer["outcome"] == "passed", answer["detail"]


def test_skips_are_still_needed(skipped_mode_and_name, request, runners):
    if request.config.getoption("--torch-suite") != "all":
        pytest.skip("shown with --torch-suite=all")
    mode, name = skipped_mode_and_name
    assert runners[mode].ask(name)["outcome"] == "failed", f"it does not fail over {mode}: take it off the list"


def test_the_selection_really_ran(request):
    """Guards against a suite that passes because everything is skipped."""
    counts = outcomes[MODES[0]]
    chosen = sum(1 for mode, name in selection(request.config) if mode == MODES[0] and not reason_to_skip(mode, name))
    if sum(counts.values()) < chosen:
        pytest.skip("only a part of the selection was asked for")
    assert counts["passed"] >= LEAST_TO_PASS, dict(counts)
