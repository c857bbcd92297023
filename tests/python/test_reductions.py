"""all_reduce, reduce and reduce_scatter against Gloo and against an oracle: all on 3 ranks, some of it on 2 and 4."""

import itertools

import pytest
import torch
import torch.distributed as dist

import harness
from cases import FEW_SIZES, MOVED_TYPES, SIZES, beside, gloo_result, inputs_of_all, layouts, name_of
from oracle import (
    FLOATS,
    INTEGERS,
    OPERATIONS,
    check_equal,
    check_reduction,
    digest,
    operation,
    reduce_exactly,
    sums_exactly,
    values,
)

TYPES = FLOATS + (torch.float64,) + INTEGERS
BITWISE = ("BAND", "BOR", "BXOR")


def works_everywhere(dtype, op):
    """What a switch takes that adds integers: these may not be refused. Nothing may where elements are reduced as they
    are."""
    if op in ("MIN", "MAX", "SUM"):
        return dtype != torch.float64
    return op in ("AVG", "PREMUL_SUM") and dtype in FLOATS or sums_exactly()


def rank_all_reduce(dtype, op, sizes):
    digests = []
    for seed, size in enumerate(sizes):
        inputs = inputs_of_all((size,), dtype, seed, small=op == "PRODUCT")
        mine = inputs[dist.get_rank()].clone()
        try:
            dist.all_reduce(mine, operation(op))
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if works_everywhere(dtype, op):
                raise
            theirs = gloo_result(
                lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone()
            )
            assert theirs is None, f"Gloo does {op} of {dtype}, this backend refuses: {error}"
            return None
        check_reduction(mine, inputs, op)
        digests.append(digest(mine))
        if not dtype.is_floating_point or op in ("MIN", "MAX"):
            theirs = gloo_result(
                lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone()
            )
            if theirs is not None:
                check_equal(mine, theirs[0], f"{op} of {dtype} against Gloo")
    return digests


def all_reduce_cases():
    for dtype, op in itertools.product(TYPES, OPERATIONS):
        if dtype.is_floating_point and op in BITWISE:
            continue
        if not dtype.is_floating_point and op in ("AVG", "PREMUL_SUM"):
            continue
        yield pytest.param(dtype, op, id=f"{name_of(dtype)}-{op}")


@pytest.mark.parametrize("dtype, op", list(all_reduce_cases()))
def test_all_reduce(ranks, dtype, op):
    if op == "PREMUL_SUM" and not hasattr(dist, "_make_nccl_premul_sum"):
        pytest.skip(f"torch {torch.__version__} has no PREMUL_SUM for Python")
    sizes = SIZES if op in ("SUM", "MAX") else FEW_SIZES
    results = ranks.run(rank_all_reduce, dtype, op, sizes)
    assert all(result == results[0] for result in results), "ranks differ in the bits of the result"
    if op == "SUM":
        again = ranks.run(rank_all_reduce, dtype, op, sizes)
        assert again == results, "the second run differs in the bits of the result"


OTHER_SIZES = pytest.mark.parametrize("size", (2, 4), ids="{}ranks".format)


@OTHER_SIZES
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int32), ids=name_of)
@pytest.mark.parametrize("op", ("SUM", "MAX"))
def test_all_reduce_of_another_number_of_ranks(precision, size, dtype, op):
    results = harness.pool(size, precision).run(rank_all_reduce, dtype, op, FEW_SIZES)
    assert all(result == results[0] for result in results), "ranks differ in the bits of the result"


def rank_all_reduce_bool(op):
    inputs = inputs_of_all((300,), torch.bool)
    mine = inputs[dist.get_rank()].clone()
    theirs = gloo_result(lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone())
    try:
        dist.all_reduce(mine, operation(op))
    except (RuntimeError, ValueError) as error:
        assert theirs is None, f"Gloo does {op} of bools, this backend refuses: {error}"
        return
    check_equal(mine, reduce_exactly(inputs, op).bool(), op)


@pytest.mark.parametrize("op", ("MIN", "MAX", "BAND", "BOR"))
def test_all_reduce_of_bools(precision, op):
    harness.pool(3, precision).run(rank_all_reduce_bool, op)


def rank_all_reduce_big(dtype):
    inputs = inputs_of_all((3 * 2**20 // torch.empty(0, dtype=dtype).element_size(),), dtype)
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    check_reduction(mine, inputs, "SUM")
    return digest(mine)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int32), ids=name_of)
def test_all_reduce_of_3_mib(precision, dtype):
    assert len(set(harness.pool(3, precision).run(rank_all_reduce_big, dtype))) == 1


def rank_complex():
    inputs = [torch.complex(values((77,), torch.float32, r, 1), values((77,), torch.float32, r, 2)) for r in range(3)]
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    torch.testing.assert_close(mine, sum(inputs), rtol=1e-6, atol=1e-4)


def test_all_reduce_of_complex_numbers(precision):
    harness.pool(3, precision).run(rank_complex)


