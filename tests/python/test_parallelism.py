"""PyTorch's ways to spread a model over ranks, over this backend and, in other processes, over Gloo.

Where two ranks add the bits are the same, and calls go the way that docs/collectives.md has for them.
(test_training.py has data parallelism, test_examples.py packages.)
"""

import importlib
import os
import shutil

import pytest
import torch
import torch.distributed as dist
from torch import nn

import harness
from documented import all_counts, documented_way
from harness import BACKEND, TORCH

pytestmark = [
    pytest.mark.skipif(TORCH < (2, 8), reason="FSDP2 does not run on CPUs before, and other parts are not there yet"),
    pytest.mark.skipif(BACKEND == "gloo", reason="Gloo counts nothing"),
    pytest.mark.filterwarnings("ignore"),
]

STEPS = 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def new_model(blocks=2, width=16):
    torch.manual_seed(7)
    return nn.Sequential(*(Block(width) for _ in range(blocks)))


def samples(whose, step, width=16):
    return torch.randn(4, 6, width, generator=torch.Generator().manual_seed(100 * step + whose))


def train(model, whose, clip=None, width=16):
    """Losses and gradients' norms, step by step, and the parameters."""
    optimizer, told = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(samples(whose, step, width)).square().mean()
        loss.backward()
        told.append(loss.detach())
        if clip:
            told.append(whole(nn.utils.clip_grad_norm_(model.parameters(), clip)))
        optimizer.step()
    return told, list(map(whole, model.parameters()))


def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach()


def mesh_of(**sizes):
    """By the names and sizes of its dimensions."""
    return dist.device_mesh.init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


# ---- one function for each kind of parallelism: what differs between ranks, and what does not ----


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    mesh, model = mesh_of(shard=dist.get_world_size()), new_model()
    for block in model:
        fully_shard(block, mesh=mesh)
    return train(fully_shard(model, mesh=mesh), dist.get_rank(), clip=0.5)


def hybrid_fsdp2():
    """Parts of the model within pairs of ranks, and copies of it on both pairs."""
    from torch.distributed.fsdp import fully_shard

    return train(fully_shard(new_model(), mesh=mesh_of(copy=2, shard=2)), dist.get_rank())


