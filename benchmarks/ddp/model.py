"""A module with given parameters whose gradients are given too and whose computing is waiting.

Waiting stands for an accelerator that computes while this host's cores are free for communication. Multiplying matrices
instead would make all ranks, which share one machine here, compete for its cores: the time to hide communication behind
would depend on how many ranks there are and on what communication itself takes.
"""

import time

import torch

FORWARD = 1 / 3  # of the computing of a step


class Clock:
    """When this step's computing is due to have come how far."""

    seconds = 0.0  # of a step

    def begin(self):
        self.started = time.perf_counter()

    def wait_until(self, fraction):
        left = self.started + fraction * self.seconds - time.perf_counter()
        if left > 0:
            time.sleep(left)


class Layer(torch.autograd.Function):
    """One parameter. Its backward ends when that of all parameters behind it and of itself would."""

    @staticmethod
    def forward(ctx, signal, parameter, clock, gradient, done):
        ctx.clock, ctx.gradient, ctx.done = clock, gradient, done
        return signal.clone()

    @staticmethod
    def backward(ctx, signal):
        ctx.clock.wait_until(ctx.done)
        return signal, ctx.gradient, None, None, None


class Model(torch.nn.Module):
    """`tensors` are parameters and gradients both: nothing is trained. Each takes a part of the backward as large as
    its part of all elements."""

    def __init__(self, tensors, clock):
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(tensor) for tensor in tensors)
        self.gradients, self.clock = tensors, clock
        total, behind = sum(tensor.numel() for tensor in tensors), 0
        self.done = []
        for tensor in reversed(tensors):
            behind += tensor.numel()
            self.done.insert(0, FORWARD + (1 - FORWARD) * behind / total)

    def forward(self, signal):
        self.clock.wait_until(FORWARD)
        for parameter, gradient, done in zip(self.weights, self.gradients, self.done):
            signal = Layer.apply(signal, parameter, self.clock, gradient, done)
        return signal.sum()
