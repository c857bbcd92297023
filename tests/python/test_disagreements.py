"""Ranks that call different things at one point: an error on every rank, at once, that says what each called."""

import threading

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, TIMEOUT, check_all, doomed_pool, rank_warm_up, timed

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo promises nothing of this")


def rank_disagree(kind, warm):
    last = dist.get_rank() == dist.get_world_size() - 1
    if warm:
        rank_warm_up()
    if kind == "size":
        return timed(dist.all_reduce, torch.ones(2000 if last else 1000))
    if kind == "few elements":
        return timed(dist.all_reduce, torch.ones(3 if last else 2))
    if kind == "much larger":
        return timed(dist.all_reduce, torch.ones(500000 if last else 1000))
    if kind == "type":
        return timed(dist.all_reduce, torch.ones(1000, dtype=torch.int32 if last else torch.float32))
    if kind == "integer average":  # to the switch a sum like any other: the division comes after it
        return timed(dist.all_reduce, torch.ones(1000, dtype=torch.int32), dist.ReduceOp.AVG if last else dist.ReduceOp.SUM)
    if kind == "root":
        return timed(dist.reduce, torch.ones(1000), 1 if last else 0)
    return timed(dist.all_reduce, torch.ones(1000), dist.ReduceOp.MAX if last else dist.ReduceOp.SUM)


MISMATCHES = {
    "size": ("1000", "2000"),
    "few elements": ("2 elements", "3 elements"),
    "much larger": ("1000", "500000"),
    "type": ("float32", "int32"),
    "operation": ("SUM", "MAX"),
    "integer average": ("SUM", "AVG"),
    "root": ("to rank 0", "to rank 1"),
}


@pytest.mark.parametrize("warm", (False, True), ids=("first call", "later call"))
@pytest.mark.parametrize("kind", MISMATCHES)
def test_ranks_that_disagree_are_told(kind, warm):
    with doomed_pool(3) as own:
        check_all(own.run(rank_disagree, kind, warm), "rank 2", *MISMATCHES[kind])


def rank_after_an_error():
    first = timed(dist.all_reduce, torch.ones(1000 + dist.get_rank()))
    second = timed(dist.all_reduce, torch.ones(10))
    return first, second


def test_a_group_stays_broken_after_an_error_and_says_so():
    with doomed_pool(2) as own:
        results = own.run(rank_after_an_error)
    check_all([first for first, _ in results], "elements")
    check_all([second for _, second in results])


# ---- calls that go through the companion ----


def call_of(kind, odd):
    """One rank calls the odd one."""
    x = torch.ones(11 if odd and kind.endswith("sizes") else 10)
    outputs = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    if kind == "broadcast sizes":
        dist.broadcast(x, 0)
    elif kind == "broadcast roots":
        dist.broadcast(x, 1 if odd else 0)
    elif kind == "broadcast types":
        dist.broadcast(x.to(torch.int32) if odd else x, 0)
    elif kind == "broadcast and all_reduce":
        dist.all_reduce(x) if odd else dist.broadcast(x, 0)
    elif kind == "PRODUCT and SUM":
        dist.all_reduce(x, dist.ReduceOp.SUM if odd else dist.ReduceOp.PRODUCT)
    elif kind == "all_gather sizes":
        dist.all_gather(outputs, x)
    elif kind == "all_gather and broadcast":
        dist.broadcast(x, 0) if odd else dist.all_gather(outputs, x)
    elif kind == "scatter roots":
        root = 1 if odd else 0
        dist.scatter(x, outputs if dist.get_rank() == root else None, src=root)
    elif kind == "gather types":
        x = x.to(torch.int32) if odd else x
        outputs = [torch.empty_like(x) for _ in outputs] if dist.get_rank() == 0 else None
        dist.gather(x, outputs, dst=0)
    elif kind == "all_to_all types":
        x = torch.ones(12, dtype=torch.int32 if odd else torch.float32)
        dist.all_to_all_single(torch.empty_like(x), x)


def rank_disagree_beside_the_switch(kind, warm):
    """What the call and the next one raised. A rank that only sends may learn of it by the next."""
    if warm:
        rank_warm_up()
        dist.broadcast(torch.ones(3), 0)
    last = dist.get_rank() == dist.get_world_size() - 1
    first, took = timed(call_of, kind, last)
    if first is None:
        first, took = timed(dist.barrier)
    return first, took


COMPANION_MISMATCHES = {
    "broadcast sizes": ("10 elements", "11 elements"),
    "broadcast roots": ("from rank 0", "from rank 1"),
    "broadcast types": ("float32", "int32"),
    "broadcast and all_reduce": ("broadcast(", "all_reduce("),
    "PRODUCT and SUM": ("PRODUCT", "SUM"),
    "all_gather sizes": ("10 elements", "11 elements"),
    "all_gather and broadcast": ("all_gather(", "broadcast("),
    "scatter roots": ("from rank 0", "from rank 1"),
    "gather types": ("float32", "int32"),
    "all_to_all types": ("float32", "int32"),
}


@pytest.mark.parametrize("warm", (False, True), ids=("first call", "later call"))
@pytest.mark.parametrize("kind", COMPANION_MISMATCHES)
def test_ranks_that_disagree_beside_the_switch_are_told(kind, warm):
    with doomed_pool(3, group_timeout=60) as own:
        outcomes = own.run(rank_disagree_beside_the_switch, kind, warm)
    for rank, (message, took) in enumerate(outcomes):
        assert message, f"rank {rank} saw no error; all: {outcomes}"
        assert took < IN_TIME, f"rank {rank} took {took:.1f} s to say: {message}"
    told = [message for message, _ in outcomes if all(text in message for text in COMPANION_MISMATCHES[kind])]
    assert told, outcomes


def rank_first_companion_call_alone():
    outcome, took = timed(dist.broadcast, torch.ones(3), 1)
    message, ended = timed(dist.destroy_process_group)
    assert message is None and ended < IN_TIME, (message, ended)
    return outcome, took


def test_a_rank_that_never_makes_the_first_companion_call_is_named():
    with doomed_pool(2) as own:
        ((message, took),) = own.run(rank_first_companion_call_alone, ranks=(0,))
    assert "no contribution from rank 1" in message, message
    assert TIMEOUT / 2 < took < IN_TIME, took


def rank_receives_from_nobody():
    return timed(dist.recv, torch.ones(3), 1)


def test_a_peer_that_never_connects_is_named():
    with doomed_pool(2) as own:
        connected_at_once = "lazy_init" not in (dist.ProcessGroupGloo.create_device.__doc__ or "")
        text = "Timed out" if connected_at_once else "rank 1"
        check_all(own.run(rank_receives_from_nobody, ranks=(0,)), text)


def rank_abort_companion():
    """Rank 0 waits for rank 1, which never comes, until another thread aborts the group."""
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    if not hasattr(backend, "abort"):
        return None
    timer = threading.Timer(0.5, backend.abort)
    timer.start()
    outcome = timed(dist.broadcast, torch.ones(3), 1)
    timer.join()
    return outcome


def test_abort_ends_a_companion_call():
    with doomed_pool(2, group_timeout=60) as own:
        (outcome,) = own.run(rank_abort_companion, ranks=(0,))
        if outcome is None:
            pytest.skip("this PyTorch cannot abort a group from Python")
        check_all([outcome], "aborted")
