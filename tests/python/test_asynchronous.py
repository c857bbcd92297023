"""Many calls in flight, and futures whose callbacks make calls."""

import os
import random
import threading
import time

import pytest
import torch
import torch.distributed as dist

import harness
from cases import tensors_of_all
from oracle import check_reduction


def rank_many_in_flight():
    everyone = tensors_of_all([(17 * i,) for i in range(60)])
    mine = [x.clone() for x in everyone[dist.get_rank()]]
    works = [dist.all_reduce(x, async_op=True) for x in mine]
    for work in reversed(works):
        assert work.wait(timeout=harness.seconds(20))
    assert all(work.is_completed() for work in works)
    for i, result in enumerate(mine):
        check_reduction(result, [each[i] for each in everyone], "SUM")


def rank_mixed_in_flight():
    """Calls through a switch of integers and the hosts beside it, interleaved: their order among ranks is the order of
    the calls."""
    size, rank = dist.get_world_size(), dist.get_rank()
    works, sums, roots, products = [], [], [], []
    for i in range(15):
        sums.append(torch.full((i * 100,), float(rank)))
        roots.append(torch.full((10,), float(rank + i)))
        products.append(torch.full((5,), 2, dtype=torch.int64))
        works.append(dist.all_reduce(sums[-1], async_op=True))
        works.append(dist.broadcast(roots[-1], i % size, async_op=True))
        works.append(dist.all_reduce(products[-1], dist.ReduceOp.PRODUCT, async_op=True))
    for work in works:
        work.wait()
    for i in range(15):
        assert sums[i].tolist() == [float(sum(range(size)))] * (i * 100)
        assert roots[i].tolist() == [float(i % size + i)] * 10
        assert products[i].tolist() == [2**size] * 5


def rank_future_chain():
    """A callback starts a collective and waits for it, and so does that one's callback: two deep, as PowerSGD does."""
    size = dist.get_world_size()

    def innermost(future):
        return [future.value()[0] + 1]

    def nested(future):
        middle = future.value()[0].clone()
        inner = dist.all_reduce(middle, async_op=True).get_future().then(innermost)
        last = inner.wait()[0].clone()
        dist.all_reduce(last)
        return [last]

    for i in range(
        5
    ):  # one after the other: callbacks of several works would call in an order that differs between ranks
        future = dist.all_reduce(torch.full((100,), float(i)), async_op=True).get_future().then(nested)
        assert future.wait()[0].tolist() == [float((i * size * size + 1) * size)] * 100
    value = dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    assert isinstance(value, list) and value[0].tolist() == [float(size)] * 3


def rank_dropped_work():
    for i in range(20):
        dist.all_reduce(torch.ones(1000 + i), async_op=True)  # nobody keeps the work or the tensor
    total = torch.ones(3)
    dist.all_reduce(total)
    assert total.tolist() == [float(dist.get_world_size())] * 3


def rank_waited_among_others():
    """Calls that their callers wait for at once, between others that they do not, on two groups; when a rank makes its
    next call, and what it waits for before, is its own affair."""
    size, rank = dist.get_world_size(), dist.get_rank()
    groups = dist.group.WORLD, dist.new_group()
    shared, own = random.Random(size), random.Random(rank)
    under_way = []
    for number in range(300):
        group, waits = groups[shared.random() < 0.3], shared.random() < 0.5
        kind, count = shared.choice(("sum", "gather", "barrier")), shared.choice((1, 1000, 5000, 300_000))
        mine, expected, work = torch.full((count,), rank + number), None, None
        if kind == "sum":
            work, expected = dist.all_reduce(mine, group=group, async_op=not waits), [sum(range(size)) + size * number]
        elif kind == "gather":
            given, mine = mine, torch.empty(size * count, dtype=mine.dtype)
            work = dist.all_gather_into_tensor(mine, given, group=group, async_op=not waits)
            expected = [other + number for other in range(size)]
        else:
            work = dist.barrier(group=group, async_op=not waits)
        under_way.append((work, mine, expected))
        while under_way and own.random() < 0.4:
            check_work(*under_way.pop(own.randrange(len(under_way))))
        if own.random() < 0.02:
            time.sleep(0.002)
    for each in under_way:
        check_work(*each)
    dist.destroy_process_group(groups[1])


def check_work(work, result, expected):
    if work is not None:
        work.wait()
    if expected is not None:
        for each, value in zip(result.chunk(len(expected)), expected, strict=True):
            assert each.eq(value).all(), f"{each} is not {value} in all elements"


