"""Signals whose handlers raise (Ctrl-C does) while a rank waits in C++: its wait ends, and the others hear of it."""

import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, check_all, doomed_pool, rank_warm_up, timed
from test_opening import await_hellos, rank_sum

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo's waits go on")

RANKS = 3
CALLS = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(1000)),
    "barrier": dist.barrier,
    "broadcast": lambda: dist.broadcast(torch.ones(10), 0),
    "monitored_barrier": lambda: dist.monitored_barrier(wait_all_ranks=True),
}


def raise_within_a_call(number):
    """A handler that raises KeyboardInterrupt when it runs a second time at one instruction: that one's call has
    begun."""
    seen = []

    def handler(_, frame):
        place = frame, frame.f_lasti
        if place in seen:
            raise KeyboardInterrupt
        seen.append(place)

    signal.signal(number, handler)


def interrupted(function, *args):
    """Whether it ends in KeyboardInterrupt, and after how many seconds."""
    started = time.monotonic()
    try:
        function(*args)
    except KeyboardInterrupt:
        return True, time.monotonic() - started
    return False, time.monotonic() - started


def rank_interrupted(call):
    raise_within_a_call(signal.SIGINT)
    harness.advance()
    outcome = interrupted(CALLS[call])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of those that are sent to it, one has been enough
    return outcome, rank_waits("all_reduce")


def rank_waits(call):
    return timed(
        CALLS["all_reduce" if call == "monitored_barrier" else call]
    )  # which goes through the store, with rank 0


def rank_calls_until_told(call):
    """Where the others have made theirs, one more may have all that it needs."""
    message = None
    while message is None:
        message, took = rank_waits(call)
    return message, took


def interrupt(own, rank):
    """Ctrl-C, again and again until its call ends."""
    own.await_progress(ranks=[rank])
    end = time.monotonic() + IN_TIME
    while not own.ranks[rank][1].poll(0.1) and time.monotonic() < end:
        own.kill(rank, signal.SIGINT)
    return own.finish([rank])[0]


@pytest.mark.parametrize("transport", ("udp", "auto"))
@pytest.mark.parametrize("victim", (0, 1))
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_wait_and_the_group(call, victim, transport):
    """A rank waits with the one that is interrupted; another makes its next call later."""
    waiting, last = (rank for rank in range(RANKS) if rank != victim)
    with doomed_pool(RANKS, environment={"SWITCHML_TRANSPORT": transport}) as own:
        own.run(rank_warm_up)
        own.start(rank_waits, call, ranks=[waiting])
        own.start(rank_interrupted, call, ranks=[victim])
        (was_interrupted, took), own_next_call = interrupt(own, victim)
        assert was_interrupted and took < IN_TIME
        outcomes = [own_next_call, own.finish([waiting])[0], own.run(rank_calls_until_told, call, ranks=[last])[0]]
    check_all(outcomes, f"rank {victim} (", f"gave up: a signal ended its wait for {call}")


def rank_monitored_barrier():
    return timed(CALLS["monitored_barrier"])


def test_ctrl_c_ends_a_monitored_barrier_on_those_who_wait_for_rank_0():
    with doomed_pool(RANKS) as own:
        own.start(rank_interrupted, "monitored_barrier", ranks=[0])
        own.start(rank_monitored_barrier, ranks=[1])
        assert interrupt(own, 0)[0][0]
        check_all(own.finish([1]), "a signal ended the wait of rank 0")


def rank_open(rank, folder):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store = dist.FileStore(f"{folder}/store", RANKS)
    limit = harness.seconds(harness.CALL_TIMEOUT)
    try:
        return timed(dist.init_process_group, harness.BACKEND, store=store, rank=rank, world_size=RANKS, timeout=limit)
    except KeyboardInterrupt:
        return "interrupted"


@pytest.mark.parametrize("victim", (0, 1))
@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_ctrl_c_ends_the_opening_of_a_group(tmp_path, transport, victim):
    """The last rank never comes."""
    with doomed_pool(RANKS - 1, environment={"SWITCHML_TRANSPORT": transport}, join_group=False) as own:
        for rank in range(RANKS - 1):
            own.start(rank_open, rank, str(tmp_path), ranks=[rank])
        await_hellos(tmp_path, RANKS - 1)
        own.kill(victim, signal.SIGINT)
        assert own.finish([victim]) == ["interrupted"]
        check_all(own.finish([1 - victim]), f"rank {victim}: its process ended the wait: KeyboardInterrupt")


def rank_calls_in_a_handler():
    """The handler's call is the second of this rank, though the first is not over."""
    results = []
    signal.signal(signal.SIGUSR2, lambda *_: results.append(rank_sum(None)))
    harness.advance()
    results.append(rank_sum(None))
    return results


def rank_sums_twice():
    return [rank_sum(None), rank_sum(None)]


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_handler_may_call_collectives(transport):
    with doomed_pool(2, environment={"SWITCHML_TRANSPORT": transport}) as own:
        own.start(rank_calls_in_a_handler, ranks=[0])
        own.await_progress(ranks=[0])
        own.kill(0, signal.SIGUSR2)
        assert own.run(rank_sums_twice, ranks=[1]) == [[2, 2]]
        assert own.finish([0]) == [[2, 2]]


def rank_handles_signals():
    seen = []
    signal.signal(signal.SIGUSR2, lambda *_: (seen.append(1), harness.advance()))
    harness.advance()
    return rank_sum(None), len(seen) > 0


def test_a_handler_that_raises_nothing_runs_while_the_wait_goes_on():
    with doomed_pool(2) as own:
        own.start(rank_handles_signals, ranks=[0])
        own.await_progress(ranks=[0])
        own.kill(0, signal.SIGUSR2)
        own.await_progress(2, ranks=[0])
        assert own.run(rank_sum, None, ranks=[1]) == [2]
        assert own.finish([0]) == [(2, True)]
