"""What a group does for PyTorch beside collectives: calls taken together, more time, hooks, a gather into one
tensor."""

import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import LONG, doomed_pool

c10d = dist.distributed_c10d
pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo has none of this")
CPU = torch.device("cpu")


def backend():
    group = c10d._get_default_group()
    return group._get_backend(CPU) if hasattr(group, "_get_backend") else group


# ---- calls taken together ----


def rank_coalesces(asynchronous):
    size = dist.get_world_size()
    tensors = [torch.full((i + 1,), float(i)) for i in range(5)]
    with c10d._coalescing_manager(device=CPU, async_ops=asynchronous) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    if asynchronous:
        manager.wait()
    return all(tensor.eq(i * size).all() for i, tensor in enumerate(tensors))


def rank_exchanges():
    """A ring, by messages that are taken together."""
    rank, size = dist.get_rank(), dist.get_world_size()
    received = torch.empty(3)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % size),
        dist.P2POp(dist.irecv, received, (rank - 1) % size),
    ])  # fmt: skip
    for work in works:
        work.wait()
    return received.eq((rank - 1) % size).all().item()


needs_coalescing = pytest.mark.skipif(harness.TORCH < (2, 1), reason="this PyTorch coalesces nothing")


@needs_coalescing
@pytest.mark.parametrize("asynchronous", (False, True), ids=("waited", "async"))
def test_collectives_are_coalesced_with_a_device(asynchronous):
    assert all(harness.pool(3).run(rank_coalesces, asynchronous))


def test_messages_are_coalesced():
    assert all(harness.pool(3).run(rank_exchanges))


# ---- more time ----


def rank_gets_more_time():
    """A call that waits longer for another rank than its group's timeout, and one after it."""
    if dist.get_rank() == 1:
        time.sleep(2.0)
        dist.all_reduce(torch.ones(3))
        return None
    set_timeout = getattr(backend(), "set_timeout", None) or backend()._set_default_timeout
    set_timeout(harness.seconds(0.3))
    c10d._add_ephemeral_timeout_for_all_pgs(harness.seconds(LONG))
    first = harness.caught(dist.all_reduce, torch.ones(3))
    second = harness.caught(dist.all_reduce, torch.ones(3))
    return first, second


@pytest.mark.skipif(not hasattr(c10d, "_add_ephemeral_timeout_for_all_pgs"), reason="this PyTorch extends no timeouts")
def test_more_time_is_for_the_calls_until_one_is_complete():
    with doomed_pool(2) as own:
        first, second = own.run(rank_gets_more_time)[0]
    assert first is None
    assert "timeout" in second


# ---- abort hooks ----


def rank_is_told(how):
    said = []
    ours = backend()
    ours.register_abort_hook(0, lambda: said.append(dist.get_rank()))
    ours.register_abort_hook(1, lambda: said.append("not any more"))
    ours.unregister_abort_hook(1)
    if how == "abort":
        ours.abort()
    else:
        assert harness.caught(dist.all_reduce, torch.ones(5 + dist.get_rank()))
    return said


@pytest.mark.parametrize("how", ("abort", "error"))
def test_hooks_are_called_before_a_group_is_aborted(how):
    with doomed_pool(2) as own:
        assert own.run(rank_is_told, how) == [[0], [1]]


def rank_waits_for_a_death():
    said = []
    backend().register_abort_hook(0, lambda: said.append("dead"))
    dist.barrier()
    harness.advance()
    end = time.monotonic() + LONG / 10
    while not said and time.monotonic() < end:
        time.sleep(0.01)
    return said


def test_hooks_are_called_when_a_rank_dies_though_nothing_is_called():
    with doomed_pool(3) as own:
        own.start(rank_waits_for_a_death)
        own.await_progress(1)
        own.kill(1)
        assert own.finish([0, 2]) == [["dead"]] * 2


# ---- gather into one tensor ----


def rank_gathers(root):
    rank, size = dist.get_rank(), dist.get_world_size()
    output = torch.empty(size, 2, 3) if rank == root else torch.empty(0)
    mine = torch.full((2, 3), float(rank))
    options = torch._C._distributed_c10d.GatherOptions()
    options.rootRank = root
    backend().gather_single(output, mine, options).wait()
    if hasattr(dist, "gather_single"):
        again = torch.empty(size * 6) if rank == root else None
        dist.gather_single(mine, again, dst=root)
        assert rank != root or again.view(size, 2, 3).equal(output)
    return output[:, 1, 2].tolist() if rank == root else None


def test_a_gather_goes_into_one_tensor():
    assert harness.pool(3).run(rank_gathers, 1) == [None, [0.0, 1.0, 2.0], None]
