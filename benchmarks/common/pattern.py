"""Inputs whose sum over all ranks is known beforehand and exact in their type, whatever the order of additions.

Element i of rank r is an integer below 2^16 in magnitude, or below what the type allows, from a table of a prime number
of entries: a result whose chunks are in the wrong place, or missing a rank, or counting one twice, cannot equal the
expectation.
"""

import torch

PERIOD = 65521
LIMIT = 1 << 16
BLOCK = 256  # elements


def limit(kind, ranks):
    """Sums of integers below it, of so many ranks, are exact in this type."""
    return min(LIMIT, int(2 / torch.finfo(kind).eps) // ranks)


def table(rank, below=LIMIT, kind=torch.float32):
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(-below + 1, below, (PERIOD,), generator=generator).to(kind)


def mine_and_sum(rank, ranks, kind):
    """What this rank's tensor repeats, and what the result does."""
    tables = [table(each, limit(kind, ranks), kind) for each in range(ranks)]
    return tables[rank], torch.stack(tables).double().sum(dim=0).to(kind)


def fill(tensor, values):
    """Repeats the table over the whole tensor."""
    whole = tensor.numel() // PERIOD
    tensor[: whole * PERIOD].view(whole, PERIOD).copy_(values)
    tensor[whole * PERIOD :].copy_(values[: tensor.numel() - whole * PERIOD])


def blocks(tensor):
    """The tensor's whole blocks, a row each."""
    return tensor[: tensor.numel() // BLOCK * BLOCK].view(-1, BLOCK)


def zero_blocks(tensor, rank, part):
    """Which of its blocks rank `rank` has nothing in: this part of them, at random places."""
    generator = torch.Generator().manual_seed(2000 + rank)
    return torch.rand(tensor.numel() // BLOCK, generator=generator) < part


def sparse_sum(like, ranks, part):
    """The result where each rank has nothing in its zero blocks."""
    total, one = torch.zeros_like(like, dtype=torch.float64), torch.empty_like(like)
    for rank in range(ranks):
        fill(one, table(rank, limit(like.dtype, ranks), like.dtype))
        blocks(one)[zero_blocks(one, rank, part)] = 0
        total += one
    return total.to(like.dtype)


def first_difference(tensor, values):
    """Index of the first element that is not bit for bit what `values` repeated gives, or None."""
    for begin in range(0, tensor.numel(), max(1, values.numel())):
        part = tensor[begin : begin + values.numel()]
        differs = part != values[: part.numel()]
        if differs.any():
            return begin + int(differs.nonzero()[0])
    return None
