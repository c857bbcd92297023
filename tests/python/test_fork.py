"""Processes that are forked from one that has, or had, a group."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback

import pytest
import torch
import torch.distributed as dist

import harness
from failing import doomed_pool, rank_warm_up

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo's groups do not survive it")


def start_child(body):
    """A forked child that runs `body`, and nothing that the interpreter runs at its end: pytest's frames are below."""
    child = os.fork()
    if child:
        return child
    try:
        body()
    except BaseException:
        traceback.print_exc()
        os._exit(99)
    os._exit(0)


def outcome(child, patience=60):
    """The exit status of a child, the signal that ended it, negative, or "hung"."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def rank_sums():
    total = torch.ones(100)
    dist.all_reduce(total)
    return float(total[0])


# ---- a child of a rank ----


PARENT = """
import os, sys, switchml, torch, torch.distributed as dist
dist.init_process_group(sys.argv[1], init_method=sys.argv[2], rank=int(sys.argv[3]), world_size=2)
dist.all_reduce(torch.ones(10))
dist.broadcast(torch.ones(10), 0)  # Gloo has threads, too
ended = []
for leave in (lambda: None, dist.destroy_process_group):
    child = os.fork()
    if child == 0:
        leave()
        sys.exit(0)
    ended.append(os.waitpid(child, 0)[1])
total = torch.ones(10)
dist.all_reduce(total)
print(ended, float(total[0]))
dist.destroy_process_group()
"""


def test_children_leave_and_their_parents_go_on():
    """By sys.exit, through all that an interpreter does at its end: as they are, and after they have destroyed the
    group."""
    where = f"tcp://127.0.0.1:{harness.free_port(socket.SOCK_STREAM)}"
    command = [sys.executable, "-c", PARENT, harness.BACKEND, where]
    ranks = [
        subprocess.Popen(
            [*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            said, complained = rank.communicate(timeout=180)
            assert (rank.returncode, said) == (0, "[0, 0] 2.0\n"), complained
    finally:
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(rank.pid, signal.SIGKILL)


def rank_has_calling_child():
    """The group is the parent's: a call in the child is an error, at once."""
    rank_warm_up()

    def body():
        for call in (lambda: dist.all_reduce(torch.ones(10)), lambda: dist.broadcast(torch.ones(10), 0), dist.barrier):
            assert "was forked" in (harness.caught(call) or ""), harness.caught(call)

    return outcome(start_child(body)), rank_sums()


def test_a_call_in_a_forked_child_is_an_error_at_once():
    with doomed_pool(2, group_timeout=60) as own:
        assert own.run(rank_has_calling_child) == [(0, 2.0)] * 2
        own.close()


def rank_has_waiting_child():
    """Rank 1 makes the call that rank 0 waits for when it has heard how a child of rank 0 fared that waited for it,
    too."""
    rank_warm_up()
    if dist.get_rank() == 1:
        dist.recv(torch.zeros(1), 0)
        return rank_sums()
    total = torch.ones(100)
    work = dist.all_reduce(total, async_op=True)

    def body():
        said = harness.caught(work.wait)
        assert said and "was forked from the one that made the call" in said, said

    ended = outcome(start_child(body))
    dist.send(torch.zeros(1), 1)
    work.wait()
    return ended, outcome(start_child(work.wait)), float(total[0])


def test_a_child_waits_for_no_call_of_its_parent():
    """It is an error at once, but for a call that was complete when the child was forked."""
    with doomed_pool(2, group_timeout=60) as own:
        assert own.run(rank_has_waiting_child) == [(0, 0, 2.0), 2.0]
        own.close()


# ---- children that make a group ----


def join_over_tcp(rank, size, port):
    dist.init_process_group(
        harness.BACKEND,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=size,
        timeout=harness.seconds(harness.GROUP_TIMEOUT),
    )
    rank_sums()


def rank_forks_after_its_group():
    """A group of one is made and destroyed; then two children make a group of theirs. All over tcp, as PyTorch's tests
    do."""
    join_over_tcp(0, 1, harness.free_port(socket.SOCK_STREAM))
    dist.destroy_process_group()
    port = harness.free_port(socket.SOCK_STREAM)

    def body(rank):
        join_over_tcp(rank, 2, port)
        dist.destroy_process_group()

    children = [start_child(lambda rank=rank: body(rank)) for rank in (0, 1)]
    return [outcome(child) for child in children]


def test_children_make_a_group_after_their_parents_is_destroyed():
    with doomed_pool(1, join_group=False) as own:
        assert own.run(rank_forks_after_its_group) == [[0, 0]]


def rank_forks_beside_its_group(times):
    """Children of one rank make groups of theirs while their parent's lives, and is in use."""
    rank_warm_up()
    seen = set()
    for _ in range(times):
        port = harness.free_port(socket.SOCK_STREAM)

        def body(rank):
            dist.destroy_process_group()
            join_over_tcp(rank, 2, port)
            dist.destroy_process_group()

        total = torch.ones(300_000)
        work = dist.all_reduce(total, async_op=True)
        children = [start_child(lambda rank=rank: body(rank)) for rank in (0, 1)]
        work.wait()
        seen.update((float(total[0]), rank_sums()))
        seen.update(outcome(child) for child in children)
    return seen


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_children_make_groups_while_their_parents_lives(transport):
    times = int(os.environ.get("SWITCHML_TEST_FORKS", "3"))
    with doomed_pool(2, environment={"SWITCHML_TRANSPORT": transport}, group_timeout=60) as own:
        assert own.run(rank_forks_beside_its_group, times, timeout=60 + 20 * times) == [{0, 2.0}] * 2
        own.close()
