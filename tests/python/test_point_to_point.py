"""send, recv, recv from any rank, and batches of them."""

import itertools

import pytest
import torch
import torch.distributed as dist

import harness
from oracle import check_equal, values


def rank_ring(count):
    size, rank = dist.get_world_size(), dist.get_rank()
    received = torch.zeros(count)
    sending = dist.isend(values((count,), torch.float32, rank), (rank + 1) % size)
    source = (rank - 1) % size
    dist.irecv(received, source).wait()
    sending.wait()
    check_equal(received, values((count,), torch.float32, source), "isend and irecv in a ring")


@pytest.mark.parametrize("count", (1, 4000, 300000))
def test_ring(world, count):
    harness.pool(world).run(rank_ring, count)


def rank_any_source():
    size, rank = dist.get_world_size(), dist.get_rank()
    if rank:
        dist.send(torch.full((4,), float(rank)), 0)
        return
    seen = set()
    for _ in range(1, size):
        buffer = torch.zeros(4)
        source = dist.recv(buffer)
        assert buffer.tolist() == [float(source)] * 4
        seen.add(source)
    assert seen == set(range(1, size)), seen


def rank_tags():
    size, rank = dist.get_world_size(), dist.get_rank()
    if rank:
        works = [dist.isend(torch.full((4,), 10.0 * tag + rank), 0, tag=tag) for tag in (1, 2)]
        for work in works:
            work.wait()
        return
    for source, tag in itertools.product(range(1, size), (2, 1)):
        buffer = torch.zeros(4)
        dist.recv(buffer, source, tag=tag)
        assert buffer.tolist() == [10.0 * tag + source] * 4


@pytest.mark.parametrize("function", (rank_any_source, rank_tags), ids=lambda f: f.__name__[5:])
def test_point_to_point(world, function):
    harness.pool(world).run(function)


def rank_first_operation():
    """Sending is the first thing that ranks 1 and 3 do with the group; 0 and 2 do nothing until all meet."""
    rank = dist.get_rank()
    if rank == 1:
        dist.send(torch.arange(10.0), 3)
    elif rank == 3:
        buffer = torch.zeros(10)
        assert dist.recv(buffer, 1) == 1
        check_equal(buffer, torch.arange(10.0), "the first operation")
    total = torch.ones(5)
    dist.all_reduce(total)
    assert total.tolist() == [4.0] * 5


def test_a_send_between_two_of_four_may_come_first():
    with harness.fresh_pool(4, with_gloo=False) as own:
        own.run(rank_first_operation)
        own.close()


def rank_batch():
    size, rank = dist.get_world_size(), dist.get_rank()
    arrived = torch.zeros(50)
    batch = [
        dist.P2POp(dist.isend, torch.full((50,), float(rank)), (rank + 1) % size),
        dist.P2POp(dist.irecv, arrived, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert arrived.tolist() == [float((rank - 1) % size)] * 50


def test_batch_isend_irecv(world):
    harness.pool(world).run(rank_batch)


def rank_profiles_messages():
    """The names in a profile of two messages and one from anyone, with how often and with which shapes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        for source in (1, 1, None):
            tensor = torch.zeros(5, 2)
            if dist.get_rank():
                dist.send(tensor, 0)
            else:
                dist.recv(tensor, source)
    backends = ("switchml:", "gloo:")
    return sorted((event.name, event.input_shapes) for event in profile.events() if event.name.startswith(backends))


def test_a_profile_shows_messages_by_this_backends_name():
    received, sent = harness.pool(2).run(rank_profiles_messages)
    assert received == [("switchml:recv", [[5, 2]])] * 2 + [("switchml:recv_any_source", [[5, 2]])]
    assert sent == [("switchml:send", [[5, 2]])] * 3
