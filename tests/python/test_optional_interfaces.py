"""What a backend may offer beside its collectives (memory for buckets, coalescing, groups made of others, abort hooks),
under what trains with it: with real, complex, mixed and empty parameters the result is the one that Gloo gives."""

import contextlib
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import harness
from harness import TORCH
from oracle import digest
from test_groups import backend_of, group_over

c10d = dist.distributed_c10d
pytestmark = [
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has none of this"),
    pytest.mark.filterwarnings("ignore"),
]

STEPS = 3
SMALL_BUCKETS = 0.001  # MB: several in a model
#: Shapes and types of the parameters.
KINDS = {
    "real": [((8, 16), torch.float32), ((16, 16), torch.float32)],
    "complex": [((8, 16), torch.complex64), ((16, 16), torch.complex64)],
    "mixed": [((8, 16), torch.complex64), ((8, 16), torch.float32), ((8, 16), torch.complex128)],
    "empty": [((8, 16), torch.float32), ((8, 0), torch.float32), ((8, 0), torch.complex64), ((8, 4), torch.complex64)],
}


class Layer(nn.Module):
    """One parameter, so that FSDP2 shards each type by itself."""

    def __init__(self, shape, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape, dtype=dtype))

    def forward(self, x):
        return (x[:, : self.weight.shape[0]].to(self.weight.dtype) @ self.weight).abs().square().sum()


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList(Layer(*each) for each in KINDS[kind])

    def forward(self, x):
        return sum(layer(x) for layer in self.layers)


def is_ours(group):
    return isinstance(backend_of(group), sys.modules["switchml"].ProcessGroup)


def batch(group, step):
    generator = torch.Generator().manual_seed(100 * step + group.rank())
    return torch.randn(4, 16, generator=generator)


def train(model, optimizer, group, after_backward=lambda: None):
    for step in range(STEPS):
        optimizer.zero_grad()
        (model(batch(group, step)) / 100).backward()
        after_backward()
        optimizer.step()
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, foreach=False)


# ---- what trains; each returns the parameters ----


def ddp(kind, group, **options):
    model = DistributedDataParallel(Model(kind), process_group=group, bucket_cap_mb=SMALL_BUCKETS, **options)
    parameters = train(model, sgd(model), group)
    if TORCH >= (2, 13) and is_ours(group) and group.size() > 1:  # older ones do not ask for buckets
        assert sys.modules["switchml"].stats(group)["arena_bytes"] > 0, "no bucket is the group's"
    return parameters


def zero(kind, group):
    model = DistributedDataParallel(Model(kind), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.SGD, process_group=group, lr=0.05, foreach=False
    )
    return train(model, optimizer, group)


