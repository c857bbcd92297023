"""Every collective against Gloo and against an oracle, on 2, 3 and 4 ranks."""

import itertools
import socket
import sys

import pytest
import torch
import torch.distributed as dist

import harness
from harness import TORCH, gloo
from oracle import (
    FLOATS,
    INTEGERS,
    OPERATIONS,
    check_equal,
    check_reduction,
    digest,
    operation,
    reduce_exactly,
    values,
)

# Around vectors, blocks (256 elements), payloads (64 words to 63 KiB) and windows.
SIZES = (0, 1, 7, 63, 64, 65, 255, 256, 257, 8191, 8192, 8193, 16129, 100003)
FEW_SIZES = (0, 1, 257, 8193)
TYPES = FLOATS + (torch.float64,) + INTEGERS
BITWISE = ("BAND", "BOR", "BXOR")


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def works_everywhere(dtype, op):
    """What the switch takes: these may not be refused."""
    if op in ("MIN", "MAX", "SUM"):
        return dtype != torch.float64
    return op in ("AVG", "PREMUL_SUM") and dtype in FLOATS


def inputs_of_all(shape, dtype, seed=0, small=False, group=None):
    return [values(shape, dtype, rank, seed, small) for rank in range(dist.get_world_size(group))]


def tensors_of_all(shapes):
    """[rank][i]: a tensor of shapes[i]."""
    return [
        [values(shape, torch.float32, rank, seed) for seed, shape in enumerate(shapes)] for rank in range(dist.get_world_size())
    ]


def gloo_result(function, *tensors):
    """What Gloo makes of the same call, or None where Gloo does not have it (it says so on every rank alike)."""
    try:
        function(gloo(), *tensors)
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    return tensors


# ---- all_reduce: every type and operation ----


def rank_all_reduce(dtype, op, sizes):
    digests = []
    for seed, size in enumerate(sizes):
        inputs = inputs_of_all((size,), dtype, seed, small=op == "PRODUCT")
        mine = inputs[dist.get_rank()].clone()
        try:
            dist.all_reduce(mine, operation(op))
        except (RuntimeError, ValueError, NotImplementedError) as error:
            if works_everywhere(dtype, op):
                raise
            theirs = gloo_result(lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone())
            assert theirs is None, f"Gloo does {op} of {dtype}, this backend refuses: {error}"
            return None
        check_reduction(mine, inputs, op)
        digests.append(digest(mine))
        if not dtype.is_floating_point or op in ("MIN", "MAX"):
            theirs = gloo_result(lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone())
            if theirs is not None:
                check_equal(mine, theirs[0], f"{op} of {dtype} against Gloo")
    return digests


def all_reduce_cases():
    for dtype, op in itertools.product(TYPES, OPERATIONS):
        if dtype.is_floating_point and op in BITWISE:
            continue
        if not dtype.is_floating_point and op in ("AVG", "PREMUL_SUM"):
            continue
        yield pytest.param(dtype, op, id=f"{name_of(dtype)}-{op}")


@pytest.mark.parametrize("dtype, op", list(all_reduce_cases()))
def test_all_reduce(world, dtype, op):
    if op == "PREMUL_SUM" and not hasattr(dist, "_make_nccl_premul_sum"):
        pytest.skip(f"torch {torch.__version__} has no PREMUL_SUM for Python")
    sizes = SIZES if op in ("SUM", "MAX") else FEW_SIZES
    results = harness.pool(world).run(rank_all_reduce, dtype, op, sizes)
    assert all(result == results[0] for result in results), "ranks differ in the bits of the result"
    if op == "SUM":
        again = harness.pool(world).run(rank_all_reduce, dtype, op, sizes)
        assert again == results, "the second run differs in the bits of the result"


def rank_all_reduce_bool(op):
    inputs = inputs_of_all((300,), torch.bool)
    mine = inputs[dist.get_rank()].clone()
    theirs = gloo_result(lambda g, x: dist.all_reduce(x, operation(op), group=g), inputs[dist.get_rank()].clone())
    try:
        dist.all_reduce(mine, operation(op))
    except (RuntimeError, ValueError) as error:
        assert theirs is None, f"Gloo does {op} of bools, this backend refuses: {error}"
        return
    check_equal(mine, reduce_exactly(inputs, op).bool(), op)


@pytest.mark.parametrize("op", ("MIN", "MAX", "BAND", "BOR"))
def test_all_reduce_of_bools(op):
    harness.pool(3).run(rank_all_reduce_bool, op)


def rank_all_reduce_big(dtype):
    inputs = inputs_of_all((3 * 2**20 // torch.empty(0, dtype=dtype).element_size(),), dtype)
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    check_reduction(mine, inputs, "SUM")
    return digest(mine)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int32), ids=name_of)
