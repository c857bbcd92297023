"""barrier and monitored_barrier where every rank comes; test_monitored_barriers.py has those where one does not."""

import sys

import torch
import torch.distributed as dist

import harness


def rank_barriers():
    dist.barrier()
    work = dist.barrier(async_op=True)
    work.wait()
    dist.monitored_barrier(timeout=harness.seconds(20))
    dist.monitored_barrier(timeout=harness.seconds(20), wait_all_ranks=True)


def test_barriers(world):
    harness.pool(world).run(rank_barriers)


def rank_monitored_by_method():
    dist.barrier()
    dist.barrier(async_op=True).wait()
    group = dist.distributed_c10d._get_default_group()
    group.monitored_barrier(harness.seconds(20), wait_all_ranks=True)


def test_barrier_and_the_groups_own_monitored_barrier(world):
    harness.pool(world).run(rank_monitored_by_method)


def rank_many_monitored_barriers(rounds):
    """They go over the store: no group of Gloo's comes into being for them, and none of them leaves anything behind."""
    store = dist.distributed_c10d._get_default_store()
    keys = []
    for i in range(rounds):
        dist.monitored_barrier(timeout=harness.seconds(20), wait_all_ranks=i % 2 == 1)
        keys.append(store.num_keys())
        dist.barrier()
    total = torch.ones(100)
    dist.all_reduce(total)
    assert total.eq(dist.get_world_size()).all()
    return keys[0], keys[-1], way_of_monitored_barriers()


def way_of_monitored_barriers():
    if harness.BACKEND == "gloo":
        return None
    return sys.modules["switchml"].stats()["calls"]["monitored_barrier"]


def test_many_monitored_barriers_in_a_row(world):
    with harness.fresh_pool(world, with_gloo=False) as own:
        for first, last, way in own.run(rank_many_monitored_barriers, 40):
            assert last - first <= world, "the store grows with every call"
            assert way in (None, {"store": 40})
        own.close()


def rank_monitored_subgroups():
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(parity, size, 2))) for parity in (0, 1)]
    for _ in range(1 + rank % 2):  # the groups count their barriers each for itself
        dist.monitored_barrier(groups[rank % 2], timeout=harness.seconds(20))
    dist.monitored_barrier(timeout=harness.seconds(20))


def test_monitored_barriers_of_subgroups(world):
    harness.pool(world).run(rank_monitored_subgroups)


def rank_barrier_orders(path):
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(size):
        if rank == turn:
            with open(path, "a") as stream:
                stream.write(f"{rank}\n")
        dist.barrier()
        with open(path) as stream:
            assert len(stream.readlines()) == turn + 1
        dist.barrier()


def test_a_barrier_holds_everybody(world, tmp_path):
    harness.pool(world).run(rank_barrier_orders, str(tmp_path / "turns"))
