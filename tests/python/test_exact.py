"""Sums of floats, in memory and through a switch in software, are the exact sums, rounded once: bit for bit those of
rational arithmetic."""

import contextlib
import functools
from fractions import Fraction

import pytest
import torch
import torch.distributed as dist

import harness
from failing import standalone_switch, with_switch
from oracle import digest

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo rounds after each addition")

#: Who adds, and how the ranks reach it.
PLACES = {"memory": "shm", "embedded switch": "udp", "embedded switch over TCP": "tcp", "switchml-switchd": "udp"}
#: Of each type: bits of the significand, exponent of the smallest subnormal, the integers of its width.
FORMATS = {
    torch.float32: (24, -149, torch.int32),
    torch.float16: (11, -24, torch.int16),
    torch.bfloat16: (8, -133, torch.int16),
    torch.float64: (53, -1074, torch.int64),
}
#: Around the vectors of the kernels, the blocks that they look at together, and a chunk of the short board.
LENGTHS = (1, 7, 8, 15, 16, 17, 63, 64, 65, 200, 1031)


def size_of(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def bits_of(tensor):
    width = FORMATS[tensor.dtype][2]
    return [pattern % 2 ** (8 * tensor.element_size()) for pattern in tensor.view(width).tolist()]


def value_of(bits, dtype):
    """The number that finite bits stand for."""
    precision, least, _ = FORMATS[dtype]
    sign, field, fraction = split(bits, dtype)
    significand = fraction + (2 ** (precision - 1) if field else 0)
    return (-1) ** sign * significand * Fraction(2) ** (least + max(field, 1) - 1)


def split(bits, dtype):
    precision, width = FORMATS[dtype][0], 8 * size_of(dtype)
    return bits >> (width - 1), (bits >> (precision - 1)) % 2 ** (width - precision), bits % 2 ** (precision - 1)


def nearest(number, dtype):
    """Bits of the nearest number of a type, the even one of two; 0 is +0."""
    precision, least, _ = FORMATS[dtype]
    width = 8 * size_of(dtype)
    magnitude = abs(number)
    if magnitude == 0:
        return 0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    last = max(exponent - precision + 1, least)
    significand = round(magnitude / Fraction(2) ** last)  # Python rounds to even
    infinity = 2 ** (width - 1) - 2 ** (precision - 1)
    return (2 ** (width - 1) if number < 0 else 0) + min(((last - least) << (precision - 1)) + significand, infinity)


def expected(columns, divisor, dtype):
    """Bits of the sum of a column of finite bits."""
    results = []
    for column in columns:
        total = sum((value_of(bits, dtype) for bits in column), Fraction(0)) / divisor
        negative_zero = 2 ** (8 * size_of(dtype) - 1)
        results.append(negative_zero if all(bits == negative_zero for bits in column) else nearest(total, dtype))
    return results


def terms(dtype, rank, length, seed):
    """Finite patterns: exponents near each other or anywhere, few bits or all, some that cancel between two ranks,
    zeros."""
    precision, _, width = FORMATS[dtype]
    fields = 2 ** (8 * size_of(dtype) - precision) - 1
    shared = torch.Generator().manual_seed(seed)
    span = torch.where(torch.rand(length, generator=shared) < 0.5, fields, 2 + fields // 20)
    lowest = (torch.rand(length, generator=shared) * (fields - span + 1)).long()
    cancels = torch.rand(length, generator=shared) < 0.2
    own = torch.Generator().manual_seed(1000 * (rank // 2) + seed)  # what a pair of ranks shares
    alone = torch.Generator().manual_seed(1000 * rank + 7 * seed + 1)

    def draw(generator):
        field = lowest + (torch.rand(length, generator=generator) * span).long()
        fraction = torch.randint(0, 2 ** (precision - 1), (length,), generator=generator)
        short = torch.rand(length, generator=generator) < 0.3
        fraction = torch.where(short, fraction >> (precision // 2) << (precision // 2), fraction)
        pattern = (field << (precision - 1)) + fraction
        return torch.where(torch.rand(length, generator=generator) < 0.06, 0, pattern)

    paired, single = draw(own), draw(alone)
    signs = torch.where(cancels, rank % 2, torch.randint(0, 2, (length,), generator=alone))
    pattern = torch.where(cancels, paired, single) + (signs << (8 * size_of(dtype) - 1))
    return pattern.to(width).view(dtype)


@contextlib.contextmanager
def ranks_at(place, size):
    with contextlib.ExitStack() as stack:
        environment = {"SWITCHML_TRANSPORT": PLACES[place]}
        if place == "switchml-switchd":
            port = harness.free_port()
            stack.enter_context(standalone_switch(port))
            environment.update(with_switch(f"127.0.0.1:{port}"))
        yield stack.enter_context(harness.fresh_pool(size, environment=environment, with_gloo=False))


def rank_sums(seed):
    """Its results, as bits, by type, operation and length; and a digest of them."""
    results = {}
    for dtype in FORMATS:
        for name in ("SUM", "AVG"):
            for length in LENGTHS:
                mine = terms(dtype, dist.get_rank(), length, seed + length)
                dist.all_reduce(mine, op=getattr(dist.ReduceOp, name))
                results[dtype, name, length] = mine
    return {key: bits_of(tensor) for key, tensor in results.items()}, digest(*results.values())


@functools.cache
def wanted_sums(size, seed):
    """What all ranks must get, by type, operation and length."""
    results = {}
    for dtype in FORMATS:
        for length in LENGTHS:
            columns = list(zip(*(bits_of(terms(dtype, rank, length, seed + length)) for rank in range(size))))
            for name in ("SUM", "AVG"):
                results[dtype, name, length] = expected(columns, size if name == "AVG" else 1, dtype)
    return results


def rank_means():
    """Elements of the mean of identical replicas that are not what they were."""
    changed = []
    for dtype in FORMATS:
        replica = torch.randn(20000, generator=torch.Generator().manual_seed(5)).to(dtype)
        mean = replica.clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        changed.append(int((mean != replica).sum()))
    return changed


#: What carries the words to a switch in software does not depend on how many ranks there are.
EVERY_SIZE = [(place, size) for place in ("memory", "embedded switch") for size in range(1, 10)]
SOME_SIZES = [(place, size) for place in ("embedded switch over TCP", "switchml-switchd") for size in (2, 5, 9)]


@pytest.mark.parametrize("place, size", EVERY_SIZE + SOME_SIZES)
def test_every_type_and_length(place, size):
    seed = 31 * size
    with ranks_at(place, size) as own:
        outcomes = own.run(rank_sums, seed)
        assert own.run(rank_means) == [[0] * len(FORMATS)] * size
    assert len({found for _, found in outcomes}) == 1, "ranks ended with different bits"
    for (dtype, name, length), wanted in wanted_sums(size, seed).items():
        bits = outcomes[0][0][dtype, name, length]
        wrong = [i for i in range(length) if bits[i] != wanted[i]]
        assert not wrong, (
            f"{name} of {length} {dtype}, element {wrong[0]}: {bits[wrong[0]]:#x} for {wanted[wrong[0]]:#x}"
        )


def rank_metrics():
    metrics = torch.tensor([0.693, 3.2e9])
    dist.all_reduce(metrics)
    bucket = torch.full((5000,), 0.1)
    bucket[123] = 1e30 if dist.get_rank() == 0 else -1e30
    bucket[4321] = 1e30 if dist.get_rank() == 0 else 0.1
    dist.all_reduce(bucket)
    return metrics.tolist(), bucket


@pytest.mark.parametrize("place", PLACES)
def test_a_large_number_costs_its_neighbours_nothing(place):
    with ranks_at(place, 2) as own:
        metrics, bucket = own.run(rank_metrics)[0]
    assert metrics == [2 * torch.tensor(0.693).item(), 6.4e9]
    assert bucket[123] == 0 and bucket[4321] == torch.tensor(1e30)
    bucket[[123, 4321]] = 0.2
    assert torch.equal(bucket, torch.full((5000,), 0.2))