def test_all_reduce_of_3_mib(world, dtype):
    assert len(set(harness.pool(world).run(rank_all_reduce_big, dtype))) == 1


def rank_complex():
    inputs = [torch.complex(values((77,), torch.float32, r, 1), values((77,), torch.float32, r, 2)) for r in range(3)]
    mine = inputs[dist.get_rank()].clone()
    dist.all_reduce(mine)
    torch.testing.assert_close(mine, sum(inputs), rtol=1e-6, atol=1e-4)


def test_all_reduce_of_complex_numbers():
    harness.pool(3).run(rank_complex)


# ---- shapes and strides ----


def layouts(rank):
    """(name, a fresh tensor of rank `rank`) for every kind of memory layout."""
    grid = values((12, 34), torch.float32, rank, 3)
    yield "zero dimensions", grid[0, 0].clone()
    yield "transposed", grid.clone().t()
    yield "every third column", grid.clone()[:, ::3]
    yield "a column", grid.clone()[:, 5]
    yield "a slice with an offset", grid.clone().reshape(-1)[3:200]
    yield "channels last", values((2, 3, 4, 5), torch.float32, rank, 4).contiguous(memory_format=torch.channels_last)
    yield "an empty matrix", torch.empty(0, 5)


def rank_layouts():
    everyone = [dict(layouts(rank)) for rank in range(dist.get_world_size())]
    for name in everyone[0]:
        inputs = [each[name] for each in everyone]
        wanted = [x.clone(memory_format=torch.contiguous_format) for x in inputs]
        mine = inputs[dist.get_rank()]
        strides = mine.stride()
        dist.all_reduce(mine)
        assert mine.stride() == strides, name
        check_reduction(mine.contiguous(), wanted, "SUM")


def test_layouts(world):
    harness.pool(world).run(rank_layouts)


def rank_neighbours_untouched():
    whole = torch.full((1000,), 7.0)
    dist.all_reduce(whole[100:900:2])
    expected = torch.full((1000,), 7.0)
    expected[100:900:2] = 7.0 * dist.get_world_size()
    check_equal(whole, expected, "memory beside a strided view")


def test_a_strided_view_leaves_its_neighbours_alone(world):
    harness.pool(world).run(rank_neighbours_untouched)


# ---- the other collectives: data movement is exact ----


def rank_broadcast(dtype):
    size = dist.get_world_size()
    for root, count in itertools.product(range(size), FEW_SIZES):
        mine = values((count,), dtype, dist.get_rank(), root)
        dist.broadcast(mine, root)
        check_equal(mine, values((count,), dtype, root, root), f"broadcast from {root}")


def rank_reduce(dtype):
    size = dist.get_world_size()
    for root, op in itertools.product(range(size), ("SUM", "MAX")):
        inputs = inputs_of_all((513,), dtype, root)
        mine = inputs[dist.get_rank()].clone()
        dist.reduce(mine, root, operation(op))
        if dist.get_rank() == root:
            check_reduction(mine, inputs, op)


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


def rank_reduce_scatter(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()
    for count in FEW_SIZES:
        everyone = [inputs_of_all((count,), dtype, 10 + source) for source in range(size)]  # [source][destination]
        output = torch.zeros(count, dtype=dtype)
        dist.reduce_scatter(output, [x.clone() for x in everyone[rank]])
        mine = slice(rank * count, (rank + 1) * count)
        check_reduction(output, [torch.cat(row) for row in everyone], "SUM", mine)


def rank_reduce_scatter_tensor(dtype):
    size, rank = dist.get_world_size(), dist.get_rank()
    everyone = inputs_of_all((size * 130, 2), dtype)
    output = torch.zeros(130, 2, dtype=dtype)
    dist.reduce_scatter_tensor(output, everyone[rank].clone())
    check_reduction(output, everyone, "SUM", slice(rank * 130, (rank + 1) * 130))


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
    rank_reduce,
    rank_all_gather,
    rank_gather,
    rank_scatter,
    rank_reduce_scatter,
    rank_reduce_scatter_tensor,
    rank_all_gather_into_tensor,
    rank_all_to_all_single,
    rank_all_to_all,
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.int64, torch.uint8), ids=name_of)
@pytest.mark.parametrize("function", MOVERS, ids=lambda f: f.__name__[5:])
def test_collective(world, function, dtype):
    harness.pool(world).run(function, dtype)


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


def test_all_gather_of_bools():
    harness.pool(3).run(rank_all_gather_of_bools)


def test_inputs_that_alias_outputs(world):
    harness.pool(world).run(rank_in_place)


# ---- coalesced ----


