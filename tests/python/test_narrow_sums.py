"""Floats of 8 bits, and sums of narrow terms to float32: the exact sums, rounded once."""

import itertools

import pytest
import torch
import torch.distributed as dist

import harness
import narrow
import oracle
from harness import caught

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has no such sums")
switchml = pytest.importorskip("switchml")

WORLDS = (2, 3)
#: What carries the terms: as narrow as they are between ranks that have a host each, or widened (shm).
ENVIRONMENTS = {
    "udp": {"SWITCHML_TRANSPORT": "udp"},
    "udp with losses": {"SWITCHML_TRANSPORT": "udp", "SWITCHML_FAULTS": "seed=4,send_loss=0.03,receive_loss=0.03"},
    "udp of small packets": {"SWITCHML_TRANSPORT": "udp", "SWITCHML_PAYLOAD": "256"},
    "tcp": {"SWITCHML_TRANSPORT": "tcp"},
    "shm": {"SWITCHML_TRANSPORT": "shm"},
    "integer": {"SWITCHML_TRANSPORT": "udp", "SWITCHML_PRECISION": "integer"},
}
SUM, AVG = dist.ReduceOp.SUM, dist.ReduceOp.AVG


def check(found, wanted, what):
    """To the bit, but for NaN."""
    bits = {4: torch.int32, 8: torch.int64}[wanted.element_size()]
    assert found.dtype == wanted.dtype, f"{what}: {found.dtype} for {wanted.dtype}"
    same = (found.contiguous().view(bits) == wanted.contiguous().view(bits)) | (found.isnan() & wanted.isnan())
    assert same.all(), f"{what}: {int((~same).sum())} differ, first {found[~same][0]} for {wanted[~same][0]}"


# ---- to float32 ----


def rank_all_reduces():
    rank, size = dist.get_rank(), dist.get_world_size()
    for (kind, length), op in itertools.product(narrow.cases(), (SUM, AVG)):
        inputs = [narrow.given(kind, r, length, length) for r in range(size)]
        output, asynchronous = torch.full((length,), 7.0), length % 2 == 1
        work = switchml.all_reduce(inputs[rank][0], output, op=op, async_op=asynchronous, format=narrow.format_of(kind))
        assert (work is not None) == asynchronous
        if work is not None:
            work.wait()
        wanted = narrow.sum_by_hosts([values for _, values in inputs], 1, size if op == AVG else 1)
        check(output, wanted, f"{kind} {op} {length}")


