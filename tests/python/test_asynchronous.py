"""Many calls in flight, and futures whose callbacks make calls."""

import os
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
    """Calls through the switch and the companion, interleaved: their order among ranks is the order of the calls. Products are the
    companion's beside a switch that adds integers."""
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

    for i in range(5):  # one after the other: callbacks of several works would call in an order that differs between ranks
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


@pytest.mark.parametrize(
    "function", (rank_many_in_flight, rank_mixed_in_flight, rank_dropped_work), ids=lambda f: f.__name__[5:]
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
