"""A job that dies with all its processes and is started again at once, on the same switch, which still holds what the
dead had."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, doomed_pool, standalone_switch, with_switch
from harness import free_port
from oracle import check_reduction, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has no switch")

RANKS, RESTARTS = 3, 4
# Slots of a session: the dead ones' and the living ones' together are far from every limit. Who waited for a dead one's
# lease, which is longer, would not connect in time.
SETTINGS = {"SWITCHML_SLOTS": "32", "SWITCHML_CONNECT_TIMEOUT": "20"}
_mine = []  # in a rank: its groups and their members


def rank_check(group, members, step):
    """One sum of a group, started but not waited for; `check` waits and compares."""
    inputs = {rank: values((60000 + step % 7,), torch.float32, rank, step) for rank in members}
    mine = inputs[dist.get_rank()].clone()
    work = dist.all_reduce(mine, group=group, async_op=True)

    def check():
        work.wait()
        check_reduction(mine, list(inputs.values()), "SUM")

    return check


def rank_sums(step):
    """Of all groups of this rank, at the same time."""
    for check in [rank_check(group, members, step) for group, members in _mine]:
        check()


def rank_start_again(attempt):
    """A job of three groups, each with a session of its own."""
    world = list(range(dist.get_world_size()))
    groups = [(None, world), (dist.new_group(world[:2]), world[:2]), (dist.new_group(world[1:]), world[1:])]
    _mine.extend((group, members) for group, members in groups if dist.get_rank() in members)
    for step in range(5):
        rank_sums(100 * attempt + step)
    import switchml

    return switchml.stats()["without_switch"]


def rank_sums_for_ever(started):
    """Until it is killed; says so once the first are done."""
    for step in range(10**9):
        rank_sums(step)
        if step == 1:
            pathlib.Path(started, str(dist.get_rank())).touch()


def await_files(folder, count):
    end = time.monotonic() + IN_TIME
    while len(os.listdir(folder)) < count:
        assert time.monotonic() < end, f"{os.listdir(folder)} of {count} ranks have begun"
        time.sleep(0.01)


def test_a_killed_job_that_starts_again_at_once_gets_sessions_and_right_sums(tmp_path):
    port = free_port()
    settings = {**with_switch(f"127.0.0.1:{port}"), **SETTINGS}
    with standalone_switch(port):
        for attempt in range(1 + RESTARTS):
            with doomed_pool(RANKS, environment=settings) as own:
                assert own.run(rank_start_again, attempt) == [0] * RANKS
                if attempt == RESTARTS:
                    own.close()
                    break
                started = tmp_path / str(attempt)
                started.mkdir()
                own.start(rank_sums_for_ever, started)
                await_files(started, RANKS)
                for rank in range(RANKS):
                    own.kill(rank)


ELASTIC_SCRIPT = """
import datetime, os, pathlib, signal, sys
import torch, torch.distributed as dist
sys.path.insert(0, {tests!r})
import {backend}
from oracle import check_reduction, values

dist.init_process_group("{backend}", timeout=datetime.timedelta(seconds=300))
rank, size, attempt = dist.get_rank(), dist.get_world_size(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
pair = dist.new_group([0, 1])
for step in range(20):
    if (rank, attempt, step) == (1, 0, 10):
        os.kill(os.getpid(), signal.SIGKILL)
    for group, members in ((None, size), (pair, 2)):
        if rank < members:
            inputs = [values((50000,), torch.float32, r, 100 * attempt + step) for r in range(members)]
            mine = inputs[rank].clone()
            dist.all_reduce(mine, group=group)
            check_reduction(mine, inputs, "SUM")
assert {backend}.stats()["without_switch"] == 0
dist.destroy_process_group()
pathlib.Path({folder!r}, f"attempt {{attempt}}, rank {{rank}}").touch()
"""


def run_bounded(command, environment, seconds):
    """(output, status) of a command, which is told to end after so many seconds, with what it has started."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        try:
            return process.communicate(timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its ranks then
            kill_it = threading.Timer(20, os.killpg, (process.pid, signal.SIGKILL))
            kill_it.start()
            output = process.communicate()[0]
            kill_it.cancel()
            raise AssertionError(f"no end in {seconds} s:\n{output[-5000:]}") from None


@pytest.mark.skipif(importlib.util.find_spec("torch.distributed.run") is None, reason="this PyTorch has no torchrun")
def test_an_elastic_restart_ends_well_on_the_same_switch(tmp_path):
    port, done, script = free_port(), tmp_path / "done", tmp_path / "job.py"
    done.mkdir()
    tests = str(pathlib.Path(__file__).parent)
    script.write_text(ELASTIC_SCRIPT.format(backend=harness.BACKEND, tests=tests, folder=str(done)))
    environment = {
        **os.environ,
        "SWITCHML_INTERFACE": "lo",
        "OMP_NUM_THREADS": "1",
        **with_switch(f"127.0.0.1:{port}"),
        **SETTINGS,
        "SWITCHML_CONNECT_TIMEOUT": "120",
    }  # ranks that import torch anew are seconds apart on a busy machine
    # PyTorch 1.13 on Python 3.11 takes neither "nothing" nor "both" for these two.
    options = ("--standalone", f"--nproc_per_node={RANKS}", "--max_restarts=1", "--monitor_interval=0.5",
               "--redirects=1", "--tee=1", f"--log_dir={tmp_path / 'logs'}")  # fmt: skip
    with standalone_switch(port):
        output, status = run_bounded(
            [sys.executable, "-m", "torch.distributed.run", *options, str(script)], environment, 240
        )
    assert status == 0, output[-5000:]
    assert sorted(os.listdir(done)) == [f"attempt 1, rank {rank}" for rank in range(RANKS)], output[-5000:]
