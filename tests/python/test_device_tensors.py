"""Tensors of an accelerator, the tests' own: each collective gives what it does on the CPU, bit by bit, whatever the
order in which streams run."""

import re
import socket

import mock_device
import narrow
import pytest
import torch
import torch.distributed as dist
from harness import caught, free_port, fresh_pool, seconds, this_rank

import switchml

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)

WORLD = 2
SEEDS = range(1, 9)


#: Over TCP a frame that is lost on purpose is missed for a long time, since TCP itself loses none: few are.
CARRIERS = {
    "memory": {"SWITCHML_TRANSPORT": "shm"},
    "lossy-udp": {"SWITCHML_TRANSPORT": "udp", "SWITCHML_FAULTS": "seed=5,send_loss=0.01,receive_loss=0.01"},
    "lossy-tcp": {"SWITCHML_TRANSPORT": "tcp", "SWITCHML_FAULTS": "seed=5,send_loss=0.001,receive_loss=0.001"},
}
GROUPS = {f"{name}-{size}": (size, environment) for name, environment in CARRIERS.items() for size in (2, 3)}


@pytest.fixture(scope="module", params=GROUPS)
def ranks(request):
    size, environment = GROUPS[request.param]
    with fresh_pool(size, environment=environment, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, size)
        yield pool
        pool.run(dist.destroy_process_group)


def numbers(count, dtype=torch.float32, salt=0):
    generator = torch.Generator().manual_seed(17 * dist.get_rank() + salt)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    return torch.randint(-50, 50, (count,), generator=generator).to(dtype)


def size():
    return dist.get_world_size()


def neighbours():
    """The rank after this one, and the one before."""
    return (dist.get_rank() + 1) % size(), (dist.get_rank() - 1) % size()


def late(tensor, device):
    """The tensor on a device, which has its elements only when the current stream has come so far."""
    if device == "cpu":
        return tensor.clone()
    there = tensor.to(device)
    result = torch.empty_like(there)
    torch.accelerator.synchronize()
    for _ in range(4):
        result.fill_(-77)
    return result.copy_(there)


# ---- the calls: each gives tensors that its stream may still be making ----


def all_reduce(device, count, dtype=torch.float32, op=dist.ReduceOp.SUM):
    tensor = late(numbers(count, dtype), device)
    dist.all_reduce(tensor, op=op)
    return [tensor]