def rank_coalesced():
    shapes = ((3,), (0,), (70, 5), (1000,), ())
    everyone = tensors_of_all(shapes)
    mine = [x.clone() for x in everyone[dist.get_rank()]]
    dist.all_reduce_coalesced(mine)
    for i, result in enumerate(mine):
        check_reduction(result, [each[i] for each in everyone], "SUM")
    outputs = [[torch.zeros_like(x) for x in each] for each in everyone]
    dist.all_gather_coalesced(outputs, everyone[dist.get_rank()])
    for output, wanted in zip(itertools.chain(*outputs), itertools.chain(*everyone)):
        check_equal(output, wanted, "all_gather_coalesced")


@pytest.mark.filterwarnings("ignore")
def test_coalesced(world):
    harness.pool(world).run(rank_coalesced)


def rank_coalescing_manager():
    from torch.distributed.distributed_c10d import _coalescing_manager

    everyone = tensors_of_all([(5,), (300,), (4000,)])
    mine = [x.clone() for x in everyone[dist.get_rank()]]
    with _coalescing_manager(async_ops=True) as manager:
        for tensor in mine:
            dist.all_reduce(tensor)
    manager.wait()
    for i, result in enumerate(mine):
        check_reduction(result, [each[i] for each in everyone], "SUM")


@pytest.mark.skipif(TORCH < (2, 1), reason="the coalescing manager takes plain all_reduce calls from torch 2.1 on")
def test_coalescing_manager(world):
    harness.pool(world).run(rank_coalescing_manager)


def rank_sparse():
    size = dist.get_world_size()
    everyone = [
        torch.sparse_coo_tensor([[rank, rank + 1]], values((2, 3), torch.float32, rank), (size + 1, 3)) for rank in range(size)
    ]
    mine = everyone[dist.get_rank()].clone()
    dist.all_reduce(mine)
    torch.testing.assert_close(mine.to_dense(), sum(x.to_dense() for x in everyone), rtol=1e-5, atol=1e-6)


def test_all_reduce_of_sparse_tensors(world):
    harness.pool(world).run(rank_sparse)


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


def test_objects(world):
    harness.pool(world).run(rank_objects)


# ---- point to point ----


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


# ---- barriers ----


def rank_barriers():
    dist.barrier()
    work = dist.barrier(async_op=True)
    work.wait()
    dist.monitored_barrier(timeout=harness.seconds(20))
    dist.monitored_barrier(timeout=harness.seconds(20), wait_all_ranks=True)


def test_barriers(world):
    harness.pool(world).run(rank_barriers)


def rank_monitored_by_method():
    dist.barrier()
    dist.barrier(async_op=True).wait()
    group = dist.distributed_c10d._get_default_group()
    group.monitored_barrier(harness.seconds(20), wait_all_ranks=True)


def test_barrier_and_the_groups_own_monitored_barrier(world):
    harness.pool(world).run(rank_monitored_by_method)


def rank_many_monitored_barriers(rounds):
    """They go over the store: no group of Gloo's comes into being for them, and none of them leaves anything behind."""
    store = dist.distributed_c10d._get_default_store()
    keys = []
    for i in range(rounds):
        dist.monitored_barrier(timeout=harness.seconds(20), wait_all_ranks=i % 2 == 1)
        keys.append(store.num_keys())
        dist.barrier()
    total = torch.ones(100)
    dist.all_reduce(total)
    assert total.eq(dist.get_world_size()).all()
    return keys[0], keys[-1], way_of_monitored_barriers()


def way_of_monitored_barriers():
    if harness.BACKEND == "gloo":
        return None
    return sys.modules["switchml"].stats()["calls"]["monitored_barrier"]


def test_many_monitored_barriers_in_a_row(world):
    with harness.fresh_pool(world, with_gloo=False) as own:
        for first, last, way in own.run(rank_many_monitored_barriers, 40):
            assert last - first <= world, "the store grows with every call"
            assert way in (None, {"store": 40})
        own.close()


def rank_monitored_subgroups():
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(parity, size, 2))) for parity in (0, 1)]
    for _ in range(1 + rank % 2):  # the groups count their barriers each for itself
        dist.monitored_barrier(groups[rank % 2], timeout=harness.seconds(20))
    dist.monitored_barrier(timeout=harness.seconds(20))


def test_monitored_barriers_of_subgroups(world):
    harness.pool(world).run(rank_monitored_subgroups)


def rank_barrier_orders(path):
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(size):
        if rank == turn:
            with open(path, "a") as stream:
                stream.write(f"{rank}\n")
        dist.barrier()
        with open(path) as stream:
            assert len(stream.readlines()) == turn + 1
        dist.barrier()


def test_a_barrier_holds_everybody(world, tmp_path):
    harness.pool(world).run(rank_barrier_orders, str(tmp_path / "turns"))


