"""Tensors in memory that the ranks of a host share (switchml.empty, DDP's buckets): collectives read and write them
where they are."""

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist

import harness
from failing import check_all, check_death, doomed_pool, rank_warm_up, timed
from oracle import digest, values

pytestmark = pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo knows nothing of this")

MEMORY = {"SWITCHML_TRANSPORT": "shm", "SWITCHML_ARENA": "256"}
GAVE_UP = 10**6  # steps
SIZES = (1, 1000, 32769, 300001)


def in_place():
    import switchml

    return switchml.stats()["bytes_written_in_place"]


def used():
    import switchml

    return switchml.stats()["arena_bytes"]


def rank_results(share):
    """Digest of what calls of all kinds give; `share` says of each tensor whether it is allocated for all ranks."""
    import switchml

    rank, size = dist.get_rank(), dist.get_world_size()

    def tensor(shape, kind, number):
        return (switchml.empty if share(rank, number) else torch.empty)(shape, dtype=kind)

    results = []
    for number, kind in enumerate((torch.float32, torch.bfloat16, torch.float64, torch.int64)):
        for count in SIZES:
            mine = tensor(count, kind, number).copy_(values((count,), kind, rank, number))
            wide = tensor(size * count, kind, number + 1).copy_(values((size * count,), kind, rank, number))
            part, all_of_them = tensor(count, kind, number + 2), tensor(size * count, kind, number + 3)
            dist.all_gather_into_tensor(all_of_them, mine)
            dist.reduce_scatter_tensor(part, wide)
            dist.all_reduce(mine)
            dist.broadcast(part, number % size)
            dist.all_reduce(wide[1:], op=dist.ReduceOp.MAX)  # no whole lines
            mixed = torch.empty_like(all_of_them)
            dist.all_to_all_single(mixed, wide)
            dist.all_gather_into_tensor(wide, wide[rank * count : (rank + 1) * count])
            results += [mine.clone(), wide.clone(), part.clone(), all_of_them.clone(), mixed]
    return digest(*results), in_place()


def nowhere(_, __):
    return False


def everywhere(_, __):
    return True


def here_and_there(rank, number):
    return (rank + number) % 2 == 0


@pytest.mark.parametrize("size", (2, 3, 5))
def test_results_are_those_of_other_tensors(size):
    if harness.TORCH < (2, 0):
        pytest.skip("no reduce_scatter_tensor")
    with harness.fresh_pool(size, environment=MEMORY, with_gloo=False) as own:
        ordinary = own.run(rank_results, nowhere)
        assert all(written == 0 for _, written in ordinary)
        for share in (everywhere, here_and_there):
            outcomes = own.run(rank_results, share)
            assert [found for found, _ in outcomes] == [found for found, _ in ordinary]
            assert all(written > 0 for _, written in outcomes)


def rank_allocates(most):
    """Tensors as of torch.empty; more than there is room for are ordinary ones."""
    import switchml

    before = used()
    tensors = [
        switchml.empty(2, 3),
        switchml.empty((4,), dtype=torch.int8),
        switchml.empty(torch.Size((0, 5))),
        switchml.empty(),
    ]
    assert [tuple(each.shape) for each in tensors] == [(2, 3), (4,), (0, 5), ()]
    assert [each.dtype for each in tensors] == [torch.float32, torch.int8, torch.float32, torch.float32]
    assert all(each.is_contiguous() for each in tensors)
    assert used() > before
    ordinary = switchml.empty(most // 4 + 1)
    assert used() - before < 2**16 and ordinary.fill_(2).sum() == 2.0 * ordinary.numel()
    tensors[0].requires_grad_().sum().backward()
    del tensors
    assert used() == before
    tensor = switchml.empty(100)
    tensor.untyped_storage().resize_(0)
    assert used() == before
    tensor.untyped_storage().resize_(400)
    assert used() > before and tensor.fill_(1).sum() == 100.0
    del tensor
    for wrong in (-1, "three", 1.5):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            switchml.empty(wrong)
    with pytest.raises(ValueError, match="switchml.empty: the group's backend is not switchml"):
        switchml.empty(1, group=harness.gloo())
    return switchml.stats()["arena_limit_bytes"]


def test_there_are_so_many_bytes(world):
    if harness.TORCH < (2, 0):
        pytest.skip("Gloo's tensors cannot be told")
    with harness.fresh_pool(world, environment={**MEMORY, "SWITCHML_ARENA": "1"}) as own:
        assert own.run(rank_allocates, 2**20) == [2**20] * world


def rank_has_none():
    import switchml

    tensor = switchml.empty(100000).fill_(1)
    dist.all_reduce(tensor)
    assert tensor.eq(dist.get_world_size()).all()
    return switchml.stats()["arena_limit_bytes"], in_place()


@pytest.mark.parametrize(
    "environment", ({"SWITCHML_TRANSPORT": "shm", "SWITCHML_ARENA": "0"}, {"SWITCHML_TRANSPORT": "udp"})
)
def test_without_it_tensors_are_ordinary(environment):
    with harness.fresh_pool(2, environment=environment, with_gloo=False) as own:
        assert own.run(rank_has_none) == [(0, 0)] * 2


def rank_trains(seed):
    """Digest of the gradients of a model behind DDP, and bytes written in place meanwhile."""
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(300, 300) for _ in range(6)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=1, gradient_as_bucket_view=True
    )
    before = in_place()
    for step in range(3):
        model(values((8, 300), torch.float32, dist.get_rank(), step)).square().mean().backward()
    return digest(*[each.grad for each in model.parameters()]), in_place() - before, used()