def several_at_once(device, count):
    tensors = [late(numbers(count, salt=i), device) for i in range(6)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    for tensor in tensors:
        tensor.mul_(2)
    return tensors


def future_of_several(device, count):
    group = dist.group.WORLD
    tensors = [late(numbers(count, salt=i), device) for i in range(3)]
    group._start_coalescing(torch.device(device))
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    group._end_coalescing(torch.device(device)).get_future().wait()
    for tensor in tensors:
        tensor.mul_(2)
    return tensors


def all_reduce_of_a_view(device, count):
    whole = late(numbers(2 * count), device)
    view = whole[: 2 * (count // 2)].view(2, -1).t()
    dist.all_reduce(view)
    return [whole]


def all_reduce_of_a_negative(device, count):
    """The imaginary part of a conjugate: every second number in memory, and there with the other sign."""
    whole = late(torch.view_as_complex(numbers(2 * count).view(count, 2)), device)
    dist.all_reduce(whole.conj().imag)
    return [whole]


def all_reduce_of_multiples(device, count):
    return all_reduce(device, count, op=dist._make_nccl_premul_sum(0.5))


def coalesced(device, count):
    tensors = [late(numbers(count + i, salt=i), device) for i in range(3)]
    with dist._coalescing_manager(device=torch.device(device), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    outputs = [late(torch.zeros(size() * tensor.numel()), device) for tensor in tensors]
    with dist._coalescing_manager(device=torch.device(device)):
        for output, tensor in zip(outputs, tensors):
            dist.all_gather_into_tensor(output, tensor)
    return tensors + outputs


def reduce(device, count):
    tensor = late(numbers(count), device)
    dist.reduce(tensor, 1)
    return [tensor] if dist.get_rank() == 1 else []


def broadcast(device, count):
    tensor = late(numbers(count), device)
    dist.broadcast(tensor, 1)
    return [tensor]


def all_gather_into_tensor(device, count):
    output = late(torch.zeros(size() * count), device)
    dist.all_gather_into_tensor(output, late(numbers(count), device))
    return [output]


def all_gather(device, count):
    outputs = [late(torch.zeros(count), device) for _ in range(size())]
    dist.all_gather(outputs, late(numbers(count), device))
    return outputs


def reduce_scatter_tensor(device, count):
    output = late(torch.zeros(count), device)
    dist.reduce_scatter_tensor(output, late(numbers(size() * count), device))
    return [output]


def reduce_scatter(device, count):
    output = late(torch.zeros(count), device)
    dist.reduce_scatter(output, [late(numbers(count, salt=i), device) for i in range(size())])
    return [output]


def scatter(device, count):
    output = late(torch.zeros(count), device)
    pieces = [late(numbers(count, salt=i), device) for i in range(size())] if dist.get_rank() == 0 else None
    dist.scatter(output, pieces, src=0)
    return [output]


def gather(device, count):
    outputs = [late(torch.zeros(count), device) for _ in range(size())] if dist.get_rank() == 0 else None
    dist.gather(late(numbers(count), device), outputs, dst=0)
    return outputs or []


def all_to_all_single(device, count):
    output = late(torch.zeros(size() * count), device)
    dist.all_to_all_single(output, late(numbers(size() * count), device))
    return [output]


def all_to_all_of_splits(device, count):
    """Each rank gets so many elements of each as its own number says."""
    rank = dist.get_rank()
    output = late(torch.zeros(size() * rank * count), device)
    everything = late(numbers(sum(range(size())) * count), device)
    dist.all_to_all_single(output, everything, [rank * count] * size(), [each * count for each in range(size())])
    return [output]


def all_to_all(device, count):
    outputs = [late(torch.zeros(count), device) for _ in range(size())]
    dist.all_to_all(outputs, [late(numbers(count, salt=i), device) for i in range(size())])
    return outputs


def sum_of_narrow_terms(device, count):
    output = late(torch.zeros(count), device)
    switchml.all_reduce(late(numbers(count, torch.bfloat16), device), output)
    return [output]


def parts_of_narrow_terms(device, count):
    output = late(torch.zeros(count), device)
    switchml.reduce_scatter(late(numbers(size() * count, torch.bfloat16), device), output, op=dist.ReduceOp.AVG)
    return [output]


def sum_of_blocks(device, count):
    packed, _ = narrow.blocks("int8", dist.get_rank(), count, 3)
    output = late(torch.zeros(count), device)
    switchml.all_reduce(late(packed.view(torch.int8), device).to(torch.uint8), output, format="int8")
    return [output]


def send_and_receive(device, count):
    after, before = neighbours()
    received = late(torch.zeros(count), device)
    operations = [dist.P2POp(dist.isend, late(numbers(count), device), after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return [received]


def message_from_any(device, count):
    received = late(torch.zeros(count), device)
    if dist.get_rank() == 1:
        dist.send(late(numbers(count), device), 0)
    elif dist.get_rank() == 0:
        assert dist.recv(received) == 1
    return [received]


def messages_by_turns(device, count):
    """Those of one tag arrive in the order in which they were sent, from whatever memory."""
    after, before = neighbours()
    places = [device if i % 2 == 0 else "cpu" for i in range(6)]
    received = [late(torch.zeros(count), place) for place in places]
    works = [dist.irecv(tensor, before) for tensor in received]
    sent = [late(numbers(count, salt=i), place) for i, place in enumerate(places)]
    works += [dist.isend(tensor, after) for tensor in sent]
    for work in works:
        work.wait()
    return received


def inputs_that_die(device, count):
    """Only the work is kept."""
    output = late(torch.zeros(size() * count), device)
    work = dist.all_gather_into_tensor(output, late(numbers(count), device), async_op=True)
    for _ in range(6):  # What lies where the input did, were its memory given out again.
        torch.full((count,), 5.0, device=device)
    work.wait()
    return [output]


def results_that_die(device, count):
    """A result that the caller drops is written nowhere else."""
    for salt in range(4):
        dist.all_reduce(late(numbers(count, salt=salt), device), async_op=True)
    others = [late(numbers(count, salt=9), device) for _ in range(6)]
    dist.barrier()
    return others


def callbacks_of_futures(device, count):
    tensor = late(numbers(count), device)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    return [future.then(lambda done: done.value()[0].mul_(3)).wait()]


CALLS = (
    all_reduce,
    several_at_once,
    future_of_several,
    all_reduce_of_a_view,
    all_reduce_of_a_negative,
    all_reduce_of_multiples,
    coalesced,
    reduce,
    broadcast,
    all_gather_into_tensor,
    all_gather,
    reduce_scatter_tensor,
    reduce_scatter,
    scatter,
    gather,
    all_to_all_single,
    all_to_all_of_splits,
    all_to_all,
    sum_of_narrow_terms,
    parts_of_narrow_terms,
    sum_of_blocks,
    send_and_receive,
    message_from_any,
    messages_by_turns,
    inputs_that_die,
    results_that_die,
    callbacks_of_futures,
)


def differences(call, counts, seeds, arguments=()):
    """For which seeds and sizes the device's results differ from the CPU's."""
    found = []
    for count in counts:
        expected = call("cpu", count, *arguments)
        for seed in seeds:
            mock_device.load(seed)
            results = [result.cpu() for result in call("mock", count, *arguments)]
            torch.accelerator.synchronize()
            if len(results) != len(expected) or not all(map(torch.equal, results, expected)):
                found.append((seed, count))
    return found


@pytest.mark.parametrize("call", CALLS)
def test_results_are_those_of_the_cpu(ranks, call):
    """With half of the seeds for each number of ranks."""
    first, *others = SEEDS[ranks.size % 2 :: 2]
    assert ranks.run(differences, call, (1,), [first]) == [[]] * ranks.size
    assert ranks.run(differences, call, (3001,), others) == [[]] * ranks.size


@pytest.mark.parametrize(
    "dtype", (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8), ids=str
)
@pytest.mark.parametrize("op", (dist.ReduceOp.SUM, dist.ReduceOp.AVG), ids=("sum", "mean"))
def test_types_and_operations(ranks, dtype, op):
    assert ranks.run(differences, all_reduce, (777,), (ranks.size - 1,), (dtype, op)) == [[]] * ranks.size


def reduce_scatter_within(device, count):
    """The result lies across what the ranks' parts of the input are made of."""
    memory = late(numbers(size() * count), device)
    output = memory[count // 2 : count // 2 + count]
    dist.reduce_scatter_tensor(output, memory)
    return [output]


def all_gather_within(device, count):
    """The input is this rank's part of the output."""
    output = late(numbers(size() * count), device)
    dist.all_gather_into_tensor(output, output[dist.get_rank() * count :][:count])
    return [output]


def all_gather_across(device, count):
    """The input lies across the parts of two ranks."""
    output = late(numbers(size() * count), device)
    dist.all_gather_into_tensor(output, output[count // 2 :][:count])
    return [output]


LONG_CALLS = (
    all_reduce,
    several_at_once,
    broadcast,
    all_gather_into_tensor,
    all_gather_within,
    all_gather_across,
    all_gather,
    gather,
    reduce_scatter_tensor,
    reduce_scatter_within,
    scatter,
    all_to_all,
    parts_of_narrow_terms,
    sum_of_blocks,
    send_and_receive,
    inputs_that_die,
)


@pytest.mark.parametrize("call", LONG_CALLS)
def test_long_tensors_come_in_pieces(ranks, call):
    assert ranks.run(differences, call, ((1 << 20) + 3,), (ranks.size - 1,)) == [[]] * ranks.size


def groups_of_both(port):
    mock_device.load()
    dist.init_process_group(
        "cpu:switchml,mock:switchml",
        init_method=f"tcp://127.0.0.1:{port}",  # A FileStore cannot be split.
        rank=this_rank(),
        world_size=WORLD,
        timeout=seconds(60),
        device_id=torch.device("mock:0"),  # Which split_group() asks for.
    )
    sums = []
    for group in (dist.split_group(split_ranks=[[0, 1]]), dist.new_group([0, 1])):
        for device in ("cpu", "mock"):
            tensor = torch.ones(10, device=device)
            dist.all_reduce(tensor, group=group)
            sums.append(tensor.sum().item())
    dist.destroy_process_group()
    return sums


def test_a_group_of_two_types_of_devices_has_one_session():
    with fresh_pool(WORLD, environment={"SWITCHML_LOG_LEVEL": "info"}, join_group=False, with_gloo=False) as pool:
        assert pool.run(groups_of_both, free_port(socket.SOCK_STREAM)) == [[20.0] * 4] * WORLD
        for rank in range(WORLD):
            opened = re.findall(rf"group \S+, rank {rank} of {WORLD}:", pool.log(rank, lines=1000))
            assert len(opened) == 3, "the default group, the split one, the new one"


def mixed():
    here, there = torch.ones(4), torch.ones(4, device="mock")
    return (
        caught(dist.all_gather_into_tensor, torch.zeros(4 * size()), there),
        caught(dist.all_reduce_coalesced, [torch.ones(4, device="mock:0"), torch.ones(4, device="mock:1")]),
        caught(dist.all_to_all, [torch.zeros(4) for _ in range(size())], [here, *[there] * (size() - 1)]),
        caught(dist.all_reduce, here),
    )


def test_tensors_of_two_devices_are_refused(ranks):
    for into, coalesced, exchanged, after in ranks.run(mixed):
        assert "Expected list of tensors on the same device: there are " in into
        assert "mock:0 and cpu" in into
        assert "Expected list of tensors on the same device: there are mock:0 and mock:1" in coalesced
        assert "Expected list of tensors on the same device: there are cpu and mock:0" in exchanged
        assert after is None


def sparse():
    """Given to the backend itself: c10d has no collectives for sparse tensors of devices other than CUDA's."""
    places = torch.tensor([0, 1, 2], device="mock"), torch.tensor([0, 1], device="mock")
    rows = torch.sparse_csr_tensor(*places, torch.ones(2, device="mock"), (2, 2))
    backend = dist.group.WORLD._get_backend(torch.device("mock"))
    return caught(lambda: backend.allreduce([rows]).wait()), caught(dist.all_reduce, torch.ones(2, device="mock"))


def test_sparse_tensors_are_refused(ranks):
    for refusal, after in ranks.run(sparse):
        assert "switchml all_reduce: unsupported layout SparseCsr on mock:0; allowed: Strided there" in refusal
        assert after is None


def refused():
    tensor = torch.ones(4, device="mock")
    torch.ops.mock_device.capture(True)
    captured = caught(dist.all_reduce, tensor)
    torch.ops.mock_device.capture(False)
    return captured, caught(dist.all_reduce, tensor)


def test_calls_in_a_capture_are_refused(ranks):
    for captured, after in ranks.run(refused):
        assert "switchml all_reduce: the current stream of mock:0 is captured in a graph; allowed: " in captured
        assert after is None


def is_over_when_waited_for(seeds):
    """Whether the current stream has nothing left to do after each wait()."""
    over = []
    for seed in seeds:
        mock_device.load(seed)
        tensor = torch.ones(1 << 20, device="mock")
        torch.accelerator.synchronize()
        dist.all_reduce(tensor)
        over.append(torch.accelerator.current_stream().query())
    return over


def test_a_wait_that_blocks_the_host_ends_when_results_are_on_the_device():
    with fresh_pool(WORLD, environment={"SWITCHML_BLOCKING_WAIT": "on"}, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD)
        assert pool.run(is_over_when_waited_for, SEEDS) == [[True] * len(SEEDS)] * WORLD
        pool.run(dist.destroy_process_group)


def alternating(steps):
    mock_device.load(5)
    results = []
    for step in range(steps):
        tensor = late(numbers(100, salt=step), "mock" if step % 2 else "cpu")
        results.append((tensor, dist.all_reduce(tensor, async_op=True)))
    for _, work in results:
        work.wait()
    return [tensor.cpu().numpy() for tensor, _ in results]


def test_calls_of_hosts_and_devices_keep_one_order(ranks):
    first, *others = ranks.run(alternating, 10)
    for other in others:
        assert all((a == b).all() for a, b in zip(first, other))


def trained(device):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    model = torch.nn.parallel.DistributedDataParallel(model.to(device), bucket_cap_mb=0.0005)
    return mock_device.losses_of(model, numbers(8 * 32).view(32, 8).to(device), 4)


def trained_on_both():
    mock_device.load(3)
    return trained("cpu"), trained("mock")


def test_ddp_trains_as_on_the_cpu(ranks):
    for on_cpu, on_device in ranks.run(trained_on_both):
        assert on_cpu == on_device
