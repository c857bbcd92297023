"""Collectives that move data and compute nothing: the result is exact, whatever the type."""

import itertools
import os
import re

import pytest
import torch
import torch.distributed as dist

import harness
from cases import FEW_SIZES, MOVED_TYPES, beside, gloo_result, inputs_of_all, layouts, name_of
from oracle import check_equal, values


@pytest.fixture(scope="module", params=(None, "shm"), ids=("switch", "memory"))
def transport(request):
    """SWITCHML_TRANSPORT, if not that of the tests: through a switch in software, and in memory."""
    if request.param and (harness.BACKEND == "gloo" or os.environ["SWITCHML_TRANSPORT"] == "auto"):
        pytest.skip("the same as the other")
    return request.param


def rank_broadcast(dtype):
    size = dist.get_world_size()
    for root, count in itertools.product(range(size), FEW_SIZES):
        mine = values((count,), dtype, dist.get_rank(), root)
        dist.broadcast(mine, root)
        check_equal(mine, values((count,), dtype, root, root), f"broadcast from {root}")


def rank_all_gather(dtype):
    for count in FEW_SIZES:
        inputs = inputs_of_all((count,), dtype)
        outputs = [torch.zeros_like(x) for x in inputs]
        dist.all_gather(outputs, inputs[dist.get_rank()])
        for source, (output, wanted) in enumerate(zip(outputs, inputs)):
            check_equal(output, wanted, f"all_gather of rank {source}'s {count}")


def rank_gather(dtype):
    for root in range(dist.get_world_size()):
        inputs = inputs_of_all((65, 3), dtype, root)
        outputs = [torch.zeros_like(x) for x in inputs] if dist.get_rank() == root else None
        dist.gather(inputs[dist.get_rank()], outputs, dst=root)
        for output, wanted in zip(outputs or [], inputs):
            check_equal(output, wanted, f"gather to {root}")


def rank_scatter(dtype):
    for root in range(dist.get_world_size()):
        pieces = inputs_of_all((65, 3), dtype, root)
        output = torch.zeros_like(pieces[0])
        dist.scatter(output, list(pieces) if dist.get_rank() == root else None, src=root)
        check_equal(output, pieces[dist.get_rank()], f"scatter from {root}")


def rank_all_gather_into_tensor(dtype):
    inputs = inputs_of_all((129, 2), dtype)
    output = torch.zeros(129 * len(inputs), 2, dtype=dtype)
    dist.all_gather_into_tensor(output, inputs[dist.get_rank()])
    check_equal(output, torch.cat(inputs), "all_gather_into_tensor")


