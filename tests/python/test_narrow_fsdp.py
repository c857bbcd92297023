"""FSDP2's reduce-scatter in 8 or 16 bits, against the same oracle as the hooks of DDP."""

import pickle

import pytest
import torch
import torch.distributed as dist
from torch import nn

import harness
from harness import TORCH
from oracle import digest, rounded_sum, values
from test_hooks import HOOKS, narrowed

pytestmark = [
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="is of switchml"),
    pytest.mark.skipif(TORCH < (2, 9), reason="this PyTorch's FSDP2 takes no reduce-scatter of others"),
]
WORLDS = (2, 3)
PART = 150  # elements of a rank: not whole blocks


def parts_of(tensor, hook, size=PART):
    """What the terms of a tensor mean, each rank's part in blocks of its own."""
    if hook == "bf16":
        return narrowed(tensor, hook)
    padded = [nn.functional.pad(part, (0, -size % 64)) for part in tensor.split(size)]
    return torch.cat([narrowed(part, hook)[:size] for part in padded])


def rank_equals_the_oracle(hook, operation):
    from switchml import fsdp

    rank, ranks = dist.get_rank(), dist.get_world_size()
    ours = fsdp.ReduceScatter(hook)
    errors = torch.zeros(ranks, PART * ranks)
    for step in range(4):
        gradients = torch.stack([values((PART * ranks,), torch.float32, each, seed=step) for each in range(ranks)])
        sums = gradients + errors
        terms = torch.stack([parts_of(each, hook) for each in sums])
        errors = sums - terms
        wanted = rounded_sum(list(terms), ranks if operation == "AVG" else 1, torch.float32)
        found = ours.allocate((PART,), dtype=torch.float32, device=torch.device("cpu"))
        work = ours(found, gradients[rank].clone(), dist.group.WORLD, getattr(dist.ReduceOp, operation), step % 2 == 1)
        if work is not None:
            work.wait()
        assert found.equal(wanted[rank * PART : (rank + 1) * PART]), f"step {step}"
        ours = pickle.loads(pickle.dumps(ours))
    assert ours._errors.equal(errors[rank])


@pytest.mark.parametrize("transport", ("udp", "auto"))
@pytest.mark.parametrize("operation", ("SUM", "AVG"))
@pytest.mark.parametrize("hook", HOOKS)
def test_steps_are_those_of_the_oracle(world, hook, operation, transport):
    harness.pool(world, transport=transport).run(rank_equals_the_oracle, hook, operation)


def trained(form):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from switchml import fsdp

    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    if form is not None:
        fsdp.narrow_gradients(model, form)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
        model(torch.randn(4, 16, generator=generator)).square().mean().backward()
        optimizer.step()
    return [parameter.full_tensor().detach() for parameter in model.parameters()]


def rank_trains(form):
    found, plain = trained(form), trained(None)
    for ours, wanted in zip(found, plain):
        torch.testing.assert_close(ours, wanted, rtol=0.05, atol=0.01)
    assert digest(*found) != digest(*plain), "nothing was narrowed"
    return digest(*found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", HOOKS)
def test_training(world, form):
    assert len(set(harness.pool(world).run(rank_trains, form))) == 1


def rank_other_parameters(form):
    """`a` has gradients in the first step, `b` in the others."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from switchml import fsdp

    class Either(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(64))

        def forward(self, chosen, factors):
            return (getattr(self, chosen) * factors).sum()

    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    model = fully_shard(nn.Sequential(fully_shard(Either(), mesh=mesh)), mesh=mesh)[0]
    comms = fsdp.narrow_gradients(model, form)
    assert list(comms) == [""] and isinstance(comms[""], fsdp.ReduceScatter)
    errors = torch.zeros(ranks, 64)
    for step, chosen in enumerate("abba"):
        size = 1000 if chosen == "a" else 1
        gradients = torch.stack([values((64,), torch.float32, each, seed=step) * size for each in range(ranks)])
        sums = gradients + errors if step == 2 else gradients
        terms = torch.stack([parts_of(each, form, 32) for each in sums])
        errors = sums - terms
        model.zero_grad()
        model(chosen, gradients[rank]).backward()
        wanted = rounded_sum(list(terms), ranks, torch.float32)
        assert getattr(model, chosen).grad.to_local().equal(wanted.split(32)[rank]), f"step {step}"
    assert comms[""]._errors.equal(errors[rank]) and errors.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", HOOKS)
def test_errors_are_of_the_parameters_that_have_gradients(form):
    harness.pool(2).run(rank_other_parameters, form)


def rank_defaults():
    from switchml import fsdp

    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        ours, part = fsdp.ReduceScatter("fp8"), torch.empty(4, dtype=torch.float32, device="cpu")
        ours(part, torch.ones(8, dtype=torch.float32, device="cpu"), dist.group.WORLD, dist.ReduceOp.SUM)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert part.eq(2).all()


def test_defaults_of_new_tensors_do_not_matter():
    harness.pool(2).run(rank_defaults)


def rank_factor(forced):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from switchml import fsdp

    model = fully_shard(nn.Linear(8, 8), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    fsdp.narrow_gradients(model, "bf16")
    model.set_gradient_divide_factor(4.0)
    if forced:
        model.set_force_sum_reduction_for_comms(True)
    said = harness.caught(model(torch.ones(1, 8)).sum().backward)
    return said if said else model.bias.grad.full_tensor().tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_divide_factor_needs_sums():
    with harness.fresh_pool(2, with_gloo=False) as own:
        for said in own.run(rank_factor, False):
            assert "the operation is ReduceOp.PREMUL_SUM" in said, said
            assert "set_force_sum_reduction_for_comms(True)" in said, said
    for found in harness.pool(2).run(rank_factor, True):
        assert found == [0.5] * 8


def rank_refusals():
    from switchml import fsdp

    ours, half = fsdp.ReduceScatter("fp8"), torch.zeros(4, dtype=torch.bfloat16)
    return [
        harness.caught(fsdp.ReduceScatter, "fp4"),
        harness.caught(ours, half[:2], half, dist.group.WORLD, dist.ReduceOp.AVG),
    ]


def test_refusals():
    name, dtype = harness.pool(2).run(rank_refusals)[0]
    assert name == "ValueError: switchml.fsdp: no format is named 'fp4'; allowed: bf16, fp8, int8"
    assert "gradients are torch.bfloat16 on cpu; allowed: torch.float32 on cpu" in dtype
