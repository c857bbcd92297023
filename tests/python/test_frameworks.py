"""What torch builds upon a process group, and others upon torch: the same script over switchml and over Gloo.

Each script is what torchrun would start on 2 ranks; nothing changes but the backend's name. The ranks run it over the
backend under test, then over Gloo, and the losses and parameters must agree. `switchml.stats()` must show the
collectives that the script is known for, and each on the way that docs/collectives.md gives it.

Packages that are not installed are skipped: pip install lightning accelerate transformers
"""

import importlib.util
import os
import socket
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn

import harness
from harness import TORCH

RANKS, STEPS = 2, 4
pytestmark = pytest.mark.filterwarnings("ignore")


def package(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"the package {name} is not installed")


def since(version, what):
    return pytest.mark.skipif(TORCH < version, reason=f"{what} from torch {version[0]}.{version[1]} on")


class Net(nn.Module):
    """Two layers, the first of more than 16 KiB."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 4)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def new_model(seed=0):
    torch.manual_seed(seed)
    return Net()


def new_mesh():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def samples(seed, count=STEPS):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 8, 64, generator=generator), torch.randn(count, 8, 4, generator=generator)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, seed):
    """The loss of each step."""
    optimizer = sgd(model)
    losses = []
    for x, y in zip(*samples(seed)):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


# ---- torch's own; each returns tensors ----


def fsdp2(backend, folder):
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group(backend)
    mesh, model = new_mesh(), new_model()
    for layer in (model.up, model.down, model):
        fully_shard(layer, mesh=mesh)
    losses = train(model, seed=dist.get_rank())
    return losses + [parameter.full_tensor().detach() for parameter in model.parameters()]


def dtensor(backend, folder):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group(backend)
    mesh = new_mesh()
    torch.manual_seed(1)
    a, b = torch.randn(64, 96), torch.randn(96, 80)
    rows, columns = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(a, mesh, [Shard(1)])
    product = columns @ distribute_tensor(b, mesh, [Shard(0)])  # of which each rank has an addend
    return [
        distribute_tensor(a, mesh, [Replicate()]).to_local(),
        rows.full_tensor(),
        rows.redistribute(mesh, [Shard(1)]).to_local(),
        product.redistribute(mesh, [Shard(0)]).to_local(),
        product.full_tensor(),
        rows.sum().full_tensor(),
    ]


def tensor_parallel(backend, folder):
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    dist.init_process_group(backend)
    model, results = new_model(), []
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    parallel = parallelize_module(model, new_mesh(), plan)
    results += train(parallel, seed=0)
    results += [parameter.full_tensor().detach() for parameter in parallel.parameters()]
    # As sequence parallelism has it: each rank with its part of the samples between the blocks.
    plan = {"up": ColwiseParallel(input_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}
    parallel = parallelize_module(new_model(), new_mesh(), plan)
    return results + [parallel(x).detach() for x in samples(dist.get_rank())[0]]


def pipelining(backend, folder):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    dist.init_process_group(backend)
    rank, size, whole = dist.get_rank(), dist.get_world_size(), new_model()
    part = nn.Sequential(whole.up, nn.ReLU()) if rank == 0 else whole.down
    schedule = Schedule1F1B(PipelineStage(part, rank, size, torch.device("cpu")), 4, loss_fn=nn.functional.mse_loss)
    optimizer = sgd(part)
    losses = []
    for x, y in zip(*samples(0)):
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        optimizer.step()
    return [loss.detach() for loss in losses] + [parameter.detach() for parameter in part.parameters()]


def checkpoints(backend, folder):
    """Saved in parts, at once and in the background, and loaded into another model."""
    from torch.distributed import checkpoint
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    dist.init_process_group(backend)
    results = []
    for way in ("save", "async_save"):
        mesh, path = new_mesh(), os.path.join(folder, way)
        model, other = (parallelize_module(new_model(seed), mesh, {"up": ColwiseParallel()}) for seed in (3, 4))
        outcome = getattr(checkpoint, way)({"model": model.state_dict()}, checkpoint_id=path)
        if way == "async_save":
            outcome.result()
        state = {"model": other.state_dict()}
        checkpoint.load(state, checkpoint_id=path)
        other.load_state_dict(state["model"])
        assert torch.equal(model.up.weight.to_local(), other.up.weight.to_local())
        assert torch.equal(model.down.weight, other.down.weight)
        results += [other.up.weight.full_tensor().detach(), other.down.weight.detach()]
    return results


def compiled(backend, folder):
    """DDP with several buckets, between which its graph is cut, and a collective within a graph."""
    dist.init_process_group(backend)
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(64, 600), nn.ReLU(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 4))
    model = nn.parallel.DistributedDataParallel(wide, bucket_cap_mb=1)  # torch refuses to compile with less than 1
    losses = train(torch.compile(model, backend="aot_eager"), seed=dist.get_rank())

    @torch.compile(backend="aot_eager", fullgraph=True)
    def doubled_sum(x):
        total = x * 2
        dist.all_reduce(total)
        return total + 1

    losses.append(doubled_sum(samples(dist.get_rank())[0]))
    return losses + [parameter.detach() for parameter in model.parameters()]


# ---- packages ----


class Samples(torch.utils.data.Dataset):
    """As dictionaries, from which each rank is given its part by the package."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        x, y = samples(seed=index, count=1)
        return {"x": x[0, 0], "y": y[0, 0]}


