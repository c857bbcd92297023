"""Jobs all of whose ranks are stopped together, as a batch system does, and go on later."""

import contextlib
import pathlib
import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, check_all, doomed_pool, rank_warm_up, standalone_switch, timed, with_switch
from harness import free_port
from oracle import check_reduction, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has no switch")

RANKS = 2
SILENCE = 1  # seconds; what a switch takes for silence here, and half of its lease is more


def rank_sum(seed):
    """The text of the error of a sum whose bits were checked otherwise, and how long it took."""
    inputs = [values((50000,), torch.float32, rank, seed) for rank in range(RANKS)]
    mine = inputs[dist.get_rank()].clone()
    outcome = timed(dist.all_reduce, mine)
    if outcome[0] is None:
        check_reduction(mine, inputs, "SUM")
    return outcome


@contextlib.contextmanager
def job(port):
    """Ranks with a session of their own at the switch."""
    with doomed_pool(RANKS, environment=with_switch(f"127.0.0.1:{port}")) as own:
        own.run(rank_warm_up)
        yield own


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def suspend(own):
    for rank in range(RANKS):
        own.kill(rank, signal.SIGSTOP)
    end = time.monotonic() + IN_TIME
    while any(state(own.pid(rank)) != "T" for rank in range(RANKS)):
        assert time.monotonic() < end, "the ranks do not stop"
        time.sleep(0.01)


def resume(own):
    for rank in range(RANKS):
        own.kill(rank, signal.SIGCONT)


def sums(own, seed):
    return [message for message, _ in own.run(rank_sum, seed)]


def test_a_suspended_job_goes_on_where_nobody_wants_its_room():
    port = free_port()
    with standalone_switch(port, "--silence", str(SILENCE)), job(port) as own:
        suspend(own)
        time.sleep(2 * SILENCE)
        with job(port) as other:  # there is room for both
            assert sums(other, 1) == [None] * RANKS
        resume(own)
        assert sums(own, 2) == [None] * RANKS


def test_a_job_that_is_stopped_in_a_call_goes_on_in_it():
    port = free_port()
    with standalone_switch(port, "--silence", str(SILENCE)), job(port) as own:
        own.start(rank_sum, 3, ranks=[0])  # nothing comes of it until rank 1 calls
        suspend(own)
        time.sleep(2 * SILENCE)
        resume(own)
        own.start(rank_sum, 3, ranks=[1])
        assert [message for message, _ in own.finish()] == [None] * RANKS


def test_of_two_suspended_jobs_the_longer_silent_makes_room_for_a_third():
    port = free_port()
    with (
        standalone_switch(port, "--silence", str(SILENCE), "--client-jobs", "2") as _,
        job(port) as first,
        job(port) as second,
    ):
        suspend(first)
        assert sums(second, 4) == [None] * RANKS, "it is heard after the first"
        suspend(second)
        time.sleep(2 * SILENCE)
        with job(port) as third:
            assert sums(third, 5) == [None] * RANKS
            resume(second)
            assert sums(second, 6) == [None] * RANKS, "only as many end as are wanted"
            resume(first)
            check_all(first.run(rank_sum, 7), "no longer knows this session", "others needed its room")
