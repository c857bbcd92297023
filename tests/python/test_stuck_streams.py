"""A stream of an accelerator that does not go on, as after a kernel without an end: calls behind it time out, their
groups end, and so does the process. The tests hold the stream, and let it go where they say so."""

import os
import subprocess
import sys

import mock_device
import pytest
import torch
import torch.distributed as dist
from harness import caught, fresh_pool, seconds

pytestmark = pytest.mark.skipif(
    not mock_device.IS_FOR_THIS_TORCH, reason="the device is built for PyTorch 2.13 and later"
)

WORLD = 2
COUNT = 3 << 20  # Several pieces.


@pytest.fixture(params=("256", "1"), ids=("pinned", "pageable"))
def ranks(request):
    """Ranks whose host memory is pinned, or lies beyond the bound, so that copies block their thread."""
    with fresh_pool(
        WORLD, environment={"SWITCHML_PINNED_MEMORY": request.param}, join_group=False, with_gloo=False
    ) as pool:
        pool.run(mock_device.join, pool.folder, WORLD, 3)
        yield pool


def ones(count=COUNT):
    tensor = torch.ones(count, device="mock")
    torch.accelerator.synchronize()
    return tensor


def hold():
    torch.ops.mock_device.hold(torch.accelerator.current_device_index())


def ended(end):
    tensor, output = ones(), ones()
    hold()
    works = [dist.all_reduce(tensor, async_op=True), dist.all_to_all_single(output, tensor, async_op=True)]
    if end == "abort":
        dist.distributed_c10d._abort_process_group()
    else:
        dist.destroy_process_group()
    return [caught(work.wait) for work in works]


@pytest.mark.parametrize("end", ("destroy", "abort"))
def test_a_group_ends_while_a_stream_is_stuck(ranks, end):
    for reduced, exchanged in ranks.run(ended, end):
        assert "switchml all_reduce on rank " in reduced
        assert "switchml all_to_all_single on rank " in exchanged
    ranks.close()  # Fails if a rank does not end.


