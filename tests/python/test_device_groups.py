"""Groups that take tensors of an accelerator, the tests' own: their memory, their devices, and a script of a user's."""

import os
import subprocess
import sys
import time

import mock_device
import pytest
import torch
import torch.distributed as dist
from documented import ROOT
from examples_runner import rank_script, rank_store
from harness import fresh_pool, this_rank
from test_device_tensors import LONG_CALLS, WORLD, all_reduce, differences

import switchml

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)

EXAMPLE = os.path.join(ROOT, "examples", "ddp_on_gpu.py")


def pinned_by_the_host():
    dist.all_reduce(torch.ones(1000))
    return mock_device.pinned_bytes()


def test_a_group_of_hosts_pins_nothing():
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD)
        assert pool.run(pinned_by_the_host) == [(0, 0, 0)] * WORLD
        pool.run(dist.destroy_process_group)


def example(port):
    weights, _ = rank_script(this_rank(), port, "cpu:switchml,mock:switchml", EXAMPLE, [])
    dist.destroy_process_group()
    return weights


def test_the_example_learns_on_every_device():
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.load, 3)
        first, second = pool.run(example, pool.run(rank_store)[0])
        assert first == second
        assert all(abs(weight - 1) < 1e-3 for row in first for weight in row)


MIB = 1 << 20
BOUND = 16 * MIB


def bounded(case):
    call, count = case
    found = differences(call, (count,), (1, 2))
    end = time.monotonic() + 60
    while switchml.stats()["pinned_bytes"] > 0:
        assert time.monotonic() < end, "pinned memory is not given back"
        time.sleep(0.01)
    return found, mock_device.pinned_bytes()[2], switchml.stats()["pinned_limit_bytes"]


def test_what_exceeds_the_bound_of_pinned_memory_goes_another_way():
    """A tensor alone, and several together."""
    environment = {"SWITCHML_PINNED_MEMORY": str(BOUND // MIB)}  # Less than the first tensor has.
    cases = [(all_reduce, 5 * MIB), *((call, MIB + 3) for call in LONG_CALLS)]
    with fresh_pool(WORLD, environment=environment, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD)
        for case in cases:
            for found, most, limit in pool.run(bounded, case):
                assert (found, limit) == ([], BOUND), case
                assert most <= BOUND
        assert most > BOUND // 4
        pool.run(dist.destroy_process_group)


GROUP_OF_ONE = """
import sys, types, torch
torch.ops.load_library(sys.argv[1])
torch.utils.rename_privateuse1_backend("mock")
torch._register_device_module("mock", types.ModuleType("torch.mock"))
import switchml
import torch.distributed as dist
before = dist.Backend.default_device_backend_map.get("mock")
dist.init_process_group("switchml", store=dist.HashStore(), rank=0, world_size=1)
torch.ops.mock_device.seed(3)
tensor = torch.zeros(1000, device="mock").fill_(3)
dist.all_reduce(tensor)
output = torch.zeros(1000, device="mock")
dist.all_gather_into_tensor(output, tensor)
for _ in range(10):
    for _ in range(20):
        tensor.fill_(3)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    future.then(lambda _: dist.all_reduce(tensor)).wait()
dist.group.WORLD._get_backend(torch.device("mock")).perform_nocolor_split(torch.device("mock"))
dist.barrier()
print(before, set(output.cpu().tolist()))
dist.destroy_process_group()
"""


def test_a_group_that_names_no_device_takes_the_accelerators():
    """If that is registered first. It does not become the default backend of that device."""
    command = [sys.executable, "-c", GROUP_OF_ONE, mock_device.library()]
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert run.stdout == "None {3.0}\n", run.stderr
