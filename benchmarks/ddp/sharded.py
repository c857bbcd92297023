"""fully_shard (FSDP2) over the model of model.py: parameters are gathered block by block, gradients
scattered.

On CPUs fully_shard waits for each of its collectives: there are no streams. So a block computes only after its
parameters have come, and all communication is exposed, whatever the backend.
"""

import contextlib
import time

import torch

import model


class Pause(torch.autograd.Function):
    """The computing of a block: it takes its time from when it begins, forward and backward. Gradients are given."""

    @staticmethod
    def forward(ctx, signal, block, *weights):
        ctx.block = block
        block.compute(model.FORWARD)
        return signal.clone()

    @staticmethod
    def backward(ctx, signal):
        ctx.block.compute(1 - model.FORWARD)
        return (signal, None, *ctx.block.gradients)


class Block(torch.nn.Module):
    """`part` is its part of all computing."""

    def __init__(self, tensors, clock, part):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(tensor.clone()) for tensor in tensors)
        self.gradients, self.clock, self.part = tensors, clock, part

    def compute(self, phase):
        time.sleep(self.clock.seconds * phase * self.part)

    def forward(self, signal):
        return Pause.apply(signal, self, *self.weights)


def blocks_of(tensors, elements):
    """Lists of neighbours, each of about so many elements."""
    blocks, held = [[]], 0
    for tensor in tensors:
        if held and held + tensor.numel() > elements:
            blocks, held = [*blocks, []], 0
        blocks[-1].append(tensor)
        held += tensor.numel()
    return blocks


class Sharded(torch.nn.Module):
    """group: None for the model without communication."""

    def __init__(self, tensors, clock, elements, group=None):
        super().__init__()
        total = sum(tensor.numel() for tensor in tensors)
        self.blocks = torch.nn.Sequential(
            *(
                Block(part, clock, sum(tensor.numel() for tensor in part) / total)
                for part in blocks_of(tensors, elements)
            )
        )
        if group is not None:
            from torch.distributed.device_mesh import DeviceMesh
            from torch.distributed.fsdp import fully_shard

            mesh = DeviceMesh.from_group(group, "cpu")
            for block in self.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(self, mesh=mesh)

    def forward(self, signal):
        return self.blocks(signal).sum()

    def no_sync(self):
        return contextlib.nullcontext()

    def gradients(self):
        """Whole, in the order of the tensors."""
        return [weight.grad.full_tensor() for weight in self.blocks.parameters()]
