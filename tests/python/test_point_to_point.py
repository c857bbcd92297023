"""send, recv, recv from any rank, and batches of them: between hosts, and in memory."""

import itertools
import os
import random
import threading

import pytest
import torch
import torch.distributed as dist

import harness
from cases import name_of
from oracle import check_equal, values

EITHER_SIZE = pytest.mark.parametrize("size", (2, 3))  # with two, "from any rank" is from the other


@pytest.fixture(scope="module", params=(None, "shm"), ids=("hosts", "memory"))
def transport(request):
    """SWITCHML_TRANSPORT, if not that of the tests."""
    if request.param and (harness.BACKEND == "gloo" or os.environ["SWITCHML_TRANSPORT"] == "auto"):
        pytest.skip("the same as the other")
    return request.param


@pytest.fixture(scope="module")
def ranks(transport):
    """A shared pool."""
    return harness.pool(3, transport=transport)


def rank_ring(count):
    size, rank = dist.get_world_size(), dist.get_rank()
    received = torch.zeros(count)
    sending = dist.isend(values((count,), torch.float32, rank), (rank + 1) % size)
    source = (rank - 1) % size
    dist.irecv(received, source).wait()
    sending.wait()
    check_equal(received, values((count,), torch.float32, source), "isend and irecv in a ring")


@pytest.mark.parametrize("count", (1, 4000, 300000))
def test_ring(ranks, count):
    ranks.run(rank_ring, count)


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


@EITHER_SIZE
@pytest.mark.parametrize("function", (rank_any_source, rank_tags), ids=lambda f: f.__name__[5:])
def test_point_to_point(transport, size, function):
    harness.pool(size, transport=transport).run(function)


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


def test_batch_isend_irecv(ranks):
    ranks.run(rank_batch)


NAMES = "float32 float16 bfloat16 float64 int8 uint8 int16 int32 int64 bool complex64 complex128 uint16 float8_e4m3fn"
TYPES = [getattr(torch, name) for name in NAMES.split() if hasattr(torch, name)]


def zeros(count, dtype):
    return torch.zeros(count * torch.zeros(1, dtype=dtype).element_size(), dtype=torch.uint8).view(dtype)


def bits_of(rank, dtype, count):
    """Any bits that a type has: those of a bool are 0 and 1."""
    size = count * zeros(1, dtype).element_size()
    bits = torch.arange(rank, rank + size) % (2 if dtype == torch.bool else 251)
    return bits.to(torch.uint8).view(dtype)


def rank_any_type(dtype, count):
    """From a tensor whose elements lie apart: Gloo itself takes none."""
    size, rank = dist.get_world_size(), dist.get_rank()
    received, apart = zeros(count, dtype), zeros(2 * count, dtype)[::2]
    apart.copy_(bits_of(rank, dtype, count))
    mine = apart.contiguous() if harness.BACKEND == "gloo" else apart
    works = [dist.isend(mine, (rank + 1) % size, tag=4), dist.irecv(received, (rank - 1) % size, tag=4)]
    for work in works:
        work.wait()
    wanted = bits_of((rank - 1) % size, dtype, count)
    assert torch.equal(received.view(torch.uint8), wanted.view(torch.uint8)), f"{dtype} x {count}"


@pytest.mark.parametrize("dtype", TYPES, ids=name_of)
@pytest.mark.parametrize("count", (0, 1, 5000, 1100000))
def test_any_type(ranks, dtype, count):
    ranks.run(rank_any_type, dtype, count)


def rank_tags_in_any_order(seed):
    """Many of every size to and from all ranks, in an order of their own on both sides; more than rings hold."""
    size, rank = dist.get_world_size(), dist.get_rank()
    elements = {tag: random.Random(tag).choice((0, 1, 1000, 5000, 400000)) for tag in range(12)}
    order = random.Random(seed * 100 + rank)
    calls = [(peer, tag, sends) for peer in range(size) if peer != rank for tag in elements for sends in (True, False)]
    order.shuffle(calls)
    works, arrived = [], {}
    for peer, tag, sends in calls:
        if sends:
            works.append(dist.isend(values((elements[tag],), torch.float32, rank, tag), peer, tag=tag))
        else:
            arrived[peer, tag] = torch.zeros(elements[tag])
            works.append(dist.irecv(arrived[peer, tag], peer, tag=tag))
    order.shuffle(works)
    for work in works:
        work.wait()
    for (peer, tag), tensor in arrived.items():
        check_equal(tensor, values((elements[tag],), torch.float32, peer, tag), f"tag {tag} of rank {peer}")


@pytest.mark.parametrize("seed", range(3))
def test_tags_in_any_order(ranks, seed):
    ranks.run(rank_tags_in_any_order, seed)


def rank_keeps_order(count, elements):
    """Of one tag; every other one is received from any rank, where there is one other."""
    if dist.get_rank() > 1:
        return
    other, alone = 1 - dist.get_rank(), dist.get_world_size() == 2
    works = [dist.isend(torch.full((elements,), float(i)), other) for i in range(count)]
    for i in range(count):
        buffer = torch.zeros(elements)
        assert dist.recv(buffer, None if alone and i % 2 else other) == other
        assert buffer.eq(i).all(), f"{buffer} in place of {i}"
    for work in works:
        work.wait()


@EITHER_SIZE
@pytest.mark.parametrize("count, elements", ((300, 1000), (20, 300000)))
def test_messages_keep_their_order(transport, size, count, elements):
    harness.pool(size, transport=transport).run(rank_keeps_order, count, elements)


def rank_threads():
    """Each thread with a tag of its own, both ways."""
    if dist.get_rank() > 1:
        return
    other, problems = 1 - dist.get_rank(), []

    def exchange(tag):
        for i in range(30):
            mine, its = torch.full((1 + 5000 * (i % 3),), float(i + tag)), torch.zeros(1 + 5000 * (i % 3))
            works = [dist.isend(mine, other, tag=tag), dist.irecv(its, other, tag=tag)]
            for work in works:
                work.wait()
            if not torch.equal(mine, its):
                problems.append((tag, i))

    threads = [threading.Thread(target=exchange, args=(tag,)) for tag in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_threads(ranks):
    ranks.run(rank_threads)


def rank_crosses_collectives():
    """Rank 0's collective is under way until rank 1 has got its message; a barrier waits for no message."""
    rank, message, total = dist.get_rank(), torch.full((300000,), 7.0), torch.ones(100000)
    if rank == 0:
        work = dist.all_reduce(total, async_op=True)
        dist.send(message, 1)
        late = dist.irecv(message, 1, tag=1)
        work.wait()
        dist.barrier()
        late.wait()
    else:
        if rank == 1:
            message.zero_()
            dist.recv(message, 0)
        dist.all_reduce(total)
        dist.barrier()
        if rank == 1:
            dist.send(message, 0, tag=1)
    assert total.eq(dist.get_world_size()).all() and message.eq(7).all()


def test_messages_and_collectives_do_not_wait_for_each_other(ranks):
    ranks.run(rank_crosses_collectives)


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
