"""Inputs whose sum over all ranks is known beforehand and exact in float32, whatever the order of additions.

Element i of rank r is an integer below 2^16 in magnitude, from a table of a prime number of entries: a result whose chunks
are in the wrong place, or missing a rank, or counting one twice, cannot equal the expectation.
"""
import torch

PERIOD = 65521
LIMIT = 1 << 16


def table(rank):
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(-LIMIT + 1, LIMIT, (PERIOD,), generator=generator).float()


def fill(tensor, values):
    """Repeats the table over the whole tensor."""
    whole = tensor.numel() // PERIOD
    tensor[: whole * PERIOD].view(whole, PERIOD).copy_(values)
    tensor[whole * PERIOD :].copy_(values[: tensor.numel() - whole * PERIOD])


def first_difference(tensor, values):
    """Index of the first element that is not bit for bit what `values` repeated gives, or None."""
    for begin in range(0, tensor.numel(), PERIOD):
        part = tensor[begin : begin + PERIOD]
        differs = part != values[: part.numel()]
        if differs.any():
            return begin + int(differs.nonzero()[0])
    return None
