"""Training over this backend ends with the parameters that it ends with over Gloo, and with the same bits on all
ranks."""

import copy
import importlib.util

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import harness
from harness import TORCH, gloo
from oracle import digest

STEPS = 6
SMALL_BUCKETS = 0.02  # MB: several buckets in a small model
DEVICE = "cpu"  # Of models and samples; a rank of test_device_parallelism.py sets another.


class Net(nn.Module):
    """Convolution, batch norm (buffers), linear layers; two branches of which a step may use one."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, bias=False)  # a bias before batch norm has noise for a gradient
        self.norm = nn.BatchNorm2d(8)
        self.left, self.right = nn.Linear(8 * 36, 40), nn.Linear(8 * 36, 40)
        self.out = nn.Linear(40, 10)

    def forward(self, x, branch="both"):
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        hidden = {"left": self.left, "right": self.right, "both": lambda y: self.left(y) + self.right(y)}[branch](x)
        return self.out(torch.relu(hidden))


def batch(rank, step):
    generator = torch.Generator().manual_seed(100 * step + rank)
    pictures, labels = torch.randn(4, 1, 8, 8, generator=generator), torch.randint(0, 10, (4,), generator=generator)
    return pictures.to(DEVICE), labels.to(DEVICE)


def new_model():
    torch.manual_seed(11)
    return Net().to(DEVICE)


def wrap(group, **options):
    return DistributedDataParallel(new_model(), process_group=group, **{"bucket_cap_mb": SMALL_BUCKETS, **options})


def train(model, optimizer, steps=STEPS, branch=lambda step: "both"):
    for step in range(steps):
        x, y = batch(dist.get_rank(), step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x, branch(step)), y).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


# ---- one function per way of training; each returns the parameters ----


def plain(group):
    model = wrap(group)
    return train(model, sgd(model))


def bucket_view(group):
    model = wrap(group, gradient_as_bucket_view=True)
    return train(model, sgd(model))


def find_unused(group):
    model = wrap(group, find_unused_parameters=True)
    return train(model, sgd(model), branch=lambda step: ("left", "right", "both")[(step + dist.get_rank()) % 3])


def static_graph(group):
    model = wrap(group, static_graph=True)
    return train(model, sgd(model), branch=lambda step: "left")


def accumulation(group):
    model = wrap(group)
    optimizer = sgd(model)
    for step in range(STEPS):
        with model.no_sync():
            nn.functional.cross_entropy(
                model(batch(dist.get_rank(), step)[0]), batch(dist.get_rank(), step)[1]
            ).backward()
        x, y = batch(dist.get_rank(), step + 50)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach() for p in model.parameters()]


def join(group):
    """Ranks have different numbers of batches."""
    model = wrap(group, broadcast_buffers=False)
    with model.join():
        return train(model, sgd(model), steps=STEPS + dist.get_rank())


def zero_redundancy(group):
    model = wrap(group)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(),
        optimizer_class=torch.optim.Adam,
        process_group=group,
        parameters_as_bucket_view=True,
        lr=0.01,
    )
    parameters = train(model, optimizer)
    optimizer.consolidate_state_dict(to=0)
    assert dist.get_rank() or len(optimizer.state_dict()["state"]) == len(parameters)
    return parameters


def zero_redundancy_join(group):
    model = wrap(group, broadcast_buffers=False)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.SGD, process_group=group, lr=0.05
    )
    with Join([model, optimizer]):
        return train(model, optimizer, steps=STEPS + dist.get_rank())


def allreduce_hook(group):
    model = wrap(group)
    model.register_comm_hook(group, default_hooks.allreduce_hook)
    return train(model, sgd(model))


def fp16_hook(group):
    model = wrap(group)
    model.register_comm_hook(group, default_hooks.fp16_compress_hook)
    return train(model, sgd(model))


def bf16_hook(group):
    model = wrap(group)
    # DDP refuses the hook by its name where there is no NCCL; a function of another name it takes.
    model.register_comm_hook(group, lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket))
    return train(model, sgd(model))


def power_sgd(group, hook, **options):
    model = wrap(group, **options)
    state = powerSGD_hook.PowerSGDState(
        process_group=group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5, random_seed=3
    )
    model.register_comm_hook(state, hook)
    return train(model, sgd(model))


def power_sgd_hook(group):
    """In one bucket: with several, the callbacks call collectives in an order that may differ between ranks (and use up
    Gloo's threads)."""
    return power_sgd(group, powerSGD_hook.powerSGD_hook, bucket_cap_mb=25)


def batched_power_sgd_hook(group):
    original = powerSGD_hook._orthogonalize
    # The hook passes matrices where torch's own function insists on batches of matrices, and fails over any backend.
    powerSGD_hook._orthogonalize = lambda matrix, epsilon=0: original(matrix.unsqueeze(0), epsilon)
    try:
        return power_sgd(group, powerSGD_hook.batched_powerSGD_hook, bucket_cap_mb=25)
    finally:
        powerSGD_hook._orthogonalize = original


WAYS = (
    plain,
    bucket_view,
    find_unused,
    static_graph,
    accumulation,
    join,
    zero_redundancy,
    zero_redundancy_join,
    allreduce_hook,
    fp16_hook,
    power_sgd_hook,
    batched_power_sgd_hook,
)
#: Where gradients are rounded on the way, one unit of that rounding moves parameters further than fp32's would.
TOLERANCE = {fp16_hook: 5e-3, bf16_hook: 5e-2, power_sgd_hook: 1e-3, batched_power_sgd_hook: 1e-3}


def rank_compare(way, reference=None):
    mine = way(dist.group.WORLD)
    theirs = (reference or way)(gloo())
    tolerance = TOLERANCE.get(way, 1e-4)
    for ours, gloos in zip(mine, theirs):
        torch.testing.assert_close(ours, gloos, rtol=tolerance, atol=tolerance)
    return digest(*mine)


def summed():
    """Elements that came not from Gloo."""
    import switchml

    counters = switchml.stats()
    return counters["elements_summed_by_switch"] + counters["elements_summed_in_memory"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_training(world, way):
    before = harness.pool(world).run(summed) if harness.BACKEND == "switchml" else None
    digests = harness.pool(world).run(rank_compare, way)
    assert len(set(digests)) == 1, "ranks ended with different bits"
    if before is not None:
        after = harness.pool(world).run(summed)
        assert all(new > old for old, new in zip(before, after)), "Gloo summed everything"


@pytest.mark.skipif(harness.BACKEND == "gloo" and TORCH < (2, 1), reason="this Gloo does not sum bf16")
def test_training_with_the_bf16_hook(world):
    """Against uncompressed training: older Gloos do not sum bf16."""
    digests = harness.pool(world).run(rank_compare, bf16_hook, plain)
    assert len(set(digests)) == 1


def rank_parameters_are_broadcast():
    torch.manual_seed(dist.get_rank())
    return digest(*DistributedDataParallel(Net()).parameters())


def test_ddp_starts_from_rank_0s_parameters(world):
    assert len(set(harness.pool(world).run(rank_parameters_are_broadcast))) == 1


def rank_mismatched_models():
    width = 3 if dist.get_rank() else 4
    return harness.caught(DistributedDataParallel, nn.Linear(5, width))


@pytest.mark.skipif(TORCH < (2, 0), reason="torch 1.13 leaves the other ranks to a timeout")
def test_ddp_says_that_models_differ():
    with harness.fresh_pool(2, with_gloo=False, group_timeout=4) as own:
        messages = own.run(rank_mismatched_models)
    assert any(message and "appears not to match" in message for message in messages), messages


# ---- torch 2: FSDP2, DTensor, functional collectives, checkpoints ----


def full_batch_reference(size, steps):
    """One process with everybody's samples: what any sharded training must end with."""
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
    sharded = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = [torch.randn(size, 4, 16, generator=torch.Generator().manual_seed(step)) for step in range(steps)]
    for sample in samples:
        optimizer.zero_grad()
        model(sample.reshape(-1, 16)).square().mean().backward()
        optimizer.step()
    return sharded, samples, model


def rank_fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, size = dist.get_rank(), dist.get_world_size()
    model, samples, reference = full_batch_reference(size, STEPS)
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for sample in samples:
        optimizer.zero_grad()
        model(sample[rank]).square().mean().backward()
        optimizer.step()
    whole = [p.full_tensor().detach() for p in model.parameters()]
    for ours, wanted in zip(whole, reference.parameters()):
        torch.testing.assert_close(ours, wanted.detach(), rtol=1e-4, atol=1e-5)
    return digest(*whole)


@pytest.mark.skipif(TORCH < (2, 8), reason="FSDP2 does not run on CPUs before: upstream, with Gloo as well")
def test_fsdp2(world):
    assert len(set(harness.pool(world).run(rank_fsdp2))) == 1


def rank_dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(1)
    a, b = torch.randn(8 * size, 12), torch.randn(12, 6 * size)
    rows = distribute_tensor(a, mesh, [Shard(0)])
    columns = distribute_tensor(b, mesh, [Shard(1)])
    torch.testing.assert_close(rows.full_tensor(), a)
    torch.testing.assert_close(rows.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local(), a)
    torch.testing.assert_close((rows @ columns.redistribute(mesh, [Replicate()])).full_tensor(), a @ b)
    torch.testing.assert_close(rows.sum().full_tensor(), a.sum(), rtol=1e-5, atol=1e-4)
    inner = distribute_tensor(a, mesh, [Shard(1)]) @ distribute_tensor(b, mesh, [Shard(0)])  # partial sums
    torch.testing.assert_close(inner.full_tensor(), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(TORCH < (2, 5), reason="torch.distributed.tensor is public from torch 2.5 on")
def test_dtensor(world):
    harness.pool(world).run(rank_dtensor)


def rank_functional():
    import torch.distributed._functional_collectives as functional

    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    everyone = torch.arange(size * size * 5.0).reshape(size, size * 5)
    torch.testing.assert_close(functional.all_reduce(everyone[rank], "sum", group) + 0, everyone.sum(0))
    torch.testing.assert_close(functional.all_gather_tensor(everyone[rank], 0, group) + 0, everyone.reshape(-1))
    scattered = functional.reduce_scatter_tensor(everyone[rank], "sum", 0, group) + 0
    torch.testing.assert_close(scattered, everyone.sum(0)[rank * 5 : (rank + 1) * 5])
    exchanged = functional.all_to_all_single(everyone[rank], None, None, group) + 0
    torch.testing.assert_close(exchanged, everyone[:, rank * 5 : (rank + 1) * 5].reshape(-1))
    coalesced = functional.all_reduce_coalesced([everyone[rank], everyone[rank] * 2], "sum", group)
    torch.testing.assert_close(coalesced[1] + 0, everyone.sum(0) * 2)


@pytest.mark.skipif(TORCH < (2, 1), reason="functional collectives take a group object from torch 2.1 on")
def test_functional_collectives(world):
    harness.pool(world).run(rank_functional)


def rank_checkpoint(folder):
    import torch.distributed.checkpoint as checkpoint

    model = DistributedDataParallel(new_model())
    train(model, sgd(model), 2)
    checkpoint.save({"model": model.module.state_dict()}, checkpoint_id=folder)
    fresh = Net()
    state = {"model": fresh.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    fresh.load_state_dict(state["model"])
    assert digest(*fresh.parameters()) == digest(*model.parameters())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    TORCH < (2, 3) or importlib.util.find_spec("torch.distributed.checkpoint") is None,
    reason="checkpoint.save with a checkpoint_id exists from torch 2.3 on",
)
def test_checkpoint(world, tmp_path):
    harness.pool(world).run(rank_checkpoint, str(tmp_path / "checkpoint"))


def rank_detail():
    model = wrap(None)
    return digest(*train(model, sgd(model), 2))


def test_ddp_under_the_debug_wrapper():
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps the backend in one that checks every call with a barrier of its own."""
    if TORCH < (2, 0):
        pytest.skip("torch 1.13 reads the variable at import")
    with harness.fresh_pool(2, with_gloo=False, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) as own:
        assert len(set(own.run(rank_detail))) == 1
