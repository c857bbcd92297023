"""What trains in parallel gives on the tests' own accelerator what it does on the CPU, bit by bit."""

import mock_device
import pytest
import torch
import torch.distributed as dist
import test_training
from harness import fresh_pool
from test_device_tensors import WORLD, late, numbers

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)


@pytest.fixture(scope="module")
def ranks():
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD)
        yield pool
        pool.run(dist.destroy_process_group)


def synchronize(device):
    if device != "cpu":
        torch.accelerator.synchronize()


def mesh_of(device):
    return dist.init_device_mesh(device, (dist.get_world_size(),))


def parted(device, elements):
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(elements.to(device), mesh_of(device), [Shard(0)])


def fsdp2(device):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model = fully_shard(layers.to(device), mesh=mesh_of(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = numbers(8 * 32).view(32, 8).to(device)
    for _ in range(3):
        # FSDP2 frees gradients that the current stream may still read: a stream of its own made them, and takes such
        # memory again only behind this one. The tests' device takes memory for all streams.
        synchronize(device)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return [parameter.full_tensor() for parameter in model.parameters()]


def fsdp1(device):
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    layers[0] = FullyShardedDataParallel(layers[0], device_id=torch.device(device))
    model = FullyShardedDataParallel(layers, device_id=torch.device(device))
    losses = mock_device.losses_of(model, numbers(8 * 32).view(32, 8).to(device), 3)
    with FullyShardedDataParallel.summon_full_params(model):
        return [torch.tensor(losses), *[parameter.detach().clone() for parameter in model.parameters()]]


def dtensor(device):
    from torch.distributed.tensor import Shard

    tensor = parted(device, torch.arange(48.0).view(8, 6).sin())
    moved = tensor.redistribute(tensor.device_mesh, [Shard(1)])
    return [tensor.full_tensor(), moved.to_local(), moved.full_tensor(), tensor.sum().full_tensor()]


def functional(device):
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD
    return [
        functional.all_reduce(late(numbers(100), device), "sum", group),
        functional.all_gather_tensor(late(numbers(100), device), 0, group),
        functional.reduce_scatter_tensor(late(numbers(100 * WORLD), device), "sum", 0, group),
    ]


def compiled(device, compiler):
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD

    def mixed(tensor):
        total = functional.all_reduce(tensor * 2, "sum", group) + 1
        parts = functional.reduce_scatter_tensor(total, "sum", 0, group)
        return functional.all_gather_tensor(parts + 1, 0, group)

    torch.compiler.reset()
    return [torch.compile(mixed, backend=compiler, fullgraph=True)(late(numbers(100), device))]


def objects(device):
    found = [None] * WORLD
    dist.all_gather_object(found, dist.get_rank())
    told = [dist.get_rank()]
    dist.broadcast_object_list(told, src=1, device=torch.device(device))
    if dist.get_rank() == 1:
        dist.send_object_list([[7, 8]], dst=0, device=torch.device(device))
    else:
        sent = [None]
        dist.recv_object_list(sent, src=1, device=torch.device(device))
        assert sent == [[7, 8]]
    dist.barrier(device_ids=[0])
    dist.monitored_barrier()
    return [torch.tensor(found + told)]


def checkpoint(device, folder):
    from torch.distributed import checkpoint as saved

    elements = torch.arange(48.0).view(8, 6).cos()
    saved.save({"tensor": parted(device, elements)}, checkpoint_id=f"{folder}/{device}")
    tensor = parted(device, torch.zeros(8, 6))
    saved.load({"tensor": tensor}, checkpoint_id=f"{folder}/{device}")
    return [tensor.full_tensor()]


def differs(use, *arguments, seeds=(0, 3, 4), tolerance=0):
    """Whether anything does by more than that, for each of the seeds."""
    expected = use("cpu", *arguments)
    outcomes = []
    for seed in seeds:
        mock_device.load(seed, keeps_pinned=True)
        results = [result.cpu() for result in use("mock", *arguments)]
        equal = all(torch.allclose(a, b, tolerance, tolerance) for a, b in zip(results, expected))
        outcomes.append(len(results) != len(expected) or not equal)
    return outcomes


USES = ((fsdp1,), (fsdp2,), (dtensor,), (functional,), (compiled, "eager"), (compiled, "aot_eager"), (objects,))


@pytest.mark.parametrize("use", USES, ids=lambda use: "-".join([use[0].__name__, *use[1:]]))
def test_the_same_as_on_the_cpu(ranks, use):
    assert ranks.run(differs, *use) == [[False] * 3] * WORLD


def test_checkpoints_have_what_was_saved(ranks, tmp_path):
    assert ranks.run(differs, checkpoint, str(tmp_path)) == [[False] * 3] * WORLD


def trained(device, way):
    test_training.DEVICE = device
    return way(dist.group.WORLD)


def compiled_training(group):
    torch.compiler.reset()
    model = test_training.wrap(group, bucket_cap_mb=1)
    return test_training.train(torch.compile(model, backend="aot_eager"), test_training.sgd(model), steps=2)


#: PyTorch's products of matrices may round otherwise when another device has them made by the CPU.
TOLERANCE = {test_training.power_sgd_hook: 1e-6, test_training.batched_power_sgd_hook: 1e-6}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "way", (*test_training.WAYS, test_training.bf16_hook, compiled_training), ids=lambda way: way.__name__
)
def test_a_training_ends_as_on_the_cpu(ranks, way):
    assert ranks.run(differs, trained, way, seeds=[3], tolerance=TOLERANCE.get(way, 0)) == [[False]] * WORLD