def lightning(backend, folder):
    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.losses = new_model(), []

        def training_step(self, batch, index):
            loss = nn.functional.mse_loss(self.net(batch["x"]), batch["y"])
            self.losses.append(loss.detach())
            self.log("loss", loss, sync_dist=True, on_epoch=True)
            return loss

        def configure_optimizers(self):
            return sgd(self)

    strategy = DDPStrategy(process_group_backend=backend)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=RANKS, strategy=strategy, max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    module = Module()
    trainer.fit(module, torch.utils.data.DataLoader(Samples(), batch_size=8))
    return module.losses + [trainer.callback_metrics["loss_epoch"]] + [p.detach() for p in module.parameters()]


def accelerate(backend, folder):
    from accelerate import Accelerator

    dist.init_process_group(backend)
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == RANKS, accelerator.state
    model = new_model()
    optimizer = sgd(model)
    loader = torch.utils.data.DataLoader(Samples(), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch["x"]), batch["y"])
        accelerator.backward(loss)
        optimizer.step()
        losses.append(accelerator.gather(loss.detach()))
    return losses + [parameter.detach() for parameter in model.parameters()]


def transformers(backend, folder):
    from transformers import Trainer, TrainingArguments

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = new_model()

        def forward(self, x, y):
            return {"loss": nn.functional.mse_loss(self.net(x), y)}

    dist.init_process_group(backend)
    module = Module()
    arguments = TrainingArguments(
        folder, use_cpu=True, per_device_train_batch_size=8, num_train_epochs=1, learning_rate=0.1, optim="sgd",
        report_to="none", save_strategy="no", disable_tqdm=True, logging_steps=1, remove_unused_columns=False,
    )  # fmt: skip
    assert arguments.world_size == RANKS, arguments
    trainer = Trainer(module, arguments, train_dataset=Samples())
    trainer.train()
    losses = [torch.tensor(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == STEPS
    return losses + [parameter.detach() for parameter in module.parameters()]


# ---- running them ----

REDUCTIONS = ("all_reduce", "reduce_scatter", "barrier")
MESSAGES = ("send", "recv")

#: A script, what it needs, and collectives that it is known for.
SCRIPTS = (
    (fsdp2, since((2, 8), "FSDP2 runs on CPUs"), ("all_gather_into_tensor", "reduce_scatter_tensor")),
    (dtensor, since((2, 5), "torch.distributed.tensor is public"), ("all_reduce", "scatter")),
    (tensor_parallel, since((2, 5), "torch.distributed.tensor is public"), ("all_reduce", "scatter")),
    (pipelining, since((2, 5), "torch.distributed.pipelining is there"), ("send", "recv")),
    (checkpoints, since((2, 5), "torch.distributed.tensor is public"), ("gather", "scatter")),
    (compiled, since((2, 6), "torch.compile takes any Python that we do"), ("all_reduce",)),
    (lightning, package("lightning"), ("all_reduce", "barrier")),
    (accelerate, package("accelerate"), ("all_reduce", "all_gather")),
    (transformers, package("transformers"), ("all_reduce", "all_gather")),
)


def way_of(collective, transport):
    """As docs/collectives.md has it."""
    if collective.startswith(MESSAGES):
        return "companion"
    return "switch" if collective.startswith(REDUCTIONS) or transport == "shm" else "companion"


def calls_made():
    """{"collective": calls} of all groups of this rank, each of which must have gone the way that it should."""
    import switchml

    made = {}
    for group in list(dist.distributed_c10d._world.pg_map):
        counters = switchml.stats(group)
        for collective, ways in counters["calls"].items():
            assert set(ways) == {way_of(collective, counters["session"]["transport"])}, (collective, ways)
            made[collective] = made.get(collective, 0) + sum(ways.values())
    return made


def rank_runs(script, rank, backend, port, folder):
    """The script's tensors and, of switchml, the calls that it made."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), MASTER_PORT=str(port))
    results = [result.clone() for result in script(backend, folder)]
    assert dist.get_backend() == backend
    made = calls_made() if backend == "switchml" else {}
    dist.destroy_process_group()
    if "accelerate" in sys.modules:  # which would take the next group for this one
        sys.modules["accelerate.state"].AcceleratorState._reset_state(reset_partial_state=True)
    return results, made


def run(pool, script, backend):
    port = harness.free_port(socket.SOCK_STREAM)
    folder = os.path.join(pool.folder, f"over-{backend}")
    for rank in range(RANKS):
        pool.start(rank_runs, script, rank, backend, port, folder, ranks=[rank])
    return pool.finish()


@pytest.mark.parametrize(
    "script, known_for",
    [pytest.param(script, known_for, marks=needs, id=script.__name__) for script, needs, known_for in SCRIPTS],
)
def test_framework(script, known_for):
    environment = {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    environment["TORCHELASTIC_RUN_ID"] = "none"  # as torchrun sets it, by which Lightning knows torchrun
    environment["USE_LIBUV"] = "0"  # which Debian's torch is built without
    with harness.fresh_pool(RANKS, join_group=False, environment=environment) as pool:
        ours, gloos = (run(pool, script, backend) for backend in (harness.BACKEND, "gloo"))
    for (mine, made), (its, _) in zip(ours, gloos):
        assert len(mine) == len(its) > 0
        for one, other in zip(mine, its):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        assert harness.BACKEND == "gloo" or set(known_for) <= set(made), made
