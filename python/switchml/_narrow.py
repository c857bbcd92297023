"""Sums of narrow terms whose result is float32: what torch.distributed does not have."""

import torch
import torch.distributed as dist

from switchml._registration import _of_group

__all__ = ["all_reduce", "reduce_scatter"]


def all_reduce(input, output, op=dist.ReduceOp.SUM, group=None, async_op=False, *, format=None):
    """Writes to `output` (float32) the sum, or with ReduceOp.AVG the mean, of the inputs of all ranks: the exact one,
    rounded once.

    `input` is float16, bfloat16, float8_e4m3fn or float8_e5m2, with as many elements. Or it is uint8 with a `format`,
    "int8" or "float8_e4m3fn": blocks of 65 bytes. The first, s, is a scale of 2**(s - 127), with 255 for NaN; 64
    numbers of the format follow. The last block is filled with zeros.

    Between hosts with one rank each contributions travel as narrow as they are. Elsewhere they are widened first, and
    each host of several ranks rounds its part of the sum to float32, too.
    """
    return _sum("all_reduce", input, output, op, group, async_op, format)


def reduce_scatter(input, output, op=dist.ReduceOp.SUM, group=None, async_op=False, *, format=None):
    """The same, of which each rank gets its part: the input has one for each rank, one after the other, and the output
    is as long as a part. Blocks begin anew with each part.
    """
    return _sum("reduce_scatter", input, output, op, group, async_op, format)


def name_of(op):
    """ReduceOp.MAX for the constant, and for an object made of it."""
    names = getattr(dist.ReduceOp, "RedOpType", dist.ReduceOp).__members__.items()
    return next((f"ReduceOp.{name}" for name, constant in names if op == constant), repr(op))


def _sum(name, input, output, op, group, async_op, format):
    for what, tensor in (("input", input), ("output", output)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"switchml.{name}: the {what} is a {type(tensor).__name__}; allowed: a tensor")
    if format is not None and not isinstance(format, str):
        raise TypeError(f"switchml.{name}: the format is a {type(format).__name__}; allowed: a str, or None")
    if not (op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG):  # A ReduceOp object has no hash that `in` could take.
        raise ValueError(f"switchml.{name}: the operation is {name_of(op)}; allowed: ReduceOp.SUM, ReduceOp.AVG")

    def issue(backend):
        if not hasattr(backend, "_sum_to_float32"):
            return None
        return backend._sum_to_float32(
            output,
            input,
            format=format or "",
            mean=op == dist.ReduceOp.AVG,
            scatters=name == "reduce_scatter",
            waits=not async_op,
        )

    work = _of_group(group, name, issue)
    if async_op:
        return work
    work.wait()
    return None