def split(model, mesh):
    """Megatron's way, with sequences split as well where the norms are."""
    from torch.distributed.tensor import Replicate, Shard, parallel

    plan = {
        "norm": parallel.SequenceParallel(),
        "up": parallel.ColwiseParallel(input_layouts=Shard(1)),
        "down": parallel.RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    for block in model:
        parallel.parallelize_module(block, mesh, plan)
    cut = parallel.PrepareModuleInputOutput(
        input_layouts=Replicate(),
        desired_input_layouts=Shard(1),
        use_local_input=False,
        output_layouts=Shard(1),
        desired_output_layouts=Replicate(),
    )
    return parallel.parallelize_module(model, mesh, cut)


def tensor_parallel():
    return train(split(new_model(), mesh_of(split=dist.get_world_size())), whose=0, clip=0.5)


def tensor_parallel_and_fsdp2():
    """Pairs that split layers; the pairs have samples of their own, and each a half of the weights."""
    from torch.distributed.fsdp import fully_shard

    mesh = mesh_of(shard=2, split=2)
    model = fully_shard(split(new_model(), mesh["split"]), mesh=mesh["shard"])
    return train(model, mesh.get_local_rank("shard"))


def dtensor():
    """Tensors are distributed, redistributed and multiplied in parts."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = mesh_of(part=dist.get_world_size())
    a = samples(1, 0, width=32).flatten(0, 1)
    rows, columns = distribute_tensor(a.T @ a, mesh, [Shard(0)]), distribute_tensor(a, mesh, [Shard(1)])
    product = columns @ rows  # of which each rank has an addend
    own = [rows.redistribute(mesh, [Shard(1)]), product.redistribute(mesh, [Shard(0)])]
    common = [rows, columns, product, rows.sum(), distribute_tensor(a, mesh, [Replicate()])]
    return [tensor.to_local() for tensor in own], list(map(whole, common))


def pipeline(schedule):
    """A block on each rank. Losses come from the last one."""
    from torch.distributed import pipelining

    rank, size = dist.get_rank(), dist.get_world_size()
    model = new_model(size)[rank]
    stage = pipelining.PipelineStage(model, rank, size, torch.device("cpu"))
    steps = getattr(pipelining, schedule)(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer, told = torch.optim.AdamW(model.parameters(), lr=0.01), []
    for step in range(STEPS):
        optimizer.zero_grad()
        if rank == 0:
            steps.step(samples(0, step))
        else:
            steps.step(target=samples(1, step), losses=told)
        optimizer.step()
    return [loss.detach() for loss in told] + [p.detach() for p in model.parameters()], []


def checkpoint(function, folder):
    """A model in parts and its optimizer are saved, by dcp.save or dcp.async_save, and read into others."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def new_state(steps):
        model = fully_shard(new_model(), mesh=mesh_of(shard=dist.get_world_size()))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for step in range(steps):
            model(samples(dist.get_rank(), step)).square().mean().backward()
            optimizer.step()
        parameters, moments = get_state_dict(model, optimizer)
        return model, optimizer, {"model": parameters, "optimizer": moments}

    model, optimizer, state = new_state(steps=2)
    saved = getattr(dcp, function)(state, checkpoint_id=folder)
    if function == "async_save":
        saved.result(timeout=harness.CALL_TIMEOUT)
    other, its_optimizer, state = new_state(steps=1)
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(other, its_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for ours, wanted in zip(other.parameters(), model.parameters()):
        assert torch.equal(ours.to_local(), wanted.to_local())
        moment, kept = its_optimizer.state[ours]["exp_avg"], optimizer.state[wanted]["exp_avg"]
        assert torch.equal(moment.to_local(), kept.to_local())
    return [], list(map(whole, other.parameters()))


def compiled_ddp(compiler):
    """torch.compile cuts the graph of a DDP model where buckets end, and this one has several."""
    model = nn.parallel.DistributedDataParallel(new_model(3, 256), bucket_cap_mb=1)
    return train(torch.compile(model, backend=compiler), dist.get_rank(), width=256)


def compiled_collectives(compiler):
    """Collectives inside of a compiled function."""
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD

    def mixed(x):
        total = functional.all_reduce(x * 2, "sum", group)
        parts = functional.reduce_scatter_tensor(total + 1, "avg", 0, group)
        return functional.all_gather_tensor(parts.relu(), 0, group).sin()

    compiled = torch.compile(mixed, backend=compiler, fullgraph=True)
    return [], [compiled(samples(dist.get_rank(), step)) for step in range(STEPS)]


# ---- over both backends ----

SHARDING = {"all_gather_into_tensor", "reduce_scatter_tensor"}
SPLITTING = {"all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"}
#: What to do on how many ranks, with which arguments here and over Gloo; the calls that it makes.
KINDS = {
    "fsdp2": (2, fsdp2, (), (), {*SHARDING, "all_reduce"}),
    "fsdp2, hybrid": (4, hybrid_fsdp2, (), (), {*SHARDING, "all_reduce"}),
    "tensor parallel": (2, tensor_parallel, (), (), {*SPLITTING, "all_reduce"}),
    "tensor parallel and fsdp2": (4, tensor_parallel_and_fsdp2, (), (), {*SHARDING, *SPLITTING}),
    "DTensor": (2, dtensor, (), (), {"all_reduce", "scatter", *SPLITTING}),
    "pipeline, GPipe": (2, pipeline, ("ScheduleGPipe",), ("ScheduleGPipe",), {"send", "recv"}),
    "pipeline, 1F1B": (2, pipeline, ("Schedule1F1B",), ("Schedule1F1B",), {"send", "recv"}),
    "checkpoint": (2, checkpoint, ("save", "FOLDER"), ("save", "FOLDER"), {"gather", "scatter"}),
    "checkpoint, async": (2, checkpoint, ("async_save", "FOLDER"), ("async_save", "FOLDER"), {"gather", "scatter"}),
    "compiled DDP": (2, compiled_ddp, ("aot_eager",), ("eager",), {"all_reduce"}),
    "compiled collectives": (2, compiled_collectives, ("inductor",), ("eager",), {"all_reduce", *SPLITTING}),
}
#: All that is used, to be imported before ranks are forked.
PARTS = ("fsdp", "tensor.parallel", "pipelining", "checkpoint.state_dict", "_functional_collectives")
MODULES = ("torch._dynamo", "torch._inductor.compile_fx", *(f"torch.distributed.{part}" for part in PARTS))


def rank_run(kind, arguments):
    before = all_counts()
    result = kind(*arguments)
    return result, set(all_counts() - before)


@pytest.fixture(scope="module")
def pool_over(tmp_path_factory):
    """Pools by size and backend. Gloo has its own: DTensor remembers the first mesh of a shape, and its groups."""
    pools, environment = {}, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor"))}
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # or each rank starts processes for it
    for module in MODULES:
        importlib.import_module(module)  # once, not in each of the ranks that are forked from here

    def get(size, backend):
        if (size, backend) not in pools or not pools[size, backend].alive:
            pools[size, backend] = harness.Pool(size, environment, backend=backend, with_gloo=False)
        return pools[size, backend]

    yield get
    for pool in pools.values():
        pool.close()


@pytest.mark.parametrize("name", KINDS)
def test_the_same_as_over_gloo(name, pool_over, tmp_path):
    size, kind, arguments, over_gloo, calls = KINDS[name]
    if "inductor" in arguments and shutil.which("g++") is None:
        pytest.skip("inductor needs g++")
    mine, gloos = pool_over(size, BACKEND), pool_over(size, "gloo")
    mine.start(rank_run, kind, [str(tmp_path / "mine") if each == "FOLDER" else each for each in arguments])
    gloos.start(rank_run, kind, [str(tmp_path / "gloo") if each == "FOLDER" else each for each in over_gloo])
    # Compiling a model is computing alone, which beside others takes minutes.
    results, wanted = mine.finish(timeout=600), gloos.finish(timeout=600)

    seen = set().union(*(counted for _, counted in results))
    assert {name for name, _ in seen} >= calls, f"counted was {seen}"
    column = "in memory" if os.environ["SWITCHML_TRANSPORT"] == "auto" else "between hosts"
    assert seen == {(name, documented_way(name, column)) for name, _ in seen}
    # A sum of two is rounded once, whoever adds; a compiler may round otherwise.
    exact = {"rtol": 0, "atol": 0} if size == 2 and arguments == over_gloo else {"rtol": 1e-4, "atol": 1e-5}
    for rank, ((own, common), _) in enumerate(results):
        (wanted_own, wanted_common), _ = wanted[rank]
        assert len(own) + len(common) > 0
        torch.testing.assert_close([*own, *common], [*wanted_own, *wanted_common], **exact)
        torch.testing.assert_close(common, results[0][0][1], rtol=0, atol=0, msg="ranks ended with different bits")