# ---- asynchronous ----


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
    """Operations of both paths, interleaved: their order among ranks is the order of the calls."""
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
def test_asynchronous(world, function):
    harness.pool(world).run(function)


def test_callbacks_may_call_collectives(world):
    if harness.BACKEND == "gloo":
        pytest.skip("Gloo's threads deadlock here")
    harness.pool(world).run(rank_future_chain)


# ---- groups ----


def rank_groups():
    """Overlapping groups of several sizes, used in turns, made and destroyed and made again."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(2):
        subsets = [members for count in range(1, size + 1) for members in itertools.combinations(range(size), count)][:11]
        groups = [(members, dist.new_group(list(members))) for members in subsets]
        for members, group in groups + groups[::-1]:
            if rank not in members:
                continue
            total = torch.full((50,), 2.0**rank)
            dist.all_reduce(total, group=group)
            assert total.tolist() == [float(sum(2**r for r in members))] * 50, members
            sent = torch.full((3,), float(rank))
            dist.broadcast(sent, members[-1], group=group)
            assert sent.tolist() == [float(members[-1])] * 3
            assert dist.get_rank(group) == members.index(rank) and dist.get_world_size(group) == len(members)
        for members, group in groups:
            if rank in members:
                dist.destroy_process_group(group)


def test_groups_of_subsets(world):
    harness.pool(world).run(rank_groups)


def rank_groups_at_once():
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3]), dist.new_group([1, 2])]
    mine = [pairs[0]] if dist.get_rank() < 2 else [pairs[1]]
    tensors = [torch.ones(5000) for _ in range(10)]
    everyone = torch.ones(5000)
    works = [dist.all_reduce(x, group=mine[0], async_op=True) for x in tensors]
    works.append(dist.all_reduce(everyone, async_op=True))
    if dist.get_rank() in (1, 2):
        bridge = torch.ones(10)
        dist.all_reduce(bridge, group=pairs[2])
        assert bridge.tolist() == [2.0] * 10
    for work in works:
        work.wait()
    assert all(x.eq(2.0).all() for x in tensors) and everyone.eq(4.0).all()


def test_groups_at_the_same_time():
    harness.pool(4).run(rank_groups_at_once)


def rank_split_group(rank, port):
    """The group's own method: torch.distributed.split_group insists on an accelerator. It does not end on a FileStore."""
    dist.init_process_group(
        harness.BACKEND,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=4,
        timeout=harness.seconds(harness.GROUP_TIMEOUT),
    )
    world = dist.distributed_c10d._get_default_group()
    half = world.split_group([0, 1] if rank < 2 else [2, 3], group_name=f"half {rank // 2}", group_desc="half")
    assert half.size() == 2 and half.rank() == rank % 2
    total = torch.full((500,), float(rank))
    half.allreduce([total]).wait()
    assert total.tolist() == [1.0 if rank < 2 else 5.0] * 500
    dist.all_reduce(total)
    assert total.tolist() == [12.0] * 500
    dist.destroy_process_group()


@pytest.mark.skipif(
    not hasattr(dist.ProcessGroup, "split_group"), reason="this torch splits NCCL groups only, and only through the accelerator"
)
def test_split_group():
    port = harness.free_port(socket.SOCK_STREAM)
    with harness.fresh_pool(4, join_group=False) as own:
        for rank in range(4):
            own.start(rank_split_group, rank, port, ranks=[rank])
        own.finish(timeout=40)


def rank_destroy_and_make_again(folder):
    rank = dist.get_rank()
    for turn in range(3):
        total = torch.full((100,), float(rank + turn))
        dist.all_reduce(total)
        assert total.eq(1.0 + 2 * turn).all()
        dist.destroy_process_group()
        dist.init_process_group(
            harness.BACKEND,
            init_method=f"file://{folder}/again{turn}",
            rank=rank,
            world_size=2,
            timeout=harness.seconds(harness.GROUP_TIMEOUT),
        )


def test_a_group_destroyed_and_made_again(tmp_path):
    with harness.fresh_pool(2, with_gloo=False) as own:
        own.run(rank_destroy_and_make_again, str(tmp_path))
        own.close()


# ---- past 2 GiB ----


def rank_large():
    count = 2**31 + 1000
    mine = torch.full((count,), dist.get_rank() + 1, dtype=torch.uint8)
    mine[-1] = 100
    dist.all_reduce(mine)
    assert mine[0] == 3 and mine[2**31 + 5] == 3 and mine[-1] == 200 and int((mine == 3).sum()) == count - 1


@pytest.mark.large
def test_all_reduce_past_2_gib_of_elements():
    with harness.fresh_pool(2, with_gloo=False, group_timeout=900) as own:
        own.run(rank_large, timeout=900)
