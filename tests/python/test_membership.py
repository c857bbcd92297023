"""Groups that are made of others' ranks while the program runs: without a rank that died, and of two groups
together."""

import datetime
import importlib
import importlib.util

import pytest
import torch
import torch.distributed as dist

import harness
from documented import snippet
from failing import LONG, doomed_pool, timed

c10d = dist.distributed_c10d
WORLD = 4
pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has none of this")
needs_shrink = pytest.mark.skipif(not hasattr(dist, "shrink_group"), reason="this PyTorch shrinks no groups")


def total():
    tensor = torch.full((1000,), float(dist.get_rank() + 1))
    dist.all_reduce(tensor)
    assert tensor.eq(tensor[0]).all()
    return tensor[0].item()


def rank_loses_one(victim, flags):
    """Calls until one fails because the victim has died; then goes on without it, in a smaller default group."""
    message = None
    while message is None:
        message, _ = timed(dist.all_reduce, torch.ones(50000))
        harness.advance()
    group = dist.shrink_group([victim], shrink_flags=flags)
    assert c10d._get_default_group() is group
    outputs = [torch.empty(2) for _ in range(dist.get_world_size())]
    dist.all_gather(outputs, torch.full((2,), float(dist.get_rank())))
    gathered = [int(output[0]) for output in outputs]
    # A message.
    if dist.get_rank() == 0:
        dist.send(torch.ones(3), 1)
    elif dist.get_rank() == 1:
        dist.recv(torch.empty(3), 0)
    objects = [None] * dist.get_world_size()
    dist.all_gather_object(objects, f"rank {dist.get_rank()}")
    dist.barrier()
    return message, dist.get_rank(), dist.get_world_size(), total(), gathered, objects


@needs_shrink
@pytest.mark.parametrize("victim", (0, 1, 3))
@pytest.mark.parametrize("flags", (0, 1), ids=("default", "abort"))
def test_ranks_go_on_without_one_that_died(victim, flags):
    with doomed_pool(4) as own:
        own.start(rank_loses_one, victim, flags)
        own.await_progress(2)
        own.kill(victim)
        survivors = [rank for rank in range(4) if rank != victim]
        outcomes = own.finish(survivors)
        for place, (message, *told) in enumerate(outcomes):
            assert f"rank {victim}" in message
            assert told == [place, 3, 6.0, [0, 1, 2], ["rank 0", "rank 1", "rank 2"]]


def rank_runs_the_page():
    """What docs/failures.md shows, until it has gone on without a rank."""
    code, gradient = compile(snippet("docs/failures.md", "Shrink and reconfigure"), "failures.md", "exec"), None
    while dist.get_world_size() == WORLD:
        gradient = torch.ones(50000)
        exec(code, {"dist": dist, "gradient": gradient})
        harness.advance()
    return dist.get_rank(), dist.get_world_size(), total()


@needs_shrink
@pytest.mark.parametrize("transport", ("shm", "udp"))
def test_the_page_says_how_to_go_on(transport):
    with doomed_pool(WORLD, environment={"SWITCHML_TRANSPORT": transport}) as own:
        own.start(rank_runs_the_page)
        own.await_progress(2)
        own.kill(3)
        assert own.finish([0, 1, 2]) == [(rank, 3, 6.0) for rank in range(3)]


def rank_shrinks_twice():
    sizes = []
    for _ in range(2):
        last = dist.get_world_size() - 1
        if dist.get_rank() == last:
            return sizes
        dist.shrink_group([last])
        sizes.append((dist.get_world_size(), total()))
    return sizes


@needs_shrink
def test_a_group_shrinks_again():
    with harness.fresh_pool(4, with_gloo=False) as own:
        assert own.run(rank_shrinks_twice) == [[(3, 6.0), (2, 3.0)], [(3, 6.0), (2, 3.0)], [(3, 6.0)], []]


def rank_shrinks_a_part():
    part = dist.new_group([0, 1, 2])
    if dist.get_rank() in (0, 2):
        smaller = dist.shrink_group([1], group=part)
        tensor = torch.ones(5)
        dist.all_reduce(tensor, group=smaller)
        assert tensor.eq(2).all()
    dist.barrier()
    return total()


