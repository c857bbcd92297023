"""all_reduce, reduce and reduce_scatter against Gloo and against an oracle: all on 3 ranks, some of it on 2 and 4."""

import contextlib
import itertools
import os

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
    rounded_sum,
    sum_through_integers,
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


# ---- widths of blocks, towards a switch that adds integers ----


def wide_values(dtype, rank, count):
    """Blocks of 64 elements with spans and scales of their own: also zeros everywhere, on one rank, here and there, and
    subnormals."""
    of_all = torch.Generator().manual_seed(count)
    blocks, lowest = count // 64 + 1, -20 if dtype == torch.float16 else -140
    span = torch.tensor([1, 9, 14, 26, 40, 60, 100])[torch.randint(0, 7, (blocks,), generator=of_all)]
    scale = torch.randint(lowest, 10, (blocks,), generator=of_all)
    zeros = torch.randint(-2, 12, (blocks,), generator=of_all)  # -2: on all ranks
    own = torch.Generator().manual_seed(1000 * count + rank)
    depth = (torch.rand(blocks, 64, generator=own, dtype=torch.float64) * span[:, None]).round()
    drawn = torch.randn(blocks, 64, generator=own, dtype=torch.float64) * torch.exp2(scale[:, None] - depth)
    drawn *= torch.rand(blocks, 64, generator=own) > 0.3
    drawn[(zeros == -2) | (zeros == rank)] = 0
    return drawn.reshape(-1)[:count].to(dtype)


def with_specials(tensors):
    for rank, tensor in enumerate(tensors):
        tensor[rank :: 97 + rank] = float("inf") if rank % 2 else float("-inf")
        tensor[40 + rank :: 501] = float("nan")
    return tensors


def check_no_term_vanished(actual, inputs, significant_bits):
    """Of those in blocks of up to 45 bits' span. With 24 bits a sum is the exact one, rounded."""
    terms = torch.stack([x.double().abs() for x in inputs])
    block = 64 if inputs[0].element_size() == 2 else 256
    padded = torch.nn.functional.pad(terms, (0, -terms.shape[1] % block)).reshape(len(inputs), -1, block)
    lowest = padded.where(padded > 0, torch.full_like(padded, float("inf"))).amin((0, 2))
    span = padded.amax((0, 2)) / lowest
    is_narrow = span.repeat_interleave(block)[: terms.shape[1]]
    alone = ((terms > 0).sum(0) == 1) & (is_narrow < 2.0**45)
    assert bool((actual[alone] != 0).all())
    if significant_bits == 24 and inputs[0].dtype == torch.float32:
        exact = rounded_sum(inputs, 1, torch.float32)
        at = is_narrow < 2.0**30
        check_equal(actual[at], exact[at], "a sum of exact terms")


def rank_widths(significant_bits):
    size, rank = dist.get_world_size(), dist.get_rank()
    digests = []
    for dtype, count in itertools.product(FLOATS, (1, 65, 1021, 30011)):
        inputs = [wide_values(dtype, each, count) for each in range(size)]
        for op, terms in (("SUM", inputs), ("AVG", inputs), ("SUM", with_specials([x.clone() for x in inputs]))):
            wanted = sum_through_integers(terms, size if op == "AVG" else 1, significant_bits)
            mine = terms[rank].clone()
            dist.all_reduce(mine, operation(op))
            check_equal(mine.nan_to_num(3.0), wanted.nan_to_num(3.0), f"{op} of {count} {dtype}")
            assert torch.equal(mine.isnan(), wanted.isnan())
            if op == "SUM" and terms is inputs:
                check_no_term_vanished(mine, inputs, significant_bits)
            digests.append(digest(mine.nan_to_num(3.0)))
            part = count // size  # It begins inside a block.
            whole = [x[: part * size] for x in terms]
            mine = torch.full((part,), 7.0, dtype=dtype)
            if part > 0:
                dist.reduce_scatter(mine, list(whole[rank].clone().chunk(size)), operation(op))
                wanted = sum_through_integers(whole, size if op == "AVG" else 1, significant_bits)
                wanted = wanted[rank * part : (rank + 1) * part]
                check_equal(mine.nan_to_num(3.0), wanted.nan_to_num(3.0), f"a part of a {op} of {count} {dtype}")
    return digests


@pytest.mark.parametrize("size", (2, 3), ids="{}ranks".format)
def test_sums_through_an_integer_switch_have_the_bits_that_blocks_need(size):
    if harness.BACKEND != "switchml" or os.environ["SWITCHML_TRANSPORT"] != "udp":
        pytest.skip("integers go through a switch; run with --transport=udp")
    for bits in (None, 0, 8, 24):
        named = {"SWITCHML_SIGNIFICANT_BITS": "auto" if bits is None else str(bits)}
        with contextlib.closing(
            harness.Pool(size, {"SWITCHML_PRECISION": "integer", **named}, with_gloo=False)
        ) as pool:
            results = pool.run(rank_widths, bits)
        assert all(digests == results[0] for digests in results), "ranks differ in the bits of the result"


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
