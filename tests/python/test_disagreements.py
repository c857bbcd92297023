"""Ranks that call different things at one point: an error on every rank, at once, that says what each called."""

import pytest
import torch
import torch.distributed as dist

import harness
from failing import IN_TIME, TIMEOUT, aborted_during, check_all, doomed_pool, rank_warm_up, timed

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
    if kind == "integer average":  # to any switch a sum like any other: the division comes after it
        return timed(
            dist.all_reduce, torch.ones(1000, dtype=torch.int32), dist.ReduceOp.AVG if last else dist.ReduceOp.SUM
        )
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
def test_ranks_that_disagree_are_told(kind, warm, precision):
    with doomed_pool(3, environment={"SWITCHML_PRECISION": precision}) as own:
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


# ---- calls that go through Gloo ----


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
    elif kind == "all_to_all_single types":
        x = torch.ones(12, dtype=torch.int32 if odd else torch.float32)
        dist.all_to_all_single(torch.empty_like(x), x)
    elif kind == "all_to_all_single sizes":
        x = torch.ones(15 if odd else 12)
        dist.all_to_all_single(torch.empty_like(x), x)
    elif kind == "all_to_all types":
        pieces = [torch.ones(4, dtype=torch.int32 if odd else torch.float32) for _ in outputs]
        dist.all_to_all([torch.empty_like(piece) for piece in pieces], pieces)
    elif kind == "all_to_all sizes":
        pieces = [torch.ones(5 if odd and to == 0 else 4) for to, _ in enumerate(outputs)]
        dist.all_to_all([torch.empty(4) for _ in pieces], pieces)
    elif kind == "reduce roots":
        dist.reduce(x.double(), 1 if odd else 0)
    elif kind.startswith("reduce_scatter pieces"):
        sizes = [10, 12, 11] if odd else [11, 11, 11]
        pieces = [torch.ones(size, dtype=torch.float64 if "float64" in kind else torch.float32) for size in sizes]
        dist.reduce_scatter(torch.empty_like(pieces[dist.get_rank()]), pieces)
    elif kind == "numbers of tensors":
        tensors = [torch.ones(4)] if odd else [torch.ones(4), torch.ones(5)]
        dist.all_reduce_coalesced(tensors)


def rank_disagree_beside_the_switch(kind, warm):
    if warm:
        rank_warm_up()
        dist.broadcast(torch.ones(3), 0)
    last = dist.get_rank() == dist.get_world_size() - 1
    return timed(call_of, kind, last)


OTHER_MISMATCHES = {
    "broadcast sizes": ("10 elements", "11 elements"),
    "broadcast roots": ("from rank 0", "from rank 1"),
    "broadcast types": ("float32", "int32"),
    "broadcast and all_reduce": ("broadcast(", "all_reduce("),
    "PRODUCT and SUM": ("PRODUCT", "SUM"),
    "all_gather sizes": ("10 elements", "11 elements"),
    "all_gather and broadcast": ("all_gather(", "broadcast("),
    "scatter roots": ("from rank 0", "from rank 1"),
    "gather types": ("float32", "int32"),
    "all_to_all_single types": ("float32", "int32"),
    "all_to_all_single sizes": ("rank 0 sends 16 bytes of float32 to rank 2, which expects 20 bytes",),
    "all_to_all types": ("float32", "int32"),
    "all_to_all sizes": ("rank 2 sends 20 bytes of float32 to rank 0, which expects 16 bytes",),
    "reduce roots": ("to rank 0", "to rank 1"),
    "reduce_scatter pieces": ("10 + 12 + 11", "11 + 11 + 11"),
    "reduce_scatter pieces of float64": ("10 + 12 + 11", "11 + 11 + 11"),
    "numbers of tensors": ("4 elements", "4 + 5 elements"),
}