@needs_shrink
def test_the_other_groups_stay_when_one_that_is_not_the_default_shrinks():
    with harness.fresh_pool(4, with_gloo=False) as own:
        assert own.run(rank_shrinks_a_part) == [10.0] * 4


def rank_merges():
    halves = [dist.new_group([0, 1]), dist.new_group([2])]
    mine = halves[dist.get_rank() // 2]
    store = dist.PrefixStore("whole", c10d._get_default_store())
    whole = mine.merge_remote_group(store, 3, datetime.timedelta(seconds=LONG), "whole", "of two")
    tensor = torch.full((4,), float(dist.get_rank()))
    whole.allreduce([tensor]).wait()
    return whole.size(), sorted([whole.rank()]), tensor[0].item()


@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "merge_remote_group"), reason="this PyTorch merges no groups")
def test_two_groups_become_one():
    outcomes = harness.pool(3).run(rank_merges)
    assert sorted(rank for _, (rank,), _ in outcomes) == [0, 1, 2]
    assert [(size, value) for size, _, value in outcomes] == [(3, 3.0)] * 3


@pytest.mark.skipif(importlib.util.find_spec("torchft") is not None, reason="torchft is installed")
def test_a_missing_torchft_is_named():  # tests/clients has what it does where it is there
    with pytest.raises(ImportError, match="needs the package torchft .*: pip install torchft"):
        importlib.import_module("switchml.torchft")


# ---- other ranks for the same group, from 2.14 on ----

needs_reconfigure = pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="this PyTorch reconfigures no groups")


def handles_of_all(step, mine):
    """By rank of the world, through the store; this process is number `mine` there."""
    store = c10d._get_default_store()
    store.set(f"{step}/{mine}", dist._get_reconfigure_handle())
    return [store.get(f"{step}/{rank}").decode() for rank in range(WORLD)]


def rank_goes_on_in_place(victim):
    """Calls until one fails because the victim has died; then the same group goes on without it."""
    handles = handles_of_all("before", dist.get_rank())
    message = None
    while message is None:
        message, _ = timed(dist.all_reduce, torch.ones(50000))
        harness.advance()
    group = c10d._get_default_group()
    dist._reconfigure(1, [handle for rank, handle in enumerate(handles) if rank != victim]).wait()
    assert c10d._get_default_group() is group and group.size() == WORLD - 1
    sums = total()
    moved = torch.full((3,), float(dist.get_rank()))
    dist.broadcast(moved, group_src=1)
    return message, group.rank(), sums, moved[0].item(), str(group._get_backend(torch.device("cpu")).get_error())


@needs_reconfigure
@pytest.mark.parametrize("victim", (0, 2))
def test_the_same_group_goes_on_without_a_rank_that_died(victim):
    with doomed_pool(WORLD) as own:
        own.start(rank_goes_on_in_place, victim)
        own.await_progress(2)
        own.kill(victim)
        survivors = [rank for rank in range(WORLD) if rank != victim]
        for place, (message, *told) in enumerate(own.finish(survivors)):
            assert f"rank {victim}" in message
            assert told == [place, 6.0, 1.0, "ErrorType.SUCCESS"]


def rank_leaves_and_comes_back():
    mine = dist.get_rank()
    dist._reconfigure(100 + mine, {dist._get_reconfigure_handle()}).wait()
    sizes = [(dist.get_world_size(), dist.get_rank(), total())]
    handles = handles_of_all("together", mine)
    dist._reconfigure(200, set(handles)).wait()
    sizes.append((dist.get_world_size(), dist.get_rank(), total()))
    handles.reverse()
    dist._reconfigure(201, handles).wait()
    sizes.append((dist.get_world_size(), dist.get_rank(), total()))
    return (
        sizes,
        harness.caught(dist._reconfigure, 201, handles),
        harness.caught(dist._reconfigure, 202, handles[:1] * 2),
    )


@needs_reconfigure
def test_ranks_leave_and_come_back():
    with harness.fresh_pool(WORLD, with_gloo=False) as own:
        for rank, (sizes, used, twice) in enumerate(own.run(rank_leaves_and_comes_back)):
            assert sizes == [(1, 0, 1.0), (WORLD, rank, 10.0), (WORLD, WORLD - 1 - rank, 10.0)]
            assert "uuid 201 was already used" in used and "have one twice" in twice
