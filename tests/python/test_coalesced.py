"""Several tensors in one call, and tensors that share memory with each other."""

import itertools

import pytest
import torch
import torch.distributed as dist

import harness
from cases import AliasedParts, gloo_result, name_of, tensors_of_all
from harness import TORCH
from oracle import check_equal, check_reduction, operation, reduce_exactly


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


# ---- parts that share memory ----
# Inputs are those of the moment of the call, and results are written in the order of the parts, as Gloo does it.


def coalesced(call, *lists, **kwargs):
    """call(part of each list) for all parts, as one."""
    group = kwargs.pop("group", None)
    from torch.distributed.distributed_c10d import _coalescing_manager

    with _coalescing_manager(group) as manager:
        for tensors in zip(*lists):
            call(*tensors, group=group, **kwargs)
    del manager


def all_reduces(parts, group, op):
    dist.all_reduce_coalesced(parts.inputs(), op, group=group)


def managed_all_reduces(parts, group, op):
    coalesced(dist.all_reduce, parts.inputs(), op=op, group=group)


def reduce_scatters(parts, group, op):
    coalesced(dist.reduce_scatter_tensor, parts.outputs(), parts.inputs(), op=op, group=group)


def all_gathers(parts, group, op):
    coalesced(dist.all_gather_into_tensor, parts.outputs(), parts.inputs(), group=group)


def reduce_scatter(parts, group, op):
    dist.reduce_scatter(parts.outputs()[0], parts.inputs(), op, group=group)


def reduce_scatter_of_large_pieces(parts, group, op):
    reduce_scatter(parts, group, op)


def reduce_scatter_tensor(parts, group, op):
    dist.reduce_scatter_tensor(parts.outputs()[0], parts.inputs()[0], op, group=group)


def all_gather_into_tensor(parts, group, op):
    dist.all_gather_into_tensor(parts.outputs()[0], parts.inputs()[0], group=group)


def scatter(parts, group, op):
    dist.scatter(parts.outputs()[0], parts.inputs() if dist.get_rank() == 0 else None, 0, group=group)


def all_to_all_single(parts, group, op):
    dist.all_to_all_single(parts.outputs()[0], parts.inputs()[0], group=group)


#: Elements of a piece, from which on the pieces of a reduce_scatter are collectives of their own, for any type and two
# ranks.
NOT_JOINED = 280_000

#: Call: (sizes of inputs and outputs, for parts of n elements and `size` ranks; results of all ranks' inputs; whether
# Gloo's : results are these where memory is shared).
ALIASED = {
    all_reduces: (lambda n, size: (n, None), lambda each, op, rank: [reduce_exactly(x, op) for x in zip(*each)], True),
    reduce_scatters: (
        lambda n, size: ([x * size for x in n], n),
        lambda each, op, rank: [reduce_exactly(x, op).chunk(len(each))[rank] for x in zip(*each)],
        True,
    ),
    all_gathers: (
        lambda n, size: (n, [x * size for x in n]),
        lambda each, op, rank: [torch.cat(x) for x in zip(*each)],
        False,
    ),
    reduce_scatter: (
        lambda n, size: (n[:1] * size, n[:1]),
        lambda each, op, rank: [reduce_exactly([inputs[rank] for inputs in each], op)],
        False,
    ),
    scatter: (lambda n, size: (n[:1] * size, n[:1]), lambda each, op, rank: [each[0][rank]], False),
    all_to_all_single: (
        lambda n, size: ([n[0] * size], [n[0] * size]),
        lambda each, op, rank: [torch.cat([inputs[0].chunk(len(each))[rank] for inputs in each])],
        False,
    ),
}
ALIASED[managed_all_reduces] = ALIASED[all_reduces]
ALIASED[reduce_scatter_of_large_pieces] = (
    lambda n, size: ([NOT_JOINED + n[0]] * size, [NOT_JOINED + n[0]]),
    *ALIASED[reduce_scatter][1:],
)
for one, many in ((reduce_scatter_tensor, reduce_scatters), (all_gather_into_tensor, all_gathers)):
    ALIASED[one] = (lambda n, size, sizes=ALIASED[many][0]: sizes(n[:1], size), ALIASED[many][1], False)
OLD = (all_reduces, reduce_scatter, reduce_scatter_of_large_pieces, scatter, all_to_all_single)  # what torch 1.13 has


def rank_aliased(call, dtype, seeds, longest):
    sizes, results, gloo_agrees = ALIASED[call]
    size, rank = dist.get_world_size(), dist.get_rank()
    for seed in seeds:
        everyone = [AliasedParts(seed, r, size, dtype, longest, sizes) for r in range(size)]
        name = everyone[0].operation
        wanted = AliasedParts(seed, rank, size, dtype, longest, sizes)
        wanted.write(results([[x.clone() for x in parts.inputs()] for parts in everyone], name, rank))
        over_gloo = AliasedParts(seed, rank, size, dtype, longest, sizes)
        if gloo_agrees and gloo_result(lambda g, _: call(over_gloo, g, operation(name)), over_gloo.memory) is not None:
            check_equal(over_gloo.memory, wanted.memory, f"Gloo, seed {seed}, {name}")
        call(everyone[rank], None, operation(name))
        check_equal(everyone[rank].memory, wanted.memory, f"seed {seed}, {name}, {everyone[rank]}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", (torch.float32, torch.int32, torch.bfloat16), ids=name_of)
@pytest.mark.parametrize("call", sorted(ALIASED, key=lambda f: f.__name__), ids=lambda f: f.__name__)
def test_parts_that_share_memory(world, call, dtype):
    if TORCH < (2, 1) and call not in OLD:
        pytest.skip("torch has the call from 2.1 on")
    harness.pool(world).run(rank_aliased, call, dtype, range(12), 700)
    harness.pool(world).run(rank_aliased, call, dtype, range(100, 103), 90000)


def rank_one_tensor_twice():
    """PyTorch's own tests do this: many calls at once, each with one tensor as both parts."""
    size, rank = dist.get_world_size(), dist.get_rank()
    lists = [2 * [torch.tensor([i + rank])] for i in range(300)]
    works = [dist.all_reduce_coalesced(tensors, async_op=True) for tensors in lists]
    for i, work in enumerate(works):
        (work.wait if hasattr(work, "wait") else work.get_future().wait)()
        wanted = i * size + size * (size - 1) // 2
        assert [x.item() for x in lists[i]] == [wanted, wanted], i


@pytest.mark.filterwarnings("ignore")
def test_one_tensor_twice(world):
    harness.pool(world).run(rank_one_tensor_twice)
