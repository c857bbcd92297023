"""What tests of failures share: groups with a short timeout, and checks of what each rank raised and when."""

import contextlib
import threading
import time

import torch
import torch.distributed as dist

import harness
from harness import fresh_pool
from oracle import check_reduction, values

TIMEOUT = 4.0  # seconds that groups of these tests allow
IN_TIME = 3 * TIMEOUT  # and by when an exception must have come, on a busy machine
FALLBACK = {"SWITCHML_ON_SWITCH_FAILURE": "fallback"}


def timed(function, *args, **kwargs):
    """(text of the exception or None, seconds it took)"""
    started = time.monotonic()
    return harness.caught(function, *args, **kwargs), time.monotonic() - started


def check_all(outcomes, *texts):
    """Every rank raised in time, and every message holds every text (an alternative of texts, where a tuple)."""
    for rank, (message, took) in enumerate(outcomes):
        assert message, f"rank {rank} saw no error; all: {outcomes}"
        assert took < IN_TIME, f"rank {rank} took {took:.1f} s to say: {message}"
        for text in texts:
            choices = text if isinstance(text, tuple) else (text,)
            said = any(choice.lower() in message.lower() for choice in choices)
            assert said, f"rank {rank} says nothing of {text!r}: {message}"


@contextlib.contextmanager
def doomed_pool(size, **kwargs):
    with fresh_pool(size, with_gloo=False, **{"group_timeout": TIMEOUT, **kwargs}) as own:
        yield own


def rank_warm_up():
    total = torch.ones(1000)
    dist.all_reduce(total)
    assert total.eq(dist.get_world_size()).all()


def rank_sums_until(without, seed):
    """Sums until every rank is without the switch, or has one; how many there were."""
    import switchml

    for step in range(100000):
        inputs = [values((50000 + step % 7,), torch.float32, rank, seed + step) for rank in range(dist.get_world_size())]
        mine = inputs[dist.get_rank()].clone()
        dist.all_reduce(mine)
        check_reduction(mine, inputs, "SUM")
        seen = torch.tensor([int(switchml.stats()["without_switch"] == without)])
        dist.all_reduce(seen)
        if int(seen) == dist.get_world_size():
            return step
    raise AssertionError(f"without_switch never became {without} on all ranks")


def aborted_during(function, *args, **kwargs):
    """What `function` raises when another thread aborts the group half a second later, and after how long; None where this
    PyTorch cannot abort a group from Python."""
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
    if not hasattr(backend, "abort"):
        return None
    timer = threading.Timer(0.5, backend.abort)
    timer.start()
    outcome = timed(function, *args, **kwargs)
    timer.join()
    return outcome
