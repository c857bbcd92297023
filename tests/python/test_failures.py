"""Ranks that die, stop, leave or do not come: an exception on every live rank, in time, that names them; no hang, no
wrong sum."""

import os
import signal
import time

import pytest
import torch.distributed as dist

import harness
from failing import (
    IN_TIME,
    PATIENCE,
    STOP,
    TIMEOUT,
    check_all,
    check_death,
    doomed_pool,
    name_the_rank_stopped_for_good,
    rank_calls,
    rank_leave,
    rank_one_call,
    rank_statistics,
    rank_sums_through_a_stop,
    rank_warm_up,
)

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


def rank_has_child():
    """A data loader's worker, say, that outlives its parent for a while; its pid."""
    pid = os.fork()
    if pid == 0:
        time.sleep(2 * PATIENCE)
        os._exit(0)
    return pid


DEATHS = (
    (0, "all_reduce"),
    (2, "all_reduce"),
    (0, "broadcast"),
    (1, "scatter"),
    (2, "all_gather"),
    (0, "all_to_all"),
    (2, "all_to_all"),
    (2, "messages"),
)


@pytest.mark.parametrize("victim, call", DEATHS)
def test_a_killed_rank_is_named_by_the_others_long_before_the_timeout(victim, call):
    """Rank 0 hosts the switch, the others do not. Whatever goes through the switch, through memory or through Gloo."""
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        children = own.run(rank_has_child)
        try:
            own.start(rank_calls, call)
            check_death(own, victim)
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)


def test_a_rank_that_dies_between_calls_fails_the_next_one():
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.kill(1)
        own.ranks[1][0].join()
        check_all(own.run(rank_calls, ranks=[0, 2]), "rank 1", "is gone")


def rank_make_groups(count):
    for _ in range(count):
        dist.barrier(group=dist.new_group())


def rank_destroy_all():
    before = time.monotonic()
    dist.destroy_process_group()
    return time.monotonic() - before


def test_nothing_waits_for_a_dead_rank_to_leave_its_groups():
    """Without this the rank that has the switches would wait two seconds for each of its groups."""
    with doomed_pool(3) as own:
        own.run(rank_make_groups, 30)
        own.kill(1)
        own.ranks[1][0].join()
        check_all(own.run(rank_calls, ranks=[0, 2]), "rank 1", "is gone")
        assert max(own.run(rank_destroy_all, ranks=[0, 2])) < 30


@pytest.mark.parametrize("call", ("all_reduce", "all_gather", "all_to_all"))
def test_a_rank_that_leaves_is_not_waited_for(call):
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.run(rank_leave, ranks=[2])
        check_all(own.run(rank_calls, call, ranks=[0, 1]), "cannot complete", "rank 2 (left the session)")


@pytest.mark.parametrize("call", ("all_reduce", "broadcast", "all_gather", "all_to_all", "barrier"))
def test_a_rank_that_never_calls_is_named(call):
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        check_all(own.run(rank_one_call, call, ranks=(0, 2)), "rank 1")


@pytest.mark.parametrize("victim", (0, 1))
def test_a_stopped_rank_that_goes_on_costs_time_only(victim):
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.start(rank_sums_through_a_stop, 0.8 * STOP)
        own.await_progress()
        own.kill(victim, signal.SIGSTOP)
        time.sleep(STOP)
        own.kill(victim, signal.SIGCONT)
        assert own.finish() == [0, 0, 0], "the switch was lost"


def test_a_rank_that_is_stopped_for_good_is_named_by_the_others():
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        name_the_rank_stopped_for_good(own, 2)


@pytest.mark.parametrize("transport", ("udp", "shm"))
def test_a_rank_that_is_awaited_for_long_is_named_in_the_log_once(transport):
    said = "waits in call 2, all_reduce(SUM, float32, 1000 elements): no contribution from rank 1 for "
    with doomed_pool(3, environment={"SWITCHML_TRANSPORT": transport, "SWITCHML_SLOW_WARNING": "1"}) as own:
        own.run(rank_warm_up)
        own.start(rank_warm_up, ranks=[0, 2])
        end = time.monotonic() + IN_TIME
        while not all(said in own.log(rank) for rank in (0, 2)):
            assert time.monotonic() < end, own.log(0) + own.log(2)
            time.sleep(0.05)
        time.sleep(2.5)  # in which it is not said again
        own.start(rank_warm_up, ranks=[1])
        own.finish()
        assert [own.log(rank, 1000).count(said) for rank in (0, 2)] == [1, 1]
        counters = own.run(rank_statistics)
    assert counters[0]["repeats_waiting"] == 0, counters[0]  # it embeds the switch, to which it repeats nothing
    assert (counters[2]["repeats_waiting"] > 0) == (transport == "udp"), counters[2]