def rank_all_to_all_single(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()
    inputs = inputs_of_all((size * 33,), dtype)
    output = torch.zeros_like(inputs[0])
    dist.all_to_all_single(output, inputs[rank])
    check_equal(output, torch.cat([x[rank * 33 : (rank + 1) * 33] for x in inputs]), "all_to_all_single, equal parts")

    splits = [[(source + destination) % 3 for destination in range(size)] for source in range(size)]  # some are 0
    inputs = [values((sum(splits[source]), 2), dtype, source, 5) for source in range(size)]
    arriving = [splits[source][rank] for source in range(size)]
    output = torch.zeros(sum(arriving), 2, dtype=dtype)
    dist.all_to_all_single(output, inputs[rank], arriving, splits[rank])
    wanted = [inputs[source].split(splits[source])[rank] for source in range(size)]
    check_equal(output, torch.cat(wanted), "all_to_all_single, unequal parts")


def rank_all_to_all(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()

    def piece(source, destination):
        return values((source + 2 * destination,), dtype, source, destination)

    outputs = [torch.zeros(source + 2 * rank, dtype=dtype) for source in range(size)]
    dist.all_to_all(outputs, [piece(rank, destination) for destination in range(size)])
    for source, output in enumerate(outputs):
        check_equal(output, piece(source, rank), f"all_to_all from {source}")


MOVERS = (
    rank_broadcast,
    rank_all_gather,
    rank_gather,
    rank_scatter,
    rank_all_gather_into_tensor,
    rank_all_to_all_single,
    rank_all_to_all,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", MOVED_TYPES, ids=name_of)
@pytest.mark.parametrize("function", MOVERS, ids=lambda f: f.__name__[5:])
def test_collective(transport, world, function, dtype):
    harness.pool(world, transport=transport).run(function, dtype)


def rank_layouts(dtype):
    """Every rank's tensors lie in memory as they please."""
    size, rank = dist.get_world_size(), dist.get_rank()
    everyone = [dict(layouts(each, dtype)) for each in range(size)]
    for name in everyone[0]:
        inputs = [each[name] for each in everyone]
        wanted = [x.clone(memory_format=torch.contiguous_format) for x in inputs]
        last = size - 1

        def results(name=name):
            return [dict(layouts(each + 1, dtype, 8))[name] for each in range(size)]

        def broadcast(to):
            to[0].copy_(wanted[rank])
            dist.broadcast(to[0], last)

        calls = {
            "broadcast": (broadcast, results()[:1], [wanted[last]]),
            "all_gather": (lambda to: dist.all_gather(to, inputs[rank]), results(), wanted),
            "gather": (
                lambda to: dist.gather(inputs[rank], to or None, last),
                results() if rank == last else [],
                wanted,
            ),
            "scatter": (
                lambda to: dist.scatter(to[0], inputs if rank == last else None, last),
                results()[:1],
                [wanted[rank]],
            ),
            "all_to_all": (lambda to: dist.all_to_all(to, [inputs[rank]] * size), results(), wanted),
        }
        for call, (issue, to, right) in calls.items():
            neighbours = [beside(each) for each in to]
            issue(to)
            for output, expected, before in zip(to, right, neighbours):
                check_equal(output.contiguous(), expected, f"{call} of {name}")
                check_equal(beside(output), before, f"{call}: beside {name}")


@pytest.mark.parametrize("dtype", (torch.float32, torch.int16), ids=name_of)
def test_layouts(transport, world, dtype):
    harness.pool(world, transport=transport).run(rank_layouts, dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.int16), ids=name_of)
def test_layouts_beside_integers(world, dtype):
    """A switch that adds integers moves nothing: the ranks' hosts do."""
    if harness.BACKEND == "gloo" or os.environ["SWITCHML_TRANSPORT"] == "auto":
        pytest.skip("integers go through a switch; run with --transport=udp")
    harness.pool(world, "integer").run(rank_layouts, dtype)


def rank_all_gather_of_bools():
    inputs = inputs_of_all((40,), torch.bool)
    outputs, theirs = ([torch.zeros_like(x) for x in inputs] for _ in range(2))
    known = gloo_result(lambda g, *tensors: dist.all_gather(list(tensors), inputs[dist.get_rank()], group=g), *theirs)
    try:
        dist.all_gather(outputs, inputs[dist.get_rank()])
    except (RuntimeError, ValueError) as error:
        assert known is None, f"Gloo gathers bools, this backend refuses: {error}"
        return
    for output, wanted in zip(outputs, inputs):
        check_equal(output, wanted, "all_gather of bools")


def rank_in_place():
    size, rank = dist.get_world_size(), dist.get_rank()
    inputs = inputs_of_all((100,), torch.float32)
    whole = torch.zeros(size * 100)
    mine = whole[rank * 100 : (rank + 1) * 100]
    mine.copy_(inputs[rank])
    dist.all_gather(list(whole.split(100)), mine)
    check_equal(whole, torch.cat(inputs), "all_gather whose input is one of its outputs")
    same = inputs[rank].clone()
    pieces = [same if r == rank else values((100,), torch.float32, r, 9) for r in range(size)]
    dist.all_gather(pieces, same)
    check_equal(torch.cat(pieces), torch.cat(inputs), "all_gather with input and output the same tensor")


def test_all_gather_of_bools(transport):
    harness.pool(3, transport=transport).run(rank_all_gather_of_bools)


def test_inputs_that_alias_outputs(transport, world):
    harness.pool(world, transport=transport).run(rank_in_place)


# ---- objects ----


def rank_objects():
    size, rank = dist.get_world_size(), dist.get_rank()
    everyone = [{"rank": r, "text": "x" * (10 * r), "list": list(range(r))} for r in range(size)]
    gathered = [None] * size
    dist.all_gather_object(gathered, everyone[rank])
    assert gathered == everyone
    lists = [everyone[0], "two"] if rank == 0 else [None, None]
    dist.broadcast_object_list(lists, src=0)
    assert lists == [everyone[0], "two"]
    at_last = [None] * size if rank == size - 1 else None
    dist.gather_object(everyone[rank], at_last, dst=size - 1)
    assert at_last is None or at_last == everyone
    received = [None]
    dist.scatter_object_list(received, everyone if rank == 0 else None, src=0)
    assert received == [everyone[rank]]


def test_objects(transport, world):
    harness.pool(world, transport=transport).run(rank_objects)


# ---- futures ----


def rank_futures():
    """Of one call over each backend: the future's value and the result, which is no list of lists."""

    def both(call):
        told = []
        for group in (dist.distributed_c10d._get_default_group(), harness.gloo()):
            backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
            work = call(backend)
            work.wait()
            try:
                result = work.result()
            except RuntimeError as error:
                result = re.search("work result does not support list of lists", str(error))[0]
            told.append((work.get_future().value(), result))
        assert str(told[0]) == str(told[1]), told  # nested lists of tensors of few elements
        return told[0]

    size, rank = dist.get_world_size(), dist.get_rank()
    mine = torch.tensor([float(rank), 5.0])

    def outputs(count):
        return [torch.zeros(2) for _ in range(count)]

    value, result = both(lambda g: g.allgather([outputs(2 * size), outputs(2 * size)], [mine, mine + 1]))
    assert [len(tensors) for tensors in value] == [2 * size] * 2 and "list of lists" in result
    both(lambda g: g.allgather([outputs(size)], [mine]))
    both(
        lambda g: g.allgather_coalesced([[torch.zeros(2), torch.zeros(1)] for _ in range(size)], [mine, torch.ones(1)])
    )
    both(lambda g: g.broadcast([mine.clone(), mine.clone()], dist.BroadcastOptions()))
    both(lambda g: g.allreduce([mine.clone(), mine.clone()], dist.AllreduceOptions()))
    both(lambda g: g.gather([outputs(size)] if rank == 0 else [], [mine], dist.GatherOptions()))
    both(lambda g: g.scatter(outputs(1), [outputs(size)] if rank == 0 else [], dist.ScatterOptions()))
    both(lambda g: g.alltoall_base(torch.zeros(2 * size), torch.ones(2 * size), [], []))


def test_futures_have_the_shape_of_gloos(transport, world):
    harness.pool(world, transport=transport).run(rank_futures)
