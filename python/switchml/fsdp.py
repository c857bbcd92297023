"""FSDP2's reduce-scatter with gradients of 8 or 16 bits, summed exactly.

    from switchml import fsdp

    model = fully_shard(...)
    fsdp.narrow_gradients(model, "fp8")

Each rank rounds its gradients to the format; the mean of what the ranks then have is exact, in float32 (each host of
several ranks rounds its part to that). What the rounding loses is added to the gradients of the next step. Weights are
gathered as they are. docs/operations.md says which gradients are taken.
"""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard import _fsdp_api

from switchml import _gradients, _narrow

__all__ = ["ReduceScatter", "narrow_gradients"]


def narrow_gradients(model, form):
    """Gives each module of `model` that fully_shard() was called on a ReduceScatter of its own; these, by the module's
    name."""
    comms = {}
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule):
            comms[name] = ReduceScatter(form)
            module.set_custom_reduce_scatter(comms[name])
            _tell_parameters(module)
    return comms


def _tell_parameters(module):
    """Lets a ReduceScatter know which of the module's parameters have gradients: FSDP2 hands over their elements alone,
    and takes them from the parameters before that."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)  # one for all parameters, before 2.12
    for group in [state._fsdp_param_group] if groups is None else groups:
        if group is not None:
            group.post_backward = _Telling(group)


class _Telling:
    """post_backward() of a group of parameters, and before it what _tell_parameters() says."""

    def __init__(self, group):
        self._group = group

    def __call__(self, *arguments):
        comm = self._group._reduce_scatter_comm
        if isinstance(comm, ReduceScatter):
            comm.parameters = tuple(at for at, each in enumerate(self._group.fsdp_params) if _has_gradient(each))
        return type(self._group).post_backward(self._group, *arguments)


def _has_gradient(parameter):
    unsharded = getattr(parameter, "_unsharded_param", None)
    return parameter.unsharded_accumulated_grad is not None or (unsharded is not None and unsharded.grad is not None)


class ReduceScatter(_fsdp_api.ReduceScatter):
    """For set_custom_reduce_scatter() of one module, the rounding errors of which it keeps. form: "bf16", "fp8" or
    "int8". Pickling keeps the errors too.

    When other parameters have gradients than the step before, errors begin at 0. It is narrow_gradients() that makes
    this known. Without it the same ones must always have them.
    """

    def __init__(self, form):
        if form not in _gradients.FORMATS:
            raise ValueError(f"switchml.fsdp: no format is named {form!r}; allowed: {', '.join(_gradients.FORMATS)}")
        self.form = form
        self.parameters: tuple[int, ...] | None = None  # those that have gradients; None: nothing is known
        self._parameters_of_errors: tuple[int, ...] | None = None
        self._errors = _gradients.zeros(0)

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        if input_tensor.dtype != torch.float32 or input_tensor.device.type != "cpu":
            raise ValueError(
                f"switchml.fsdp: gradients are {input_tensor.dtype} on {input_tensor.device}; allowed: torch.float32 on "
                "cpu (MixedPrecisionPolicy(reduce_dtype=torch.float32))"
            )
        if not (op == dist.ReduceOp.SUM or op == dist.ReduceOp.AVG):
            raise ValueError(
                f"switchml.fsdp: the operation is {_narrow.name_of(op)}; allowed: ReduceOp.SUM, ReduceOp.AVG. After "
                "set_gradient_divide_factor() a module needs set_force_sum_reduction_for_comms(True)"
            )
        form, part = _gradients.FORMATS[self.form], output_tensor.numel()
        if self._errors.numel() != input_tensor.numel() or self._parameters_of_errors != self.parameters:
            self._errors, self._parameters_of_errors = torch.zeros_like(input_tensor), self.parameters
        terms = form.empty(form.whole(part) * group.size())
        parts = zip(input_tensor.split(part), self._errors.split(part), terms.chunk(group.size()))
        for gradients, errors, of_part in parts:
            form.narrow(gradients, errors, of_part)
        work = _gradients.reduce_scatter(terms, output_tensor, op, group, form)
        if async_op:
            return work
        work.wait()
        return None
