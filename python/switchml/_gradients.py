"""Gradients as narrow terms of a sum: what hooks.py and fsdp.py have in common."""

import typing

import torch
import torch.distributed as dist

import switchml
from switchml._registration import _extension


class Format(typing.NamedTuple):
    """How gradients travel."""

    name: str  # in the compiled part
    dtype: torch.dtype  # of tensors of terms
    elements: int  # that go together: a block
    items: int  # of a tensor, for these elements

    def whole(self, elements):
        """So many elements, and what fills up the last block."""
        return -(-elements // self.elements) * self.elements

    def empty(self, elements):
        """Room for the terms of whole blocks."""
        return torch.empty(elements // self.elements * self.items, dtype=self.dtype, device="cpu")

    def narrow(self, source, error, terms):
        """Rounds source + error to `terms`, zeros behind it, and keeps in `error` what is lost."""
        _extension().narrow(source, error, terms, self.name)

    def widen(self, terms, output):
        _extension().widen(terms, output, self.name)


# kernels/narrow_floats.h has the blocks: a scale, and a byte for each element.
FORMATS = {
    "bf16": Format("bfloat16", torch.bfloat16, 1, 1),
    "fp8": Format("float8_e4m3fn", torch.uint8, 64, 65),
    "int8": Format("int8", torch.uint8, 64, 65),
}


def zeros(elements):
    """float32 on the host, whatever the program's defaults are."""
    return torch.zeros(elements, dtype=torch.float32, device="cpu")


def reduce_scatter(terms, output, operation, group, form):
    """Begins the exact sum or mean, rounded once, of this rank's part of the terms, to float32; the work."""
    blocks = None if form.elements == 1 else form.name
    return switchml.reduce_scatter(terms, output, operation, group, async_op=True, format=blocks)


def all_gather(output, part, group):
    """Begins it; the work."""
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before 2.13
    return gather(output, part, group, async_op=True)