def late_calls(group):
    peer = 1 - dist.get_rank()
    tensor, other = ones(), ones()
    pieces = [ones(), ones()] if dist.get_rank() == 0 else None
    hold()
    return {
        "all_reduce": lambda: dist.all_reduce(tensor, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(tensor, other[: COUNT // 2], group=group),
        "all_to_all": lambda: dist.all_to_all(list(tensor.chunk(2)), list(other.chunk(2)), group=group),
        "all_to_all_single": lambda: dist.all_to_all_single(tensor, other, group=group),
        "scatter": lambda: dist.scatter(tensor, pieces, src=0, group=group),
        "send": lambda: dist.send(tensor, peer, group=group),
    }


NAMES = ("all_reduce", "all_gather_into_tensor", "all_to_all", "all_to_all_single", "scatter", "send")


def impatient_group(timeout):
    """One that was not made within such a timeout."""
    group = dist.new_group()
    backend = group._get_backend(torch.device("mock"))
    (getattr(backend, "set_timeout", None) or backend._set_default_timeout)(seconds(timeout))
    return group


def timed_out():
    """What each call ends in, in a group of its own."""
    texts = []
    for name in NAMES:
        group = impatient_group(1)
        texts.append(caught(late_calls(group)[name]))
        torch.ops.mock_device.let_go()
    dist.barrier()
    dist.destroy_process_group()
    return texts


def test_calls_behind_a_stuck_stream_time_out(ranks):
    for rank, texts in enumerate(ranks.run(timed_out)):
        for name, text in zip(NAMES, texts):
            assert f"switchml {name} on rank {rank} of 2" in text
            assert "timeout" in text, name


def filled_after_a_failure(seeds):
    """For which seeds something is copied to a tensor after its call has failed with a part of the result there."""
    changed = []
    for seed in seeds:
        group, tensor = impatient_group(0.4), ones(16 << 20)
        mock_device.load(seed)
        torch.ops.mock_device.copy_rate(64e6)
        text = caught(dist.all_reduce, tensor, group=group)
        tensor.fill_(5)
        torch.ops.mock_device.copy_rate(0)
        torch.accelerator.synchronize()
        if text is None or not torch.equal(tensor.cpu(), torch.full((16 << 20,), 5.0)):
            changed.append((seed, text))
        dist.barrier()
    return changed


def test_nothing_is_copied_to_a_tensor_after_its_call_has_failed():
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD, 3)
        assert pool.run(filled_after_a_failure, range(1, 7)) == [[]] * WORLD
        pool.run(dist.destroy_process_group)


def result_that_dies(several):
    """What lies elsewhere, after a result that was dropped meanwhile is copied."""
    mock_device.load(3)
    results = [torch.zeros(COUNT, device="mock") for _ in range(8)]
    side = torch.Stream(device="mock")
    torch.accelerator.synchronize()
    with side:
        if dist.get_rank() == 1:
            hold()
        if several:
            for i in range(0, len(results), 2):  # The first gets the result, and the second a copy.
                dist.group.WORLD.broadcast(results[i : i + 2], dist.BroadcastOptions())
        else:
            for i in range(len(results)):
                dist.broadcast(results[i], 0, async_op=True)
    results.clear()
    dist.barrier()  # The calls are over on the host.
    others = [torch.full((COUNT,), 5.0, device="mock") for _ in range(12)]
    torch.accelerator.current_stream().synchronize()
    torch.ops.mock_device.let_go()
    torch.accelerator.synchronize()
    return [torch.equal(other.cpu(), torch.full((COUNT,), 5.0)) for other in others]


@pytest.mark.parametrize("several", (False, True), ids=("alone", "list"))
def test_a_dropped_result_is_written_nowhere_else(several):
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD, 3)
        assert pool.run(result_that_dies, several) == [[True] * 12] * WORLD
        pool.run(dist.destroy_process_group)


def received():
    """What a stream writes after its group has ended, and how much pinned memory that kept."""
    tensor = ones() * (1 - dist.get_rank())
    torch.accelerator.synchronize()
    if dist.get_rank() == 1:
        hold()
    dist.broadcast(tensor, 0)
    dist.destroy_process_group()
    kept = mock_device.pinned_bytes()[0]
    torch.ops.mock_device.let_go()
    return kept, torch.equal(tensor.cpu(), torch.ones(COUNT))


def test_memory_outlives_the_copies_that_use_it():
    with fresh_pool(WORLD, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD, 3)
        (sent, _), (kept, is_right) = pool.run(received)
    assert sent == 0
    assert kept >= 4 * COUNT
    assert is_right


def waited_for_by_the_host():
    tensor = ones()
    work = dist.broadcast(tensor, 0, async_op=True)
    while not work.is_completed():
        pass
    hold()
    dist.distributed_c10d._abort_process_group()
    return caught(work.wait)


def test_a_wait_that_blocks_the_host_ends_with_the_group():
    with fresh_pool(WORLD, environment={"SWITCHML_BLOCKING_WAIT": "on"}, join_group=False, with_gloo=False) as pool:
        pool.run(mock_device.join, pool.folder, WORLD, 3)
        for text in pool.run(waited_for_by_the_host):
            assert "switchml broadcast on rank " in text
            assert "what the current stream of mock:0 had before is not over" in text


SCRIPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
import mock_device, torch
import torch.distributed as dist
mock_device.load(3)
dist.init_process_group("cpu:switchml,mock:switchml", store=dist.HashStore(), rank=0, world_size=1)
tensor = torch.ones(3 << 20, device="mock")
dist.all_reduce(tensor)
torch.accelerator.synchronize()
torch.ops.mock_device.hold(0)
work = dist.all_reduce(tensor, async_op=True)
if sys.argv[2] == "destroy":
    dist.destroy_process_group()
    try:
        work.wait()
    except RuntimeError as error:
        print("switchml all_reduce on rank 0 of 1" in str(error))
else:
    print(True)
"""


@pytest.mark.parametrize("end", ("destroy", "none"))
def test_a_process_ends_while_a_stream_is_stuck(end):
    command = [sys.executable, "-c", SCRIPT, os.path.dirname(mock_device.__file__), end]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (0, "True\n"), run.stderr