def rank_sparse(dtype):
    """Rank 0 has a place twice, and the last one has none."""
    size = dist.get_world_size()
    places = [[0, 0], *([rank, rank + 1] for rank in range(1, size - 1)), []]
    everyone = [
        torch.sparse_coo_tensor([mine], values((len(mine), 3), dtype, rank), (size + 1, 3)).coalesce()
        for rank, mine in enumerate(places)
    ]
    mine = everyone[dist.get_rank()].clone()
    dist.all_reduce(mine)
    check_reduction(mine.to_dense(), [x.to_dense() for x in everyone], "SUM")
    assert mine.indices()[0].tolist() == sorted({place for some in places for place in some})
    return digest(mine.values())


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int64), ids=name_of)
def test_all_reduce_of_sparse_tensors(world, precision, dtype):
    assert len(set(harness.pool(world, precision).run(rank_sparse, dtype))) == 1


# ---- sums of which a rank keeps all, a part or nothing ----


def rank_reduce(dtype):
    size = dist.get_world_size()
    for root, op in itertools.product(range(size), ("SUM", "MAX")):
        inputs = inputs_of_all((513,), dtype, root)
        mine = inputs[dist.get_rank()].clone()
        dist.reduce(mine, root, operation(op))
        if dist.get_rank() == root:
            check_reduction(mine, inputs, op)


def rank_reduce_scatter(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()
    for count in FEW_SIZES:
        everyone = [inputs_of_all((count,), dtype, 10 + source) for source in range(size)]  # [source][destination]
        output = torch.zeros(count, dtype=dtype)
        dist.reduce_scatter(output, [x.clone() for x in everyone[rank]])
        mine = slice(rank * count, (rank + 1) * count)
        check_reduction(output, [torch.cat(row) for row in everyone], "SUM", mine)


def rank_reduce_scatter_tensor(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()
    everyone = inputs_of_all((size * 130, 2), dtype)
    output = torch.zeros(130, 2, dtype=dtype)
    dist.reduce_scatter_tensor(output, everyone[rank].clone())
    check_reduction(output, everyone, "SUM", slice(rank * 130, (rank + 1) * 130))


EACH_COLLECTIVE = pytest.mark.parametrize(
    "function", (rank_reduce, rank_reduce_scatter, rank_reduce_scatter_tensor), ids=lambda f: f.__name__[5:]
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", MOVED_TYPES, ids=name_of)
@EACH_COLLECTIVE
def test_collective(ranks, function, dtype):
    ranks.run(function, dtype)


@pytest.mark.filterwarnings("ignore")
@OTHER_SIZES
@EACH_COLLECTIVE
def test_collective_of_another_number_of_ranks(precision, size, function):
    harness.pool(size, precision).run(function, torch.float32)


# ---- shapes and strides ----


def rank_layouts(dtype, op):
    size, rank = dist.get_world_size(), dist.get_rank()
    everyone = [dict(layouts(each, dtype, small=op == "PRODUCT")) for each in range(size)]
    for name in everyone[0]:
        inputs = [each[name] for each in everyone]
        wanted = [x.clone(memory_format=torch.contiguous_format) for x in inputs]
        mine = inputs[rank]
        for call in ("all_reduce", "reduce"):
            mine.copy_(wanted[rank])
            strides, neighbours = mine.stride(), beside(mine)
            if call == "all_reduce":
                dist.all_reduce(mine, operation(op))
            else:
                dist.reduce(mine, size - 1, operation(op))
            assert mine.stride() == strides, name
            check_equal(beside(mine), neighbours, f"{call}: beside {name}")
            if call == "all_reduce" or rank == size - 1:
                check_reduction(mine.contiguous(), wanted, op)


@pytest.mark.parametrize(
    "dtype, op", ((torch.float32, "SUM"), (torch.float32, "PRODUCT"), (torch.float64, "AVG"), (torch.int16, "MAX"))
)
def test_layouts(ranks, dtype, op):
    ranks.run(rank_layouts, dtype, op)


NOT_REDUCED = [name for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]


def rank_types_that_are_not_reduced():
    size, errors = dist.get_world_size(), []
    for name in NOT_REDUCED:
        one, all_parts = (torch.ones(count).to(getattr(torch, name)) for count in (3, 3 * size))
        calls = {
            "all_reduce": lambda: dist.all_reduce(one, async_op=True),
            "reduce": lambda: dist.reduce(one, 0, async_op=True),
            "reduce_scatter": lambda: dist.reduce_scatter(one, [one] * size, async_op=True),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(one, all_parts, async_op=True),
        }
        for call, function in calls.items():
            with pytest.raises(Exception) as caught:  # at the call, not by wait()
                function()
            errors.append((call, name, str(caught.value)))
        moved = one.clone()
        dist.broadcast(moved, 0)
        assert moved.view(torch.uint8).equal(one.view(torch.uint8)), name
    return errors


def test_types_that_are_not_reduced_are_refused_at_the_call():
    if not NOT_REDUCED:
        pytest.skip(f"torch {torch.__version__} has no such types")
    for errors in harness.pool(2).run(rank_types_that_are_not_reduced):
        for call, name, error in errors:
            assert f"switchml {call}: Invalid scalar type {name}; allowed: float32," in error
