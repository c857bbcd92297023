"""Several tensors in one call."""

import itertools

import pytest
import torch
import torch.distributed as dist

import harness
from cases import tensors_of_all
from harness import TORCH
from oracle import check_equal, check_reduction


def rank_coalesced():
    shapes = ((3,), (0,), (70, 5), (1000,), ())
    everyone = tensors_of_all(shapes)
    mine = [x.clone() for x in everyone[dist.get_rank()]]
    dist.all_reduce_coalesced(mine)
    for i, result in enumerate(mine):
        check_reduction(result, [each[i] for each in everyone], "SUM")
    outputs = [[torch.zeros_like(x) for x in each] for each in everyone]
    dist.all_gather_coalesced(outputs, everyone[dist.get_rank()])
    for output, wanted in zip(itertools.chain(*outputs), itertools.chain(*everyone)):
        check_equal(output, wanted, "all_gather_coalesced")


@pytest.mark.filterwarnings("ignore")
def test_coalesced(world):
    harness.pool(world).run(rank_coalesced)


def rank_coalescing_manager():
    from torch.distributed.distributed_c10d import _coalescing_manager

    everyone = tensors_of_all([(5,), (300,), (4000,)])
    mine = [x.clone() for x in everyone[dist.get_rank()]]
    with _coalescing_manager(async_ops=True) as manager:
        for tensor in mine:
            dist.all_reduce(tensor)
    manager.wait()
    for i, result in enumerate(mine):
        check_reduction(result, [each[i] for each in everyone], "SUM")


@pytest.mark.skipif(TORCH < (2, 1), reason="the coalescing manager takes plain all_reduce calls from torch 2.1 on")
def test_coalescing_manager(world):
    harness.pool(world).run(rank_coalescing_manager)
