"""What a group's backend tells torch of itself: what ended it, how long calls took, its options."""

import copy

import pytest
import torch
import torch.distributed as dist

import harness
from failing import TIMEOUT, aborted_during, doomed_pool, rank_calls, rank_warm_up
from test_groups import backend_of

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has none of this")


def default_group():
    return dist.distributed_c10d._get_default_group()


# ---- what ended it ----

needs_error_types = pytest.mark.skipif(
    not hasattr(torch._C._distributed_c10d, "ErrorType"), reason="this torch has no types of errors"
)


def error():
    """The name of what the backend says has ended the group."""
    return backend_of(default_group()).get_error().name


def rank_error_after(function, *args):
    """What a call raises, and what the backend says at once behind it."""
    message = harness.caught(function, *args)
    return message, error()


def rank_error_after_calls():
    message, _ = rank_calls()
    return message, error()


def check(outcomes, name):
    for message, told in outcomes:
        assert message and told == name, outcomes


@needs_error_types
def test_a_group_that_works_has_no_error(world):
    outcomes = harness.pool(world).run(rank_error_after, rank_warm_up)
    assert outcomes == [(None, "SUCCESS")] * world


def rank_bad_argument():
    return rank_error_after(dist.broadcast, torch.ones(3), 77)


@needs_error_types
def test_a_refused_argument_is_no_error_of_the_group():
    pool = harness.pool(2)
    check(pool.run(rank_bad_argument), "SUCCESS")
    assert pool.run(rank_error_after, rank_warm_up) == [(None, "SUCCESS")] * 2


@needs_error_types
def test_a_call_that_others_do_not_make_ends_in_a_timeout():
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        own.run(rank_warm_up)
        own.start(rank_error_after, dist.all_reduce, torch.ones(100), ranks=(0,))
        check(own.finish(ranks=(0,)), "TIMEOUT")
        later = own.run(rank_error_after, dist.all_reduce, torch.ones(100), ranks=(0,))
        assert later[0][1] == "TIMEOUT", "the first one counts"


@needs_error_types
def test_a_rank_that_dies_is_an_error_elsewhere():
    with doomed_pool(3) as own:
        own.run(rank_warm_up)
        own.start(rank_error_after_calls)
        own.await_progress(2)
        own.kill(1)
        check(own.finish(ranks=(0, 2)), "REMOTE_ERROR")


def rank_other_call():
    tensor = torch.ones(100 + dist.get_rank())
    return rank_error_after(dist.all_reduce, tensor)


@needs_error_types
def test_ranks_that_disagree_have_an_error_of_communication():
    with doomed_pool(2) as own:
        own.run(rank_warm_up)
        check(own.run(rank_other_call), "COMM_ERROR")


def rank_abort():
    outcome = aborted_during(dist.all_reduce, torch.ones(100))
    return outcome[0], error()


@needs_error_types
def test_an_aborted_group_has_an_error():
    with doomed_pool(2) as own:
        own.run(rank_warm_up)
        check(own.run(rank_abort, ranks=(0,)), "COMM_ERROR")


# ---- how long calls took ----


def rank_times_calls():
    """What works say of their duration: before timing is on, and by call once it is."""
    x, lists = torch.ones(1000), [torch.empty(1000) for _ in range(dist.get_world_size())]
    calls = {
        "all_reduce": lambda: dist.all_reduce(x, async_op=True),
        "broadcast": lambda: dist.broadcast(x, 0, async_op=True),
        "all_gather": lambda: dist.all_gather(lists, x, async_op=True),
        "barrier": lambda: dist.barrier(async_op=True),
    }

    def durations():
        told = {}
        for name, call in calls.items():
            work = call()
            work.wait()
            said = harness.caught(work._get_duration)
            told[name] = said or work._get_duration()
        return told

    before = durations()
    default_group()._enable_collectives_timing()
    return before, durations()


@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "_enable_collectives_timing"), reason="this torch times no calls")
def test_calls_tell_how_long_they_took():
    with harness.fresh_pool(2, with_gloo=False) as own:
        for before, after in own.run(rank_times_calls):
            assert all("enableCollectivesTiming() was not called" in said for said in before.values()), before
            assert all(isinstance(took, float) and took > 0 for took in after.values()), after
        own.close()


# ---- options ----


def rank_asks_options():
    """Timeout and name of the options, of a copy, and of the options once the timeout has changed."""
    group = dist.new_group(timeout=harness.seconds(44))
    backend = backend_of(group)
    options = backend.options
    copied = copy.deepcopy(options)
    copied._timeout = harness.seconds(5)
    if hasattr(copied, "group_name"):
        assert options.group_name == group.group_name and list(options.global_ranks_in_group) == [0, 1]
        options.group_name = "a name"
        assert copied.group_name == group.group_name and copy.deepcopy(options).group_name == "a name"
    asked = options, copied, backend.options
    told = [(one.backend, one._timeout, type(one) is type(options)) for one in asked]
    set_timeout = getattr(backend, "set_timeout", None) or getattr(backend, "_set_default_timeout", None)
    if set_timeout:
        set_timeout(harness.seconds(55))
        assert backend.options._timeout == harness.seconds(55)
    dist.destroy_process_group(group)
    return told


def test_options_are_copies():
    for told in harness.pool(2).run(rank_asks_options):
        assert told == [("switchml", harness.seconds(number), True) for number in (44, 5, 44)]