def test_buckets_of_ddp_are_reduced_where_they_are():
    found = {}
    for arena in ("256", "0"):
        with harness.fresh_pool(2, environment={**MEMORY, "SWITCHML_ARENA": arena}, with_gloo=False) as own:
            outcomes = own.run(rank_trains, 3)
        assert len({gradients for gradients, _, _ in outcomes}) == 1
        found[arena] = outcomes[0]
    assert found["256"][0] == found["0"][0], "the same bits"
    assert found["0"][1:] == (0, 0)
    if harness.TORCH >= (2, 13):  # older ones do not ask for buckets
        assert found["256"][1] > 3 * 4 * 6 * 300 * 300 * 0.9 and found["256"][2] > 0


def rank_forks():
    """A loader has the tensors, does what it likes, and ends; nothing of that concerns its parent's allocations."""
    import switchml

    tensor = switchml.empty(100000).fill_(3)
    before = used()
    if (child := os.fork()) == 0:
        other = switchml.empty(10)  # an ordinary one
        good = bool(tensor.eq(3).all()) and other.fill_(1).sum() == 10
        del tensor, other
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert used() == before
    dist.all_reduce(tensor)
    assert tensor.eq(3 * dist.get_world_size()).all()
    again = switchml.empty(100000)
    assert again.data_ptr() != tensor.data_ptr()


def test_forked_loaders():
    with harness.fresh_pool(2, environment=MEMORY, with_gloo=False) as own:
        own.run(rank_forks)


def rank_outlives():
    import switchml

    tensor = switchml.empty(1000).fill_(dist.get_rank())
    view = tensor[10:20]
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    del tensor
    assert view.eq(sum(range(2))).all()
    view.fill_(7)
    return float(view.sum())


def test_tensors_outlive_their_group():
    with harness.fresh_pool(2, environment=MEMORY, with_gloo=False) as own:
        assert own.run(rank_outlives) == [70.0, 70.0]


def rank_sums_in_place(elements, watch=0.0):
    """Sums of one tensor until one fails: its error, and how long it took. The tensor can be used then, and nobody else
    writes to it for so many seconds."""
    import switchml

    tensor, message = switchml.empty(elements), None
    while message is None:
        tensor.fill_(1)
        message, took = timed(dist.all_reduce, tensor)
        harness.advance()
    tensor.fill_(5)
    harness.advance(GAVE_UP)
    end = time.monotonic() + watch
    while True:
        assert tensor.eq(5).all(), "somebody has written to it"
        if time.monotonic() >= end:
            return message, took


@pytest.mark.parametrize("victim", (0, 2))
def test_a_rank_that_is_killed_leaves_the_tensors_of_others(victim):
    with doomed_pool(3, environment=MEMORY) as own:
        own.run(rank_warm_up)
        own.start(rank_sums_in_place, elements=4_000_000)
        check_death(own, victim)


def test_a_rank_that_stops_writes_nothing_afterwards():
    with doomed_pool(3, environment=MEMORY, group_timeout=6.0) as own:
        own.run(rank_warm_up)
        own.start(rank_sums_in_place, elements=4_000_000, watch=2.0)
        own.await_progress(2)
        own.kill(1, signal.SIGSTOP)
        own.await_progress(GAVE_UP, ranks=[0, 2])
        own.kill(1, signal.SIGCONT)
        check_all(own.finish([0, 1, 2]), ("gave up", "timeout", "is gone"))