def rank_reduce_scatters():
    rank, size = dist.get_rank(), dist.get_world_size()
    for (kind, length), op in itertools.product(narrow.cases(), (SUM, AVG)):
        parts = [[narrow.given(kind, r, length, length + 31 * part) for part in range(size)] for r in range(size)]
        output = torch.full((length,), 7.0)
        mine = torch.cat([terms.view(torch.uint8) for terms, _ in parts[rank]])
        mine = mine if narrow.format_of(kind) else mine.view(kind)
        switchml.reduce_scatter(mine, output, op=op, format=narrow.format_of(kind))
        wanted = narrow.sum_by_hosts([of_rank[rank][1] for of_rank in parts], 1, size if op == AVG else 1)
        check(output, wanted, f"{kind} {op} {length}")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_result_is_the_exact_sum_rounded_once(environment, world):
    with harness.fresh_pool(world, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        own.run(rank_all_reduces)
        own.run(rank_reduce_scatters)


def test_a_group_of_one():
    with harness.fresh_pool(1, with_gloo=False) as own:
        own.run(rank_all_reduces)
        own.run(rank_reduce_scatters)


def rank_layouts():
    """Neither tensor has its elements one after the other; then the output is the input's own memory."""
    rank, size = dist.get_rank(), dist.get_world_size()
    terms = [torch.arange(600.0).reshape(20, 30).bfloat16() + r for r in range(size)]
    output = torch.zeros(30, 20).t()
    switchml.all_reduce(terms[rank].t().contiguous().t(), output)
    check(output, sum(term.float() for term in terms), "transposed")
    memory = torch.zeros(600)
    mine = memory.view(torch.bfloat16)[:600].view(20, 30)
    mine.copy_(terms[rank])
    switchml.all_reduce(mine, memory.view(20, 30))
    check(memory.view(20, 30), sum(term.float() for term in terms), "of one memory")
    switchml.all_reduce(torch.empty(0).bfloat16(), torch.empty(0))


@pytest.mark.parametrize("environment", ("udp", "shm"))
def test_layouts(environment, world):
    with harness.fresh_pool(world, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        own.run(rank_layouts)


def bytes_of(call):
    """What this rank sends meanwhile: the least of a few times, for a rank that waits long asks again by a chunk."""

    def sent():
        before = switchml.stats()["bytes_sent"]
        call()
        return switchml.stats()["bytes_sent"] - before

    return min(sent() for _ in range(5))


def rank_sent_bytes():
    size, elements = dist.get_world_size(), 1 << 19
    part = torch.zeros(elements)
    taken = {"float32": bytes_of(lambda: dist.reduce_scatter_tensor(part, torch.ones(size * elements)))}
    for kind in (*narrow.DTYPES, *narrow.FORMATS):
        terms, _ = narrow.given(kind, 0, size * elements, 3)
        taken[kind] = bytes_of(lambda: switchml.reduce_scatter(terms, part, format=narrow.format_of(kind)))
    return taken


@pytest.mark.through_switch
@pytest.mark.parametrize("transport, payload, excess", (("tcp", "auto", 0.001), ("udp", "1408", 0.015)))
def test_terms_travel_as_narrow_as_they_are(transport, payload, excess):
    """Of a rank without an aggregator, in parts of what a reduce_scatter of float32 takes. Packets of short payloads
    have more of their headers: the results of their terms must fit them too."""
    never = {"SWITCHML_RTO_MIN": "30000", "SWITCHML_RTO_MAX": "60000"}  # Nothing is lost here, and nothing sent again.
    environment = {"SWITCHML_TRANSPORT": transport, "SWITCHML_PAYLOAD": payload, **never}
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        taken = own.run(rank_sent_bytes)[1]
    wide = taken.pop("float32")
    for kind, sent in taken.items():
        wanted = 65 / 256 if narrow.format_of(kind) else torch.empty((), dtype=kind).element_size() / 4
        assert wanted <= sent / wide < wanted + excess, f"{kind}: {sent} bytes, float32 takes {wide}"


# ---- what is refused ----


def rank_refusals():
    size, half, wide, packed = dist.get_world_size(), torch.ones(64).half(), torch.ones(64), torch.ones(65).byte()
    calls = {
        "TypeError: switchml all_reduce: the input's type is float32; allowed: float16, bfloat16": lambda: (
            switchml.all_reduce(wide, wide.clone())
        ),
        "TypeError: switchml all_reduce: the input's type is uint8; allowed": lambda: switchml.all_reduce(packed, wide),
        "TypeError: switchml all_reduce: the output's type is float16; allowed: float32": lambda: switchml.all_reduce(
            half, half
        ),
        "ValueError: switchml all_reduce: the input has 64 elements and the output 60; allowed: an input of 60": lambda: (
            switchml.all_reduce(half, wide[:60])
        ),
        "ValueError: switchml all_reduce: the input has 65 elements and the output 65; allowed: an input of 130 bytes": (
            lambda: switchml.all_reduce(packed, torch.ones(65), format="int8")
        ),
        f"ValueError: switchml reduce_scatter: the input has 64 elements and the output 64; allowed: an input of "
        f"{64 * size} (one part for each rank)": lambda: switchml.reduce_scatter(half, wide),
        "ValueError: switchml all_reduce: the format is int4; allowed: int8, float8_e4m3fn": lambda: (
            switchml.all_reduce(packed, wide, format="int4")
        ),
        "TypeError: switchml all_reduce: the input's type is float16 and the format int8; allowed: uint8": lambda: (
            switchml.all_reduce(half, wide, format="int8")
        ),
        "ValueError: switchml.all_reduce: the operation is ReduceOp.MAX; allowed: ReduceOp.SUM": lambda: (
            switchml.all_reduce(half, wide, op=dist.ReduceOp.MAX)
        ),
        "ValueError: switchml.reduce_scatter: the operation is ReduceOp.MIN; allowed: ReduceOp.SUM": lambda: (
            switchml.reduce_scatter(half, wide, op=dist.ReduceOp(dist.ReduceOp.MIN))
        ),
        "TypeError: switchml.reduce_scatter: the output is a list; allowed: a tensor": lambda: switchml.reduce_scatter(
            half, [wide]
        ),
        "TypeError: switchml.all_reduce: the format is a int; allowed: a str, or None": lambda: switchml.all_reduce(
            half, wide, format=8
        ),
        "ValueError: switchml all_reduce: the output is expanded": lambda: switchml.all_reduce(
            half, torch.ones(1).expand(64)
        ),
    }
    for wanted, call in calls.items():
        found = caught(call)
        assert found is not None and wanted in found, f"{found!r} for {wanted!r}"
    output = torch.zeros(64)
    switchml.all_reduce(half, output)  # Nothing of the group was harmed.
    assert torch.equal(output, torch.full((64,), float(size)))
    switchml.all_reduce(half, output, op=dist.ReduceOp(AVG))  # An object says the same as the constant.
    assert torch.equal(output, torch.ones(64))


def test_what_is_refused_is_named():
    with harness.fresh_pool(2, environment=ENVIRONMENTS["udp"], with_gloo=False) as own:
        own.run(rank_refusals)


def rank_has_another_length():
    """In as many blocks."""
    length = 60 if dist.get_rank() == 0 else 64
    return caught(switchml.all_reduce, torch.full((65,), 127).byte(), torch.zeros(length), format="int8")


@pytest.mark.parametrize("environment", ("udp", "shm"))
def test_ranks_with_outputs_of_other_lengths_find_out(environment):
    with harness.fresh_pool(2, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        for said in own.run(rank_has_another_length):
            assert said and "to 60 elements of float32" in said and "to 64 elements of float32" in said, said


def rank_disagrees():
    terms = torch.ones(64).half() if dist.get_rank() == 0 else torch.ones(64).bfloat16()
    return caught(switchml.all_reduce, terms, torch.zeros(64))


@pytest.mark.parametrize("environment", ("udp", "shm"))
def test_ranks_with_other_types_of_terms_find_out(environment):
    with harness.fresh_pool(2, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        for said in own.run(rank_disagrees):
            assert "of float16 to 64 elements of float32" in said and "of bfloat16 to" in said, said


# ---- floats of 8 bits through torch.distributed ----


def operation(name):
    return oracle.operation(name)


def largest(first, second):
    """Of 0 and -0 it is 0, for which torch.maximum() takes either."""
    both = torch.maximum(first, second)
    return torch.where(both == 0, torch.where(first.signbit() & second.signbit(), -0.0, 0.0).double(), both)


def rank_all_pairs(dtype):
    """Of the first two ranks; others have zeros."""
    every = torch.arange(65536)
    pair = [(every % 256).to(torch.uint8).view(dtype), (every // 256).to(torch.uint8).view(dtype)]
    rank, size = dist.get_rank(), dist.get_world_size()
    first, second = (part.double() for part in pair)
    scaled = [(part.float() * oracle.PREMUL_FACTOR).to(dtype).double() for part in pair]
    wanted = {
        "SUM": first + second,
        "AVG": (first + second) / size,
        "MIN": -largest(-first, -second),
        "MAX": largest(first, second),
        "PRODUCT": first * second,
        "PREMUL_SUM": scaled[0] + scaled[1],
    }
    for name, number in wanted.items():
        mine = pair[rank].clone()
        dist.all_reduce(mine, op=operation(name))
        if dtype == torch.float8_e4m3fn and harness.TORCH < (2, 13):
            number = number.clamp(-448, 448)  # What later conversions do.
        right = number.to(dtype)
        check(mine.double(), right.double(), f"{name} of {dtype}")
    part = torch.zeros(32768, dtype=dtype)
    dist.reduce_scatter_tensor(part, pair[rank])
    dist.all_reduce(mine := pair[rank].clone())
    check(part.double(), mine.double().chunk(2)[rank], "reduce_scatter")


@pytest.mark.parametrize("environment", ("udp", "shm", "integer"))
@pytest.mark.parametrize("dtype", narrow.FLOAT8, ids=str)
def test_all_pairs_of_float8_are_as_pytorch_converts(dtype, environment):
    with harness.fresh_pool(2, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        own.run(rank_all_pairs, dtype)


def rank_sums_of_float8(dtype):
    rank, size = dist.get_rank(), dist.get_world_size()
    for length, name in itertools.product(narrow.LENGTHS, ("SUM", "AVG")):
        inputs = [narrow.given(dtype, r, length, length) for r in range(size)]
        mine = inputs[rank][0].clone()
        dist.all_reduce(mine, op=operation(name))
        wanted = oracle.rounded_sum([values for _, values in inputs], size if name == "AVG" else 1, dtype)
        check(mine.double(), wanted.double(), f"{name} of {length} {dtype}")


@pytest.mark.parametrize("environment", ("udp with losses", "shm"))
@pytest.mark.parametrize("dtype", narrow.FLOAT8, ids=str)
def test_sums_of_float8_are_exact_and_rounded_once(dtype, environment):
    with harness.fresh_pool(5, environment=ENVIRONMENTS[environment], with_gloo=False) as own:
        own.run(rank_sums_of_float8, dtype)
