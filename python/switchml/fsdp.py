"""FSDP2's reduce-scatter with gradients of 8 or 16 bits, summed exactly.

    from switchml import fsdp

    model = fully_shard(...)
    fsdp.narrow_gradients(model, "fp8")

Each rank rounds its gradients to the format; the mean of what the ranks then have is exact, in float32. What the
rounding loses is added to the gradients of the next step. Weights are gathered as they are. docs/operations.md says
which gradients are taken.
"""

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard import _fsdp_api

from switchml import _gradients

__all__ = ["ReduceScatter", "narrow_gradients"]


def narrow_gradients(model, form):
    """Gives each module of `model` that fully_shard() was called on a ReduceScatter of its own."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_reduce_scatter(ReduceScatter(form))


class ReduceScatter(_fsdp_api.ReduceScatter):
    """For set_custom_reduce_scatter() of one module, the rounding errors of which it keeps. form: "bf16", "fp8" or
    "int8". Pickling keeps the errors too."""

    def __init__(self, form):
        if form not in _gradients.FORMATS:
            raise ValueError(f"switchml.fsdp: no format is named {form!r}; allowed: {', '.join(_gradients.FORMATS)}")
        self.form = form
        self._errors = torch.empty(0)

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if input_tensor.dtype != torch.float32 or input_tensor.device.type != "cpu":
            raise ValueError(
                f"switchml.fsdp: gradients are {input_tensor.dtype} on {input_tensor.device}; allowed: torch.float32 on "
                "cpu (MixedPrecisionPolicy(reduce_dtype=torch.float32))"
            )
        form, part = _gradients.FORMATS[self.form], output_tensor.numel()
        if self._errors.numel() != input_tensor.numel():
            self._errors = torch.zeros_like(input_tensor)
        terms = form.empty(form.whole(part) * group.size())
        parts = zip(input_tensor.split(part), self._errors.split(part), terms.chunk(group.size()))
        for gradients, errors, of_part in parts:
            form.narrow(gradients, errors, of_part)
        work = _gradients.reduce_scatter(terms, output_tensor, op, group, form)
        if async_op:
            return work
        work.wait()
        return None