#: Where such calls go: to hosts beside a switch of integers, through a switch in software, and through memory.
BESIDE = {
    "hosts": {"SWITCHML_PRECISION": "integer", "SWITCHML_TRANSPORT": "udp"},
    "switch": {"SWITCHML_TRANSPORT": "udp"},
    "memory": {"SWITCHML_TRANSPORT": "shm"},
}


@pytest.mark.through_switch
@pytest.mark.parametrize("way", BESIDE)
@pytest.mark.parametrize("warm", (False, True), ids=("first call", "later call"))
@pytest.mark.parametrize("kind", OTHER_MISMATCHES)
def test_ranks_that_disagree_beside_the_switch_are_told(kind, warm, way):
    with doomed_pool(3, environment=BESIDE[way]) as own:
        outcomes = own.run(rank_disagree_beside_the_switch, kind, warm)
    check_all(outcomes, *OTHER_MISMATCHES[kind])


def rank_bad_list(kind):
    """Rank 0's own arguments are wrong: it says so at once, and nobody waits for more than the group's timeout."""
    x = torch.ones(4)
    lists = [torch.empty(4) for _ in range(dist.get_world_size())]
    if dist.get_rank() == 0:
        if kind == "size":
            lists[1] = torch.empty(3)
        elif kind == "type":
            lists[1] = torch.empty(4, dtype=torch.int32)
        elif kind == "expanded":
            lists[1] = torch.empty(1).expand(4)
    return timed(dist.all_gather, lists, x)


@pytest.mark.parametrize("kind", ("size", "type", "expanded"))
def test_a_bad_list_on_one_rank_is_refused_and_the_others_are_told_in_time(kind):
    with doomed_pool(3, group_timeout=TIMEOUT) as own:
        (mine, took), *others = own.run(rank_bad_list, kind)
    # torch itself refuses a list of several types.
    assert ("allowed" in mine or "expected (4)" in mine or "different dtypes" in mine) and took < TIMEOUT / 2, (
        mine,
        took,
    )
    check_all(others, "rank 0")


def rank_destroy_with_calls_in_flight():
    tensors = [torch.full((1000,), float(dist.get_rank())) for _ in range(10)]
    works = [dist.broadcast(tensor, 1, async_op=True) for tensor in tensors]
    dist.destroy_process_group()
    return [harness.caught(work.wait) for work in works], [float(tensor.sum()) for tensor in tensors]


def test_destroy_lets_calls_end():
    with doomed_pool(2) as own:
        for errors, sums in own.run(rank_destroy_with_calls_in_flight):
            assert errors == [None] * 10, errors
            assert sums == [1000.0] * 10


def rank_first_gloo_call_alone():
    outcome, took = timed(dist.broadcast, torch.ones(3), 1)
    message, ended = timed(dist.destroy_process_group)
    assert message is None and ended < IN_TIME, (message, ended)
    return outcome, took


def test_a_rank_that_never_makes_the_first_gloo_call_is_named():
    with doomed_pool(2, group_timeout=TIMEOUT) as own:
        ((message, took),) = own.run(rank_first_gloo_call_alone, ranks=(0,))
    assert "no contribution from rank 1" in message, message
    assert TIMEOUT / 2 < took < IN_TIME, took


def rank_receives_from_nobody():
    return timed(dist.recv, torch.ones(3), 1)


def test_a_peer_that_never_connects_is_named():
    with doomed_pool(2, group_timeout=TIMEOUT) as own:
        check_all(own.run(rank_receives_from_nobody, ranks=(0,)), "rank 1 has not sent it")


def rank_abort_gloo():
    """Rank 0 waits for rank 1, which never comes."""
    return aborted_during(dist.broadcast, torch.ones(3), 1)


def test_abort_ends_a_gloo_call():
    with doomed_pool(2) as own:
        (outcome,) = own.run(rank_abort_gloo, ranks=(0,))
        if outcome is None:
            pytest.skip("this PyTorch cannot abort a group from Python")
        check_all([outcome], "aborted")
