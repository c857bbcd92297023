"""Narrow terms, and what they stand for: for tests of sums whose result is float32."""

import torch

from oracle import rounded_sum

FLOAT8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
DTYPES = [torch.float16, torch.bfloat16, *FLOAT8]
#: Of numbers in blocks under scales.
FORMATS = ["int8", "float8_e4m3fn"] if FLOAT8 else ["int8"]
#: Around a block, a chunk, and several windows of slots.
LENGTHS = (1, 63, 64, 65, 200, 1031, 70000)


def cases():
    """(dtype or format, length)"""
    return [(kind, length) for kind in (*DTYPES, *FORMATS) for length in LENGTHS]


def format_of(kind):
    """The argument of switchml's functions."""
    return kind if isinstance(kind, str) and kind in FORMATS else None


def given(kind, rank, length, seed):
    """A rank's input, and its values as float64. `kind`: a dtype, its name where that is no format, or a format."""
    if format_of(kind):
        return blocks(kind, rank, length, seed)
    dtype = getattr(torch, kind) if isinstance(kind, str) else kind
    terms = numbers(rank, length, seed, 4 if dtype in FLOAT8 else 9).to(dtype)
    return terms, terms.double()


def numbers(rank, length, seed, spread):
    """Their magnitudes lie `spread` binary orders to both sides of 1. Some cancel between ranks, and some are 0."""
    generator = torch.Generator().manual_seed(1000 * rank + seed)
    number = torch.randn(length, generator=generator, dtype=torch.float64)
    number *= 2.0 ** torch.randint(-spread, spread + 1, (length,), generator=generator)
    shared = torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    number = torch.where(shared > 1, shared * (-1.0) ** rank, number)
    return torch.where(torch.rand(length, generator=generator) < 0.05, 0.0, number)


def blocks(format, rank, length, seed):
    """Of as many numbers, as bytes, and what the numbers stand for."""
    generator = torch.Generator().manual_seed(77 * rank + seed)
    count = (length + 63) // 64
    scales = torch.randint(100, 140, (count, 1), generator=generator)
    if format == "int8":
        mantissas = torch.randint(-128, 128, (count, 64), generator=generator).to(torch.int8)
    else:
        mantissas = (torch.randn(count, 64, generator=generator) * 50).to(torch.float8_e4m3fn)
    mantissas.view(torch.uint8).view(-1)[length:] = 0
    packed = torch.cat([scales.to(torch.uint8), mantissas.view(torch.uint8)], 1).flatten()
    factors = torch.tensor([[2.0 ** (scale - 127)] for scale in scales.flatten().tolist()], dtype=torch.float64)
    return packed, (mantissas.double() * factors).flatten()[:length]


def sum_by_hosts(values, of_a_host, divisor=1):
    """The exact sum, rounded to float32 once; of hosts of several ranks each host's is rounded before. That of -0 alone
    is -0."""
    hosts = [values[first : first + of_a_host] for first in range(0, len(values), of_a_host)]
    rounded = values if of_a_host == 1 else [rounded_sum(host, 1, torch.float32) for host in hosts]
    otherwise = torch.stack([(each != 0) | ~each.signbit() for each in values]).any(0)
    return torch.where(otherwise, rounded_sum(rounded, divisor, torch.float32), torch.tensor(-0.0))
