"""Switches of their own process that die, stop or return: an exception on every rank that names the switch, or, with a
fallback, ranks that go on without it and to the bit."""

import contextlib
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import (
    EMBEDDED,
    FALLBACK,
    STOP,
    TIMEOUT,
    check_all,
    doomed_pool,
    name_the_rank_stopped_for_good,
    rank_calls,
    rank_leave,
    rank_one_call,
    rank_sums_through_a_stop,
    rank_sums_until,
    rank_warm_up,
    standalone_switch,
    timed,
    with_switch,
)
from harness import free_port
from oracle import check_reduction, digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


@contextlib.contextmanager
def ranks_and_switch(size, settings=None, **kwargs):
    """Ranks that have used their own standalone switch, and that switch."""
    port = free_port()
    with standalone_switch(port) as switch:
        with doomed_pool(size, environment={**with_switch(f"127.0.0.1:{port}"), **(settings or {})}, **kwargs) as own:
            own.run(rank_warm_up)
            yield own, switch, f"127.0.0.1:{port}"


def rank_sum_and_groups():
    rank_warm_up()
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        total = torch.ones(10)
        dist.all_reduce(total, group=pair)
        assert total.eq(2).all()
    inputs = [values((200000,), torch.float32, rank, 7) for rank in range(dist.get_world_size())]
    for _ in range(30):
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        check_reduction(mine, inputs, "SUM")
    return digest(mine)


def test_a_standalone_switch_serves_groups():
    port = free_port()
    with standalone_switch(port):
        for _ in range(2):  # a second job finds the switch as the first did
            with doomed_pool(3, environment=with_switch(f"127.0.0.1:{port}")) as own:
                alone = own.run(rank_sum_and_groups)
                own.close()
    with doomed_pool(3, environment=EMBEDDED) as own:
        assert own.run(rank_sum_and_groups) == alone, "the bits depend on where the switch runs"


def test_a_killed_switch_is_named_on_every_rank():
    with ranks_and_switch(3) as (own, switch, address):
        own.start(rank_calls)
        own.await_progress()
        switch.kill()
        check_all(own.finish(), "switch", address)


def test_a_switch_that_stops_for_a_moment_costs_time_only():
    with ranks_and_switch(3) as (own, switch, _):
        own.start(rank_sums_through_a_stop, 0.8 * 2 * STOP)
        own.await_progress()
        switch.send_signal(signal.SIGSTOP)
        time.sleep(2 * STOP)
        switch.send_signal(signal.SIGCONT)
        assert own.finish() == [0, 0, 0], "the switch was lost"


def test_rank_0_that_is_stopped_for_good_is_named_too():
    """Where it does not host the switch."""
    with ranks_and_switch(3, group_timeout=TIMEOUT) as (own, _, _):
        name_the_rank_stopped_for_good(own, 0)


def test_a_silent_switch_is_given_up():
    with ranks_and_switch(3, {"SWITCHML_FAILURE_TIMEOUT": "2"}) as (own, switch, address):
        switch.send_signal(signal.SIGSTOP)
        try:
            check_all(own.run(rank_calls), "switch", address, "has not answered for 2")
        finally:
            switch.send_signal(signal.SIGCONT)


def test_a_restarted_switch_knows_no_session():
    port = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(standalone_switch(port))
        own = stack.enter_context(doomed_pool(2, environment=with_switch(f"127.0.0.1:{port}")))
        own.run(rank_warm_up)
        first.kill()
        first.wait()
        stack.enter_context(standalone_switch(port))
        check_all(own.run(rank_calls), f"127.0.0.1:{port}", "no longer knows this session")


# ---- going on without the switch ----


def rank_sums_over_a_lost_switch(count, steps, seed, switch=None, last=None):
    """(digests of all results, whether this rank ended without the switch). Rank 0 kills that process in the middle of
    call `last`."""
    import switchml

    digests = []
    for step in range(steps):
        dtype = (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.int64)[step % 5]
        op = dist.ReduceOp.MAX if step % 7 == 3 and dtype != torch.int64 else dist.ReduceOp.SUM
        inputs = [values((count + step,), dtype, rank, seed + step) for rank in range(dist.get_world_size())]
        mine = inputs[dist.get_rank()].clone()
        work = dist.all_reduce(mine, op=op, async_op=True)
        if step == last and dist.get_rank() == 0:
            os.kill(switch, signal.SIGKILL)
        work.wait()
        check_reduction(mine, inputs, "MAX" if op == dist.ReduceOp.MAX else "SUM")
        digests.append(digest(mine))
    total = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(total, torch.tensor([float(dist.get_rank())]))
    dist.barrier()
    assert [float(t) for t in total] == list(range(dist.get_world_size()))
    return digests, switchml.stats()["without_switch"]


