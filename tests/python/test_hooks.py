"""DDP hooks that send gradients in 8 or 16 bits: their results against what docs/operations.md says, computed in one
process with PyTorch's own conversions, to the bit."""

import datetime
import io
import os
import pickle
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn

import harness
import test_training as trainings
from harness import TORCH
from documented import ROOT
from oracle import digest, rounded_sum, values

pytestmark = [
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="are of switchml"),
    pytest.mark.skipif(TORCH < (2, 1), reason="this PyTorch does not convert to float8"),
]
WORLDS = (2, 3)
HOOKS = ("bf16", "fp8", "int8")
SIZES = ((1,), (100, 27), (5000,))  # of the gradients of each bucket


class Bucket:
    """What a hook sees of DDP's."""

    def __init__(self, index, gradients, last=False):
        self._index, self._last, self._buffer = index, last, torch.cat(gradients)
        self._gradients = self._buffer.split([each.numel() for each in gradients])

    def index(self):
        return self._index

    def buffer(self):
        return self._buffer

    def gradients(self):
        return list(self._gradients)

    def is_last(self):
        return self._last


def gradients_of(rank, step, index):
    return [values((size,), torch.float32, rank, seed=100 * step + 10 * index + at) for at, size in enumerate(SIZES[index])]  # fmt: skip


# ---- the oracle ----


def narrowed(x, hook):
    """What the terms of float32 elements mean; whole blocks."""
    if hook == "bf16":
        return x.to(torch.bfloat16).float()
    blocks, limit = x.double().reshape(-1, 64), {"fp8": 448, "int8": 127}[hook]
    mantissa, exponent = torch.frexp(blocks.abs().amax(1, keepdim=True) / limit)
    scale = torch.exp2(torch.where(mantissa > 0.5, exponent, exponent - 1).double().clamp(min=-127))
    units = blocks / scale
    rounded = torch.round(units).to(torch.int8) if hook == "int8" else units.float().to(torch.float8_e4m3fn)
    return (rounded.double() * scale).float().reshape(-1)