def fsdp2(kind, group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh, model = DeviceMesh.from_group(group, "cpu"), Model(kind)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
        if hasattr(layer, "set_allocate_memory_from_process_group_for_comm"):
            layer.set_allocate_memory_from_process_group_for_comm(is_ours(group))
    return train(model, sgd(model), group)


def coalesced(kind, group):
    model = Model(kind)
    ours = is_ours(group)

    def reduce_gradients():
        for dtype in {p.dtype: None for p in model.parameters()}:  # a coalesced call has one type
            together = c10d._coalescing_manager(group=group, device=torch.device("cpu"))
            with together if ours else contextlib.nullcontext():
                for p in model.parameters():
                    if p.dtype == dtype:
                        dist.all_reduce(p.grad, group=group)

    return train(model, sgd(model), group, reduce_gradients)


WAYS = {
    "ddp": ddp,
    "views": lambda kind, group: ddp(kind, group, gradient_as_bucket_view=True),
    "static": lambda kind, group: ddp(kind, group, static_graph=True),
    "zero": zero,
}
if TORCH >= (2, 8):
    WAYS["fsdp2"] = fsdp2  # runs on no CPU before, upstream
if TORCH >= (2, 1):
    WAYS["coalesced"] = coalesced


#: What PyTorch refuses whatever the backend.
REFUSED = {("zero", "mixed"), ("zero", "empty"), ("fsdp2", "empty")}


def rank_trains_all(group, theirs, ways=tuple(WAYS)):
    """Every way with every kind, over a group and Gloo's of the same ranks."""
    digests = []
    for name in ways:
        way = WAYS[name]
        for kind in KINDS:
            what = f"{name}, {kind} parameters"
            try:
                wanted = way(kind, theirs)
            except Exception:
                assert TORCH < (2, 13) or (name, kind) in REFUSED, what
                continue
            got = way(kind, group)
            for mine, gloos in zip(got, wanted):
                torch.testing.assert_close(mine, gloos, rtol=1e-4, atol=1e-5, msg=lambda text: f"{what}: {text}")
            digests.append((what, digest(*(torch.view_as_real(p) if p.is_complex() else p for p in got))))
    return digests


# ---- groups, in the ways that they can be made ----


def rank_of_world():
    return rank_trains_all(dist.group.WORLD, harness.gloo())


def rank_with_hooks():
    """A hook hears of no training, and once of an abort."""
    group, calls = dist.new_group(), []
    backend_of(group).register_abort_hook(5, lambda: calls.append(5))
    digests = rank_trains_all(group, harness.gloo())
    assert calls == []
    dist.barrier()
    backend_of(group).abort()
    assert calls == [5]
    dist.destroy_process_group(group)
    return digests


def rank_of_split():
    """Such a group is not registered where ZeRO and FSDP2 look for it."""
    first, shared = dist.get_rank() == 0, c10d._get_default_store()
    port = 0 if first else int(shared.get("port"))
    store = dist.TCPStore("127.0.0.1", port, 3, first, wait_for_workers=False)
    if first:
        shared.set("port", str(store.port))
    world, _ = group_over(dist.PrefixStore("world", store))
    half = world.split_group([0, 1] if world.rank() < 2 else [2], group_name=f"half {world.rank() // 2}")
    theirs = [dist.new_group(ranks, backend="gloo") for ranks in ([0, 1], [2])][world.rank() // 2]
    return rank_trains_all(half, theirs, ("ddp", "views", "static"))


def rank_of_shrunk():
    """FSDP2's mesh would look for the former ranks, with any backend."""
    if dist.get_rank() == 1:
        return None
    group = dist.shrink_group([1])
    return rank_trains_all(group, dist.new_group(backend="gloo"), [way for way in WAYS if way != "fsdp2"])


def rank_of_reconfigured():
    """The same ranks in the opposite order."""
    store, rank = c10d._get_default_store(), dist.get_rank()
    store.set(f"handle/{rank}", dist._get_reconfigure_handle())
    handles = [store.get(f"handle/{other}").decode() for other in range(dist.get_world_size())]
    dist._reconfigure(77, handles[::-1]).wait()
    group = c10d._get_default_group()
    assert dist.get_rank() == dist.get_world_size() - 1 - rank
    theirs = dist.ProcessGroup(store, dist.get_rank(), dist.get_world_size())
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), dist.get_rank(), dist.get_world_size())
    theirs._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    theirs._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    return rank_trains_all(group, theirs, ("ddp", "views", "static"))


@pytest.mark.parametrize("function", (rank_of_world, rank_with_hooks), ids=lambda each: each.__name__)
def test_training(function):
    first, *others = harness.pool(3, transport="shm").run(function)
    assert first and all(other == first for other in others), "ranks ended with different bits"


@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "split_group"), reason="this PyTorch splits NCCL's groups only")
def test_training_in_a_split_group():
    with harness.fresh_pool(3, environment={"SWITCHML_TRANSPORT": "shm"}) as own:
        first, second, _ = own.run(rank_of_split)
        assert first and first == second


@pytest.mark.skipif(not hasattr(dist, "shrink_group"), reason="this PyTorch shrinks no groups")
def test_training_in_a_shrunk_group():
    with harness.fresh_pool(3, environment={"SWITCHML_TRANSPORT": "shm"}) as own:
        first, _, second = own.run(rank_of_shrunk)
        assert first and first == second


@pytest.mark.skipif(not hasattr(dist, "_reconfigure"), reason="this PyTorch reconfigures no groups")
def test_training_in_a_reconfigured_group():
    with harness.fresh_pool(2, environment={"SWITCHML_TRANSPORT": "shm"}) as own:
        first, second = own.run(rank_of_reconfigured)
        assert first and first == second