def rank_groups_in_any_order():
    """Two groups, on which ranks call in different orders, and wait last."""
    size, rank = dist.get_world_size(), dist.get_rank()
    groups = [dist.new_group() for _ in range(2)]
    for number in range(50):
        tensors = [torch.full((1 + 700 * (number % 9),), 1 + i) for i in range(2)]
        order = (0, 1) if rank % 2 else (1, 0)
        works = [dist.all_reduce(tensors[i], group=groups[i], async_op=True) for i in order]
        for work in works:
            work.wait()
        assert all(tensors[i].eq(size * (1 + i)).all() for i in range(2))
    for group in groups:
        dist.destroy_process_group(group)


def rank_threads_with_groups():
    """A group for each thread, of which each waits in its own."""
    size, rank = dist.get_world_size(), dist.get_rank()
    failures = []

    def use(group, seed):
        try:
            for number in range(100):
                tensor = torch.full((1 + 500 * (number % 5),), rank + seed + number)
                dist.all_reduce(tensor, group=group)
                assert tensor.eq(sum(range(size)) + size * (seed + number)).all()
        except Exception as error:
            failures.append(error)

    groups = [dist.new_group() for _ in range(3)]
    users = [threading.Thread(target=use, args=(group, 1000 * i)) for i, group in enumerate(groups)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not failures, failures
    for group in groups:
        dist.destroy_process_group(group)


def rank_registered():
    """PyTorch finds calls that compiled code waits for by their tensors; wait() takes them out again."""
    from torch.distributed import _functional_collectives

    works = torch._C._distributed_c10d
    with _functional_collectives.allow_inflight_collective_as_graph_input_ctx():
        before = works._get_work_registry_size()
        work = dist.all_reduce(torch.ones(10), async_op=True)
        assert works._get_work_registry_size() == before + 1
        work.wait()
        assert works._get_work_registry_size() == before


@pytest.mark.skipif(harness.TORCH < (2, 13), reason="this PyTorch's backends leave works there")
def test_a_work_that_was_waited_for_is_registered_no_more(world):
    harness.pool(world).run(rank_registered)


@pytest.mark.parametrize(
    "function",
    (
        rank_many_in_flight,
        rank_mixed_in_flight,
        rank_dropped_work,
        rank_waited_among_others,
        rank_groups_in_any_order,
        rank_threads_with_groups,
    ),
    ids=lambda f: f.__name__[5:],
)
def test_asynchronous(ranks, function):
    ranks.run(function)


def test_callbacks_may_call_collectives(world):
    if harness.BACKEND == "gloo":
        pytest.skip("Gloo's threads deadlock here")
    harness.pool(world).run(rank_future_chain)


def threads():
    return len(os.listdir("/proc/self/task"))


def rank_callbacks_in_python():
    """Callbacks wait for Python's lock: no thread is made for that, or few, and those end."""
    dist.all_reduce(torch.ones(1))
    before = most = threads()

    def callback(future):
        nonlocal most
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        most = max(most, threads())
        return future.value()

    for _ in range(3):
        futures = [dist.all_reduce(torch.ones(100), async_op=True).get_future().then(callback) for _ in range(200)]
        for future in futures:
            future.wait()
    assert most <= before + 9, f"{before} threads before, {most} with callbacks"
    end = time.monotonic() + 60
    while threads() > before + 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert threads() <= before + 1, f"{before} threads before, {threads()} long after the callbacks"


def test_callbacks_in_python_make_few_threads(world):
    harness.pool(world).run(rank_callbacks_in_python)


class ModelWithHook(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(40, 40) for _ in range(12)])

    def forward(self, x):
        return self.layers(x)


def rank_hook_in_python():
    most = 0

    def hook(state, bucket):
        def divide(future):
            nonlocal most
            end = time.perf_counter() + 0.001
            while time.perf_counter() < end:
                pass
            most = max(most, threads())
            return future.value()[0] / dist.get_world_size()

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(divide)

    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(ModelWithHook(), bucket_cap_mb=0.01)
    model(torch.ones(4, 40)).sum().backward()
    before = threads()
    model.register_comm_hook(None, hook)
    for _ in range(12):
        model(torch.ones(4, 40)).sum().backward()
    assert 0 < most <= before + 9, f"{before} threads before, {most} with the hook"


def test_a_hook_in_python_makes_few_threads(world):
    harness.pool(world).run(rank_hook_in_python)