class Oracle:
    """All ranks' hooks in one process."""

    def __init__(self, hook, ranks):
        self.hook, self.ranks = hook, ranks
        self.errors, self.part_errors = {}, {}

    def step(self, index, gradients, first=False):
        """The bucket that all ranks get. first: of a state, which neither adds errors nor keeps any."""
        size = gradients[0].numel()
        part = -(-size // self.ranks)
        part = part if self.hook == "bf16" else -(-part // 64) * 64
        whole = part * self.ranks
        kept, part_kept = ({}, {}) if first else (self.errors, self.part_errors)
        errors = kept.get(index, torch.zeros(self.ranks, whole))
        sums = torch.stack([nn.functional.pad(each, (0, whole - size)) for each in gradients]) + errors
        terms = torch.stack([narrowed(each, self.hook) for each in sums])
        kept[index] = sums - terms
        mean = rounded_sum(list(terms), self.ranks, torch.float32) + part_kept.get(index, torch.zeros(whole))
        answer = narrowed(mean, self.hook)
        part_kept[index] = mean - answer
        return answer[:size]


# ---- on the ranks ----


def hooks():
    import switchml.hooks

    return switchml.hooks


def run_step(state, hook, gradients):
    """Buckets' results; all are on their way at once. gradients: [list of a bucket's]"""
    futures = [
        getattr(hooks(), hook)(state, Bucket(index, each, index == len(gradients) - 1))
        for index, each in enumerate(gradients)
    ]
    return [future.wait() for future in futures]


def rank_equals_the_oracle(hook):
    """With the state saved and restored in the middle."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    state, oracle = hooks().State(), Oracle(hook, ranks)
    for step in range(6):
        every = [[gradients_of(each, step, index) for index in range(len(SIZES))] for each in range(ranks)]
        for index, found in enumerate(run_step(state, hook, every[rank])):
            wanted = oracle.step(index, [torch.cat(of_rank[index]) for of_rank in every], first=step in (0, 3))
            assert found.view(torch.int32).equal(wanted.view(torch.int32)), f"step {step}, bucket {index}"
        if step == 2:
            groups = state.gather_group
            state = pickle.loads(pickle.dumps(state))
            assert state.process_group is None and state.gather_group is None
            state.gather_group = groups
    for index, errors in state._errors.items():
        assert errors.bucket.equal(oracle.errors[index][rank][: errors.bucket.numel()])
        part = errors.part.numel()
        assert errors.part.equal(oracle.part_errors[index][rank * part : (rank + 1) * part])
    assert any(errors.bucket.any() for errors in state._errors.values()), "nothing was rounded"


@pytest.mark.parametrize("transport", ("udp", "auto"))
@pytest.mark.parametrize("hook", HOOKS)
def test_steps_are_those_of_the_oracle(world, hook, transport):
    harness.pool(world, transport=transport).run(rank_equals_the_oracle, hook)


def rank_exact_mean(hook):
    """Integers up to 16 have no more than 4 bits, nor have their means here."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    every = [torch.randint(-5, 6, (1000,), generator=torch.Generator().manual_seed(r)) * ranks for r in range(ranks)]
    (found,) = run_step(hooks().State(), hook, [[every[rank].float()]])
    assert found.equal(sum(every).float() / ranks)


@pytest.mark.parametrize("hook", HOOKS)
def test_what_needs_no_rounding_is_exact(world, hook):
    harness.pool(world).run(rank_exact_mean, hook)


def rank_alone(hook):
    own = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    state, oracle = hooks().State(own), Oracle(hook, 1)
    for step in range(3):
        gradients = gradients_of(dist.get_rank(), step, 1)
        (found,) = run_step(state, hook, [gradients])
        assert found.equal(oracle.step(0, [torch.cat(gradients)], first=step == 0))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_group_of_one_rounds_as_well(hook):
    harness.pool(2).run(rank_alone, hook)


def rank_nonfinite(hook, bad):
    rank = dist.get_rank()
    state, answers = hooks().State(), []
    for step in range(3):
        gradients = gradients_of(rank, step, 1)
        if (step, rank) == (1, 1):
            gradients[0][7] = bad
        (found,) = run_step(state, hook, [gradients])
        assert bool(found.isfinite().all()) == (step != 1)
        assert not found[7].isfinite() or step != 1
        assert all(errors.bucket.isfinite().all() and errors.part.isfinite().all() for errors in state._errors.values())
        answers.append(digest(found))
    return answers


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("bad", (float("nan"), float("inf"), float("-inf")))
def test_what_is_not_finite_reaches_all_and_leaves_no_error(hook, bad):
    answers = harness.pool(2).run(rank_nonfinite, hook, bad)
    assert answers[0] == answers[1]


# ---- a state's life ----


def rank_other_buckets():
    """After DDP's first step buckets are others; a restored state sees the first ones once more."""
    state = hooks().State()
    whole = values((90,), torch.float32, 0)
    first, second = [whole], list(whole.split((60, 30)))
    run_step(state, "int8", [first])
    assert not state._errors
    run_step(state, "int8", [second])
    kept = state._errors[0]
    assert kept.sizes == (60, 30)
    again = pickle.loads(pickle.dumps(state))
    again.gather_group = state.gather_group
    run_step(again, "int8", [first])
    assert again._errors[0].bucket.equal(kept.bucket) and again._errors[0].part.equal(kept.part)
    run_step(again, "int8", [second])
    run_step(state, "int8", [second])
    assert again._errors[0].bucket.equal(state._errors[0].bucket)
    run_step(again, "int8", [first])
    assert again._errors[0].sizes == (90,)


def rank_other_order(hook):
    """Of two gradients of one size, one of which is much larger, in the step in which a state is restored too."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    every = [[values((64,), torch.float32, each) * 1000, values((64,), torch.float32, each)] for each in range(ranks)]
    state, oracle = hooks().State(), Oracle(hook, ranks)
    for step in range(4):
        first = step in (0, 2)
        ordered = [of_rank[::-1] if first else of_rank for of_rank in every]
        (found,) = run_step(state, hook, [ordered[rank]])
        assert found.equal(oracle.step(0, [torch.cat(each) for each in ordered], first)), f"step {step}"
        if step == 1:
            group, state = state.gather_group, pickle.loads(pickle.dumps(state))
            state.gather_group = group


@pytest.mark.parametrize("hook", HOOKS)
def test_errors_stay_with_their_gradients_in_buckets_of_another_order(hook):
    harness.pool(2).run(rank_other_order, hook)


def test_errors_are_of_the_buckets_that_stay():
    harness.pool(2).run(rank_other_buckets)


def rank_saved():
    """As a checkpoint has it."""
    state = hooks().State()
    for step in range(2):
        run_step(state, "fp8", [gradients_of(dist.get_rank(), step, 1)])
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert again._errors[0].bucket.equal(state._errors[0].bucket) and again._errors[0].bucket.any()


def test_a_state_is_saved_as_others_are():
    harness.pool(2).run(rank_saved)


def rank_refusals():
    state = hooks().State()
    double = Bucket(0, [torch.arange(6.0, dtype=torch.float64) + dist.get_rank()], last=True)
    assert hooks().fp8(state, double).wait().equal(torch.arange(6.0, dtype=torch.float64) + 0.5)
    assert state._steps == 1
    return harness.caught(hooks().fp8, None, double)


def test_other_types_are_averaged_as_they_are():
    (message, _) = harness.pool(2).run(rank_refusals)
    assert message == "TypeError: switchml.hooks: the hook's state is a NoneType; allowed: switchml.hooks.State"


def rank_left_alone(destroys):
    """Rank 1 never calls the hook."""
    state = hooks().State(gather_group=dist.new_group())
    if dist.get_rank() == 1:
        harness.advance()
        return None
    futures = [hooks().bf16(state, Bucket(index, [torch.ones(300)])) for index in range(3)]
    harness.advance()
    if destroys:
        dist.destroy_process_group()
    messages = [harness.caught(future.wait) for future in futures]
    return [*messages, harness.caught(hooks().bf16, state, Bucket(0, [torch.ones(300)]))]


@pytest.mark.parametrize("transport", ("udp", "auto"))
def test_a_lost_rank_is_an_error_of_all_buckets(transport):
    with harness.fresh_pool(2, with_gloo=False, environment={"SWITCHML_TRANSPORT": transport}) as own:
        own.start(rank_left_alone, False)
        own.await_progress()
        own.kill(1)
        (messages,) = own.finish(ranks=[0])
    assert all("rank 1" in message for message in messages[:3]), messages


def test_a_destroyed_group_is_an_error_of_all_buckets():
    with harness.fresh_pool(2, with_gloo=False) as own:
        own.start(rank_left_alone, True)
        (messages,) = own.finish(ranks=[0])
    assert all(message is not None for message in messages), messages


def rank_defaults(hook):
    """Those of new tensors, which a program may have set, are not of what a state keeps."""
    state, oracle = hooks().State(), Oracle(hook, dist.get_world_size())
    for step in range(2):
        every = [gradients_of(rank, step, 1) for rank in range(dist.get_world_size())]
        wanted = oracle.step(0, [torch.cat(of_rank) for of_rank in every], first=step == 0)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        try:
            (found,) = run_step(state, hook, [every[dist.get_rank()]])
        finally:
            torch.set_default_device(None)
            torch.set_default_dtype(torch.float32)
        assert found.equal(wanted)


@pytest.mark.parametrize("hook", HOOKS)
def test_defaults_of_new_tensors_do_not_matter(hook):
    harness.pool(2).run(rank_defaults, hook)


def rank_timeout():
    state = hooks().State(dist.new_group(timeout=datetime.timedelta(seconds=77)))
    run_step(state, "bf16", [[torch.ones(300)]])
    return hooks()._timeout_of(state.gather_group)


def test_the_gather_group_has_the_timeout_of_the_other():
    for found in harness.pool(2).run(rank_timeout):
        assert found == {"timeout": datetime.timedelta(seconds=77)}


# ---- under DDP ----


def hooked(hook, **options):
    model = trainings.wrap(None, **options)
    model.register_comm_hook(hooks().State(), getattr(hooks(), hook))
    return model


def accumulation(model):
    optimizer = trainings.sgd(model)
    for step in range(3):
        for place in range(2):
            x, y = trainings.batch(dist.get_rank(), 2 * step + place)
            with model.no_sync() if place == 0 else torch.enable_grad():
                nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach() for p in model.parameters()]


def train(model, branch=lambda step: "both"):
    return trainings.train(model, trainings.sgd(model), branch=branch)


def unused(model):
    return train(model, lambda step: ("left", "right", "both")[(step + dist.get_rank()) % 3])


def join(model):
    """Rank r makes r steps more than rank 0, whose gradients are zeros then."""
    with model.join():
        return trainings.train(model, trainings.sgd(model), steps=trainings.STEPS + dist.get_rank())


WAYS = {
    "plain": ({}, train),
    "bucket view": ({"gradient_as_bucket_view": True}, train),
    "unused": ({"find_unused_parameters": True}, unused),
    "static graph": ({"static_graph": True}, lambda model: train(model, lambda step: "left")),
    "accumulation": ({}, accumulation),
    "join": ({"broadcast_buffers": False}, join),
}
TOLERANCE = {"bf16": 0.02, "fp8": 0.1, "int8": 0.1}


def rank_trains(way, hook):
    options, run = WAYS[way]
    found, plain = run(hooked(hook, **options)), run(trainings.wrap(None, **options))
    for ours, wanted in zip(found, plain):
        torch.testing.assert_close(ours, wanted, rtol=TOLERANCE[hook], atol=TOLERANCE[hook])
    assert digest(*found) != digest(*plain), "the hook has changed nothing"
    return digest(*found)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way, hook", [("plain", "bf16"), ("plain", "int8"), *((way, "fp8") for way in WAYS)])
def test_training(world, way, hook):
    assert len(set(harness.pool(world).run(rank_trains, way, hook))) == 1


@pytest.mark.through_switch
@pytest.mark.parametrize("transport", ("udp", "tcp"))
def test_training_under_loss(transport):
    """With the bits of a run without."""
    faults = "seed=5,send_loss=0.02,receive_loss=0.02,duplicate=0.02"
    environment = {"SWITCHML_TRANSPORT": transport, "SWITCHML_FAULTS": faults}
    with harness.fresh_pool(3, with_gloo=False, environment=environment) as own:
        lossy = own.run(rank_trains, "plain", "fp8")
    assert set(lossy) == set(harness.pool(3).run(rank_trains, "plain", "fp8"))


def test_the_example_says_what_it_saves():
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port"]
    script = f"{ROOT}/examples/ddp_with_narrow_gradients.py"
    command += [str(harness.free_port()), script]
    environment = os.environ | {"SWITCHML_TRANSPORT": "tcp"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(\w+): loss ([\d.]+), \d+ bytes sent, ([\d.]+) of float32's$", done.stdout, re.MULTILINE)
    (exact, exact_loss, _), (hook, loss, ratio) = lines
    assert (exact, hook) == ("float32", "fp8") and float(ratio) < 0.42, done.stdout
    assert abs(float(loss) - float(exact_loss)) < 0.005, done.stdout
