"""What collectives must give, computed from all ranks' inputs in one process.

Inputs are a function of (seed, rank), so that each rank can compute every other's. Floating sums are the exact ones,
rounded once (`rounded_sum`); where integers are added they are held to what block floating point promises
(`sum_tolerance`).
"""

import hashlib
import math
import os
import sys
from fractions import Fraction

import torch
import torch.distributed as dist

BLOCK = 256  # elements that share an exponent, of float32, or that are left out together where all are 0
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
OPERATIONS = ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
PREMUL_FACTOR = 0.5


def operation(name):
    if name == "PREMUL_SUM":
        return dist._make_nccl_premul_sum(PREMUL_FACTOR)
    return getattr(dist.ReduceOp, name)


def values(shape, dtype, rank, seed=0, small=False):
    """Reproducible: integers over the whole range of the type, floats over twenty binades. small: fit for products."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if small:
        return torch.randint(1, 4, shape, generator=generator).to(dtype)
    if dtype in INTEGERS:
        info = torch.iinfo(dtype)
        drawn = torch.randint(
            max(info.min, -(2**62)), min(info.max, 2**62), shape, generator=generator, dtype=torch.int64
        )
        return drawn.to(dtype)
    magnitude = torch.randint(-10, 8, shape, generator=generator).double().exp2()
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * magnitude).to(dtype)


def reduce_exactly(inputs, name):
    """The result of an operation over a list of tensors; floats in fp64, integers modulo their width."""
    dtype = inputs[0].dtype
    wide = torch.stack([x.double() if dtype.is_floating_point else x.to(torch.int64) for x in inputs])
    if name == "SUM":
        total = wide.sum(0)
    elif name == "AVG":
        total = wide.sum(0) / len(inputs)
    elif name == "PREMUL_SUM":
        total = wide.sum(0) * PREMUL_FACTOR
    elif name == "PRODUCT":
        total = wide.prod(0)
    elif name in ("MIN", "MAX"):
        total = wide.amin(0) if name == "MIN" else wide.amax(0)
    else:
        bitwise = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[name]
        total = wide[0]
        for other in wide[1:]:
            total = bitwise(total, other)
    return total if dtype.is_floating_point else total.to(dtype)


def sums_exactly():
    """Whether the default group adds floats exactly: in memory, and through a switch that keeps contributions as they
    are."""
    if dist.get_backend() != "switchml":
        return False
    session = sys.modules["switchml"].stats()["session"]
    rounds_once = not session["transport"].startswith("shm+") or os.environ.get("SWITCHML_PRECISION") == "exact"
    return session["precision"] == "exact" and rounds_once


def two_sum(a, b):
    """The rounded sum and its error, exactly (Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def exact_sum(inputs):
    """The exact sum of finite float64 tensors, as two of them that do not overlap."""
    total, errors, lost = torch.zeros_like(inputs[0]), torch.zeros_like(inputs[0]), torch.zeros_like(inputs[0]).bool()
    for term in inputs:
        total, error = two_sum(total, term)
        errors, error = two_sum(errors, error)
        lost |= error != 0
    high, low = two_sum(total, errors)
    for at in lost.nonzero().reshape(-1).tolist():  # three float64 and more would be needed
        number = sum((Fraction(term[at].item()) for term in inputs), Fraction(0))
        high[at] = float(number)
        low[at] = float(number - Fraction(float(number)))
    return high, low


def rounded_sum(inputs, divisor, dtype):
    """The exact sum of finite values of up to 24 bits, divided, and rounded to the nearest of the type, once."""
    assert torch.finfo(dtype).bits <= 32
    flat = [x.detach().reshape(-1).double() for x in inputs]
    high, low = exact_sum(flat)
    # 40 bits of the quotient, and in the last one, which is far behind the type's, whether it is more or less than they
    # say.
    quotient = ((high / divisor).view(torch.int64) & ~0x1FFF).view(torch.float64)
    rest = (high - quotient * divisor) + low
    away = torch.nextafter(quotient, rest.sign() * math.inf)
    quotient = torch.where(rest == 0, quotient, away)
    precision, info = -int(math.log2(torch.finfo(dtype).eps)) + 1, torch.finfo(dtype)
    unit = torch.exp2((torch.frexp(quotient).exponent - precision).double()).clamp(min=smallest_subnormal(dtype))
    rounded = torch.round(quotient / unit) * unit  # to the even one of two
    rounded = torch.where(rounded.abs() > info.max, rounded.sign() * math.inf, rounded)
    return rounded.to(dtype).reshape(inputs[0].shape)


def magnitude_bits(workers, width, dtype):
    """Bits of magnitude of one worker's integer of this width: b of docs/protocol.md, WORD-12."""
    word, spare = min(width, 32), (workers - 1).bit_length()
    bits = min(word - 2, (2 ** (word - 1) // workers).bit_length() - 1)
    if bits < 1 - math.log2(torch.finfo(dtype).eps) and workers << bits == 2 ** (word - 1):
        bits -= 1
    return bits + (width - 32 - spare if width > 32 else 0)


def units(inputs, most=BLOCK, significant_bits=None):
    """Of what each element of an integer switch's sum of flat tensors is a multiple, in float64: that of the least
    width of its block of which half a unit is less than 2^-significant_bits of every term, of as many bits as the
    type has. A block has at most `most` elements."""
    dtype, count = inputs[0].dtype, inputs[0].numel()
    is_short = torch.finfo(dtype).bits == 16
    block = min(64 if is_short else BLOCK, most)
    terms = torch.stack([torch.nn.functional.pad(x.double().abs(), (0, -count % block)) for x in inputs])
    terms = terms.where(terms.isfinite(), torch.zeros_like(terms)).reshape(len(inputs), -1, block)
    least = terms.where(terms > 0, torch.full_like(terms, math.inf)).amin((0, 2))
    least = least.where(least > 2.0**-126, torch.full_like(least, 2.0**-149))
    exponent = torch.frexp(terms.amax((0, 2))).exponent.double().clamp(min=-125.0)
    kept = min(significant_bits or 0, 1 - round(math.log2(torch.finfo(dtype).eps)))
    unit = None
    for width in (64, 48, 32, 16)[: 4 if is_short or significant_bits is not None else 3]:
        of_width = torch.exp2(exponent - magnitude_bits(len(inputs), width, dtype))
        is_enough = of_width / 2 * 2**kept < least
        unit = of_width if unit is None else torch.where(is_enough, of_width, unit)
    return unit.repeat_interleave(block)[:count]


def sum_through_integers(inputs, divisor=1, significant_bits=None):
    """The bits of an integer switch's sum of flat tensors: WORD-9 and WORD-10 of docs/protocol.md."""
    terms = torch.stack([x.double() for x in inputs])
    nothing, unit = torch.zeros_like(terms), units(inputs, significant_bits=significant_bits)
    total = torch.round(terms.where(terms.isfinite(), nothing) / unit).to(torch.int64).sum(0)
    result = (total.float().double() * unit).float() / divisor
    special = nothing.where(terms.isfinite(), terms).sum(0)
    return torch.where(special == 0, result, special.float()).to(inputs[0].dtype)


def sum_tolerance(inputs, result, significant_bits=None):
    """Largest error of an fp32, fp16 or bf16 sum, element by element: n/2 units of its block, and the rounding of the
    result to its type (twice half a unit: to fp32 first, where the type is narrower)."""
    info = torch.finfo(inputs[0].dtype)
    rounding = result.double().abs() * info.eps + smallest_subnormal(inputs[0].dtype)
    unit = units([x.detach().reshape(-1) for x in inputs], significant_bits=significant_bits)
    return len(inputs) / 2 * unit.reshape(result.shape) + rounding


def smallest_subnormal(dtype):
    info = torch.finfo(dtype)
    return info.tiny * info.eps


def check_sum(actual, inputs, name, part=...):
    """Raises unless a SUM, AVG or PREMUL_SUM of finite floats is the exact one, rounded once, or where integers are
    added as close to it as promised. part: the slice of the first dimension that `actual` is; blocks are those of the
    whole."""
    if sums_exactly():
        terms = [x[part] * PREMUL_FACTOR if name == "PREMUL_SUM" else x[part] for x in inputs]
        check_equal(
            actual, rounded_sum(terms, len(terms) if name == "AVG" else 1, actual.dtype), f"{name} {actual.dtype}"
        )
        return
    wanted = reduce_exactly(inputs, name)[part]
    error = (actual.double() - wanted).abs()
    allowed = sum_tolerance(inputs, reduce_exactly(inputs, "SUM"))[part] * {"AVG": 1 / len(inputs)}.get(name, 1.0)
    allowed = allowed + wanted.abs() * torch.finfo(actual.dtype).eps + smallest_subnormal(actual.dtype)
    wrong = (error > allowed).reshape(-1).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise AssertionError(
            f"{name} {actual.dtype}: {len(wrong)} of {actual.numel()} elements too far off, the first at {at}: "
            f"{actual.reshape(-1)[at].item()!r} for {wanted.reshape(-1)[at].item()!r}, "
            f"allowed error {allowed.reshape(-1)[at]:.3g}"
        )


def check_reduction(actual, inputs, name, part=...):
    dtype = inputs[0].dtype
    assert actual.dtype == dtype and actual.shape == inputs[0][part].shape, (actual.dtype, actual.shape)
    if dtype in FLOATS and name in ("SUM", "AVG", "PREMUL_SUM"):
        check_sum(actual, inputs, name, part)
        return
    inputs = [x[part] for x in inputs]
    wanted = reduce_exactly(inputs, name)
    if dtype == torch.float64 and name == "SUM" and sums_exactly():
        columns = zip(*(x.reshape(-1).tolist() for x in inputs))
        check_equal(
            actual,
            torch.tensor([math.fsum(column) for column in columns], dtype=dtype).reshape(actual.shape),
            "SUM float64",
        )
        return
    if dtype.is_floating_point and name not in ("MIN", "MAX"):
        relative = len(inputs) * torch.finfo(dtype).eps
        scale = torch.stack([x.double().abs() for x in inputs]).sum(0) if name != "PRODUCT" else wanted.abs()
        assert bool(((actual.double() - wanted).abs() <= relative * scale).all()), (
            f"{name} {dtype}: {actual} for {wanted}"
        )
        return
    check_equal(actual, wanted.to(dtype), f"{name} {dtype}")


def check_equal(actual, wanted, what):
    """Bit for bit, but -0 equals 0."""
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        raise AssertionError(f"{what}: {actual.dtype}{list(actual.shape)} for {wanted.dtype}{list(wanted.shape)}")
    wrong = (actual != wanted).reshape(-1).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise AssertionError(
            f"{what}: {len(wrong)} of {actual.numel()} elements differ, the first at {at}: "
            f"{actual.reshape(-1)[at].item()!r} for {wanted.reshape(-1)[at].item()!r}"
        )


def digest(*tensors):
    """A hash of the bits, to compare ranks and runs with."""
    state = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().contiguous().reshape(-1)
        state.update(bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b"")
    return state.hexdigest()
