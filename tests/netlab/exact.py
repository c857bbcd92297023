"""What the switch must give, to the bit, as docs/protocol.md states it, in double precision; shares nothing with what
ships: the exact sums, rounded once, and of a session of integers the sums in block floating point.

A case is used again and again under changes that cost little (`Case.changed`), so that no result is that of the call
before.
"""

import os
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
from oracle import BLOCK, FLOATS, rounded_sum, units, values

# Around a block, a chunk and a group; several windows of slots.
SHAPES = (
    (torch.float32, 1),
    (torch.int64, 777),
    (torch.float32, 257),
    (torch.float16, 3),
    (torch.int32, 64),
    (torch.float32, 600_001),
    (torch.int32, 1),
    (torch.float16, 5000),
    (torch.int64, 60_001),
    (torch.int64, 1),
    (torch.float16, 300_001),
    (torch.int32, 100_003),
    (torch.float32, 40_000),
    (torch.bfloat16, 1000),
)


def sum_of_floats(inputs, block=BLOCK):
    """Integers of their block's width, added: in fp64, which holds the sums of the values here exactly."""
    unit = units(inputs, block)
    return torch.round(torch.stack([x.double() for x in inputs]) / unit).sum(0) * unit


def sum_by_hosts(inputs, of_a_host):
    """Each host rounds the exact sum of its ranks, and the switch that of the hosts. A sum of one is itself: with 1 all
    is rounded once."""
    dtype, hosts = inputs[0].dtype, [inputs[first : first + of_a_host] for first in range(0, len(inputs), of_a_host)]
    return rounded_sum([rounded_sum(host, 1, dtype) for host in hosts], 1, dtype).double()


def added_by(session, of_a_host):
    """How the floats of all ranks are added in such a session (of switchml.stats())."""
    if session["precision"] == "exact":
        rounds = session["transport"].startswith("shm+") and os.environ.get("SWITCHML_PRECISION") != "exact"
        return lambda inputs: sum_by_hosts(inputs, of_a_host if rounds else 1)
    block = min(BLOCK, session["payload_bytes"] // 4)  # a payload of less than a block's words is a block
    return lambda inputs: sum_of_floats(inputs, block)


class Case:
    def __init__(self, dtype, length, rank, size, seed, added):
        self.inputs = inputs = [values((length,), dtype, other, seed) for other in range(size)]
        self.mine, self.size = inputs[rank], size
        self.sum = added(inputs) if dtype in FLOATS else torch.stack(inputs).sum(0, dtype=dtype)

    def changed(self, turn):
        """This rank's input in the turn's version, and the sum: floats times 1, 2 or 4 and either sign, integers plus
        the turn."""
        if self.mine.dtype not in FLOATS:
            return self.mine + turn, self.sum + turn * self.size
        factor = (1.0, -2.0, 4.0, -1.0, 2.0, -4.0)[turn % 6]
        return self.mine * factor, (self.sum * factor).to(self.mine.dtype)


def cases(rank, size, seed, added):
    return [Case(dtype, length, rank, size, seed * 100 + i, added) for i, (dtype, length) in enumerate(SHAPES)]


def difference(got, expected):
    """Where two tensors of a type differ in a bit; empty if nowhere. -0 and 0 are one: integers have no sign of zero to
    carry."""
    wrong = (got != expected).nonzero()
    if not len(wrong):
        return ""
    at = int(wrong[0])
    return f"{len(wrong)} of {len(got)} elements of {got.dtype} differ, the first at {at}: {got[at].item()!r} for {expected[at].item()!r}"
