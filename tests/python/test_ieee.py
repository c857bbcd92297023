"""What a user sees is IEEE: non-finite values, subnormals and the ends of the range come out as a floating sum has
them."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import harness
from harness import TORCH
from oracle import check_sum, digest, operation, values

NAN, INF = float("nan"), float("inf")
COUNT = 1000  # four blocks


def ordinary(rank, dtype):
    return values((COUNT,), dtype, rank, 21)


def specials(*planted):
    """A builder of inputs: ordinary values, and (rank, index, value) planted; rank None: on every rank."""

    def build(rank, dtype):
        tensor = ordinary(rank, dtype)
        for where, index, value in planted:
            if where is None or where == rank:
                tensor[index] = value
        return tensor

    return build


def everywhere(value_of):
    """A builder: value_of(rank, index tensor) -> values."""
    return lambda rank, dtype: value_of(rank, torch.arange(COUNT, dtype=torch.float64)).to(dtype)


def signs(rank, index):
    return (-1.0) ** (index + rank)


CASES = {
    "one NaN": specials((1, 300, NAN)),
    "one Inf": specials((0, 5, INF)),
    "one -Inf": specials((1, 999, -INF)),
    "Inf and -Inf meet": specials((0, 256, INF), (1, 256, -INF)),
    "Inf on every rank": specials((None, 511, INF)),
    "NaN on every rank": specials((None, 0, NAN)),
    "all three, side by side": specials(
        (0, 10, NAN), (1, 11, INF), (0, 12, -INF), (1, 13, NAN), (1, 14, INF), (0, 14, INF)
    ),
    "first and last element": specials((0, 0, INF), (1, COUNT - 1, NAN)),
    "Inf on one rank, NaN on the other": specials((0, 77, INF), (1, 77, NAN)),
    "nothing but NaN": everywhere(lambda rank, index: torch.full_like(index, NAN)),
    "every fifth element Inf": everywhere(lambda rank, index: torch.where(index % 5 == rank, INF, index)),
    "nothing but zeros": everywhere(lambda rank, index: index * 0),
    "one block of zeros": everywhere(lambda rank, index: torch.where(index < 256, 0.0, index - 512)),
}


def rank_case(name, dtype, op):
    inputs = [CASES[name](rank, dtype) for rank in range(dist.get_world_size())]
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine, operation(op))
    check_ieee(mine, inputs, op)
    return digest(torch.nan_to_num(mine, nan=12345.0))


def check_ieee(actual, inputs, op):
    """Non-finite elements exactly where the sum has them, the rest as precise as without them."""
    wide = torch.stack([x.double() for x in inputs]).sum(0) / (len(inputs) if op == "AVG" else 1)
    special = ~torch.isfinite(wide)
    wanted = wide[special].to(actual.dtype)
    found = actual[special]
    assert torch.equal(torch.isnan(found), torch.isnan(wanted)), (found, wanted)
    assert torch.equal(torch.nan_to_num(found), torch.nan_to_num(wanted)), (found, wanted)
    assert bool(torch.isfinite(actual[~special]).all()), "a non-finite element spread to its neighbours"
    finite = [torch.where(special, torch.zeros_like(x), torch.nan_to_num(x, 0.0, 0.0, 0.0)) for x in inputs]
    check_sum(torch.where(special, torch.zeros_like(actual), actual), finite, op)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_sum(ranks, name, dtype):
    results = ranks.run(rank_case, name, dtype, "SUM")
    assert len(set(results)) == 1


@pytest.mark.parametrize("name", ("one Inf", "Inf and -Inf meet", "one NaN"))
def test_average(precision, name):
    harness.pool(3, precision).run(rank_case, name, torch.float32, "AVG")


# ---- the ends of the range ----


def rank_subnormals(dtype):
    """Multiples of the smallest subnormal add exactly."""
    info = torch.finfo(dtype)
    step = info.tiny * info.eps
    inputs = [(torch.arange(COUNT, dtype=torch.float64) % 50 + rank) * step for rank in range(dist.get_world_size())]
    mine = inputs[dist.get_rank()].to(dtype)
    dist.all_reduce(mine)
    assert torch.equal(mine.double(), sum(inputs)), (mine.double() / step, sum(inputs) / step)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16), ids=str)
def test_subnormals_add_exactly(ranks, dtype):
    ranks.run(rank_subnormals, dtype)


def rank_range(dtype, scale):
    index = torch.arange(COUNT)
    inputs = [
        (signs(rank, index) * values((COUNT,), torch.float64, rank, 30).clamp(-1, 1) * scale).to(dtype)
        for rank in range(dist.get_world_size())
    ]
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    check_sum(mine, inputs, "SUM")


@pytest.mark.parametrize("scale", (1e38, 1e30, 1e-30, 1e-37, 1e-42))
def test_precision_at_the_ends_of_the_range(precision, scale):
    harness.pool(3, precision).run(rank_range, torch.float32, scale)


def rank_overflow(dtype, value):
    size = dist.get_world_size()
    mine = torch.full((COUNT,), 1.0, dtype=dtype)
    mine[3], mine[700] = value, -value
    mine[5] = value if dist.get_rank() == 0 else -value / (size - 1)
    dist.all_reduce(mine)
    assert mine[3] == INF and mine[700] == -INF, (mine[3], mine[700])
    assert torch.isfinite(mine[5]), mine[5]
    assert mine[300].item() == size, "the block beside"


@pytest.mark.parametrize(
    "dtype, value",
    ((torch.float32, 3e38), (torch.float16, 60000.0), (torch.bfloat16, 3e38)),
    ids=("fp32", "fp16", "bf16"),
)
def test_overflow_gives_infinity(ranks, dtype, value):
    ranks.run(rank_overflow, dtype, value)


def rank_half_has_the_range_of_fp32():
    """40000 + 40000 - 40000 passes 65504 on the way and comes back."""
    mine = torch.full((300,), 40000.0 if dist.get_rank() < 2 else -40000.0, dtype=torch.float16)
    dist.all_reduce(mine)
    assert mine.eq(40000.0).all(), mine


def test_half_is_summed_with_the_range_of_fp32(precision):
    harness.pool(3, precision).run(rank_half_has_the_range_of_fp32)


def rank_mixed_magnitudes():
    """A huge value costs its own block precision and no other."""
    inputs = [values((COUNT,), torch.float32, rank, 40) for rank in range(dist.get_world_size())]
    for tensor in inputs:
        tensor[600] = 1e37
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    check_sum(mine, inputs, "SUM")


def test_mixed_magnitudes(ranks):
    ranks.run(rank_mixed_magnitudes)


# ---- MIN and MAX ----


def rank_extremes(op, dtype):
    inputs = []
    for rank in range(dist.get_world_size()):
        tensor = ordinary(rank, dtype)
        tensor[10] = INF if rank else 1.0
        tensor[11] = -INF if rank else 1.0
        tensor[400] = NAN if rank == 1 else 1.0
        tensor[401] = NAN if rank == 0 else INF
        inputs.append(tensor)
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine, operation(op))
    wide = torch.stack([x.double() for x in inputs])
    wanted = (wide.amax(0) if op == "MAX" else wide.amin(0)).to(dtype)
    torch.testing.assert_close(mine, wanted, rtol=0, atol=0, equal_nan=True)
    return digest(torch.nan_to_num(mine, nan=12345.0))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("op", ("MIN", "MAX"))
def test_extremes_treat_nan_as_torch_does(ranks, op, dtype):
    """float64 goes to Gloo where integers are added, and Gloo itself keeps a NaN of rank 0 alone."""
    assert len(set(ranks.run(rank_extremes, op, dtype))) == 1


# ---- AMP ----


def rank_scaler():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(20, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def step(value):
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        scaler.scale((model(torch.ones(5, 20)) * value).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        return any(not torch.equal(old, new) for old, new in zip(before, model.parameters()))

    assert step(1.0)
    assert not step(3e38 if dist.get_rank() == 1 else 1.0), (
        "the step was taken although one rank's gradients overflowed"
    )
    assert scaler.get_scale() == 2.0
    assert step(1.0)
    return digest(*model.parameters())


@pytest.mark.skipif(TORCH < (2, 3), reason="torch.amp.GradScaler for CPUs exists from torch 2.3 on")
def test_the_gradient_scaler_sees_an_overflow_of_one_rank(ranks):
    assert len(set(ranks.run(rank_scaler))) == 1


def rank_gradients_overflow():
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(20, 3))
    (model(torch.ones(5, 20)) * (3e38 if dist.get_rank() == 1 else 1.0)).sum().backward()
    return all(not torch.isfinite(p.grad).any() for p in model.parameters())


def test_an_overflow_of_one_rank_reaches_every_ranks_gradients(ranks):
    assert all(ranks.run(rank_gradients_overflow))
