"""The tests' own accelerator: a forgotten event, a copy too early and memory reused too soon give wrong numbers
with some of these seeds, and code without such mistakes gets the right ones with all."""

import ctypes
import os
import signal

import mock_device
import pytest
import torch
from harness import fresh_pool

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)

SEEDS = range(1, 41)
COUNT = 5000


def of_seed(seed, action):
    mock_device.load(seed)
    result = action()
    torch.accelerator.synchronize()
    return result


def filled(value, steps=8):
    """A tensor that has the value once the current stream has come so far."""
    tensor = torch.zeros(COUNT, device="mock")
    for _ in range(steps):
        tensor.fill_(-1)
    return tensor.fill_(value)


def copy_beside(waits):
    """What another stream reads."""
    side = torch.Stream(device="mock")
    tensor, copy = filled(7), torch.zeros(COUNT, device="mock")
    if waits:
        side.wait_event(torch.accelerator.current_stream().record_event())
    with side:
        copy.copy_(tensor)
    side.synchronize()
    return bool((copy.cpu() == 7).all())


def copy_to_host(waits):
    host = torch.zeros(COUNT, pin_memory=True)
    host.copy_(filled(7), non_blocking=True)
    if waits:
        torch.accelerator.current_stream().synchronize()
    return bool((host == 7).all())


def use_after_free(records):
    """A stream reads what died meanwhile."""
    side = torch.Stream(device="mock")
    tensor = filled(7)
    torch.accelerator.synchronize()
    copy = torch.zeros(COUNT, device="mock")
    side.wait_event(torch.accelerator.current_stream().record_event())
    with side:
        for _ in range(8):
            copy.fill_(0)
        copy.copy_(tensor)
    if records:
        tensor.record_stream(side)
    del tensor
    side.synchronize()
    return bool((copy.cpu() == 7).all())


def outcomes(action, careful):
    return {of_seed(seed, lambda: action(careful)) for seed in SEEDS}


@pytest.mark.parametrize("action", (copy_beside, copy_to_host, use_after_free))
def test_mistakes_are_seen_and_only_mistakes(action):
    with fresh_pool(1, join_group=False, with_gloo=False) as ranks:
        assert ranks.run(outcomes, action, True) == [{True}]
        assert False in ranks.run(outcomes, action, False)[0]


def read_by_host():
    mock_device.load()
    tensor = filled(7)
    torch.accelerator.synchronize()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.string_at(tensor.data_ptr(), 4)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_host_cannot_read_its_memory():
    with fresh_pool(1, join_group=False, with_gloo=False) as ranks:
        assert ranks.run(read_by_host) == [-signal.SIGSEGV]


def trained(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    inputs = torch.randn(32, 8).to(device)
    return mock_device.losses_of(model.to(device), inputs, 5)


def trained_on_both():
    mock_device.load(3)
    return trained("cpu"), trained("mock")


def test_a_model_trains_as_on_the_cpu():
    with fresh_pool(1, join_group=False, with_gloo=False) as ranks:
        on_cpu, on_device = ranks.run(trained_on_both)[0]
    assert on_cpu == on_device