@pytest.mark.parametrize("size, shards, precision", ((2, "1", "integer"), (4, "2", "auto")))
def test_a_killed_switch_costs_a_moment_with_fallback(size, shards, precision):
    """What is under way is completed, on every rank and to the bit, and so is what follows. Nobody waits for a timeout:
    none is shorter than what a call of the pool may take."""
    count, steps = 300000, 12
    with doomed_pool(size, environment={**EMBEDDED, "SWITCHML_PRECISION": precision}) as own:
        expected = own.run(rank_sums_over_a_lost_switch, count, steps, 5)
    assert not any(moved for _, moved in expected)
    settings = {
        **FALLBACK,
        "SWITCHML_SHARDS": shards,
        "SWITCHML_PRECISION": precision,
        "SWITCHML_FAILURE_TIMEOUT": "600",
    }
    for last in (1, 5):
        with ranks_and_switch(size, settings) as (own, switch, _):
            outcomes = own.run(rank_sums_over_a_lost_switch, count, steps, 5, switch.pid, last)
            own.close()
        assert [d for d, _ in outcomes] == [d for d, _ in expected], "the bits depend on who adds"
        assert all(moved for _, moved in outcomes), "nobody has noticed"


@contextlib.contextmanager
def ranks_without_their_switch(size, **kwargs):
    with ranks_and_switch(size, FALLBACK, **kwargs) as (own, switch, _):
        switch.kill()
        own.run(rank_warm_up)
        yield own


def rank_timed_sum():
    """The time begins before the test hears of it."""
    begin = time.monotonic()
    harness.advance()
    message, _ = timed(rank_warm_up)
    return message, time.monotonic() - begin


@pytest.mark.parametrize("shards", ("1", "2"))
def test_the_switch_is_used_again_when_it_returns(shards):
    port = free_port()
    settings = {**with_switch(f"127.0.0.1:{port}"), **FALLBACK, "SWITCHML_SHARDS": shards}
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(standalone_switch(port))
        own = stack.enter_context(doomed_pool(3, environment=settings))
        own.run(rank_warm_up)
        for loss in range(2):
            switch.kill()
            switch.wait()
            assert len(set(own.run(rank_sums_until, 1, 10 * loss))) == 1
            switch = stack.enter_context(standalone_switch(port))
            assert len(set(own.run(rank_sums_until, 0, 10 * loss))) == 1
            own.run(rank_warm_up)
            switch.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, switch.pid, os.WSTOPPED | os.WNOWAIT)
            own.start(rank_timed_sum)
            own.await_progress()
            time.sleep(0.7)
            switch.send_signal(signal.SIGCONT)
            for message, took in own.finish():
                assert message is None and took > 0.5, f"something else adds: {message}, {took} s"
        own.close()


def test_a_killed_rank_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3) as own:
        own.start(rank_calls)
        own.await_progress()
        own.kill(1)
        check_all(own.finish([0, 2]), "rank 1", "is gone")


def test_a_late_rank_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3, group_timeout=TIMEOUT) as own:
        check_all(own.run(rank_one_call, ranks=[0, 1]), "no contribution from rank 2 for")


def test_a_rank_that_left_is_named_after_a_fallback_too():
    with ranks_without_their_switch(3) as own:
        own.run(rank_leave, ranks=[2])
        check_all(own.run(rank_calls, ranks=[0, 1]), "rank 2 (left the session)")


def test_a_stopped_rank_delays_the_fallback_only():
    with ranks_and_switch(3, FALLBACK) as (own, switch, _):
        own.start(rank_sums_through_a_stop, 0.8 * 4 * STOP)
        own.await_progress()
        own.kill(1, signal.SIGSTOP)
        switch.kill()
        time.sleep(4 * STOP)
        own.kill(1, signal.SIGCONT)
        assert own.finish() == [1, 1, 1], "the ranks still believe in the switch"
