"""Holds the tables of docs/collectives.md to what switchml.stats() counts: every collective, operation and type."""

import contextlib
import itertools
import os
import re

import pytest
import torch
import torch.distributed as dist

import controlled
import harness
from documented import BY_TYPE, COUNTED_AS, OTHERS, ROOT, WAYS, counts, names_in
from harness import TORCH, gloo
from oracle import OPERATIONS, operation

pytestmark = [
    pytest.mark.skipif(harness.BACKEND == "gloo", reason="Gloo counts nothing"),
    pytest.mark.filterwarnings("ignore"),
]

TYPES = [
    "float32",
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float64",
    "bool",
    "complex64",
    "complex128",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
]
#: Names that PyTorch gives calls that Python cannot make.
ONLY_FROM_CPP = {"all_reduce_sparse"}


# ---- the tables ----


def ways_by_type(table):
    """(collective, operation, type) -> way, as the table has it. Fails where two rows speak of the same."""
    result = {}
    for row in table:
        collectives = COUNTED_AS if row["collectives"] == "all" else names_in(row["collectives"])
        by_operation = {column: cell for column, cell in row.items() if column not in ("types", "collectives")}
        operations = [(op, cell) for column, cell in by_operation.items() for op in column.split(", ")]
        for collective, dtype, (op, way) in itertools.product(collectives, row["types"].split(", "), operations):
            assert (collective, op, dtype) not in result, f"two rows for {collective} of {op} of {dtype}"
            result[collective, op, dtype] = way
    return result


def test_the_table_is_complete():
    wanted = set(itertools.product(COUNTED_AS, OPERATIONS, TYPES))
    assert set(ways_by_type(BY_TYPE)) == wanted
    assert set(ways_by_type(BY_TYPE).values()) == {"switch", "refused"}
    assert [row["way"] for row in WAYS] == ["switch", "memory", "peers", "store", "local"]


def test_every_counter_is_in_a_table():
    with open(os.path.join(ROOT, "backend", "c10d", "call_table.cc")) as stream:
        counters = set(re.findall(r'"switchml:(\w+)"', stream.read()))
    assert len(counters) > 15
    documented = set(COUNTED_AS.values()).union(*(names_in(row["counted as"]) for row in OTHERS))
    assert documented | ONLY_FROM_CPP == counters


# ---- inside a rank ----


def counted(function):
    """({(name, way)} that the call was counted under, its error or None)."""
    before = counts()
    error = harness.caught(function)
    return {key for key, count in counts().items() if count != before.get(key, 0)}, error


def ones(count, dtype):
    return torch.ones(count).to(dtype)


def through_manager(function, *args):
    from torch.distributed.distributed_c10d import _coalescing_manager

    with _coalescing_manager():
        function(*args)


def reduction(collective, op, dtype, group=None):
    """The call, over `group`."""
    size = dist.get_world_size()
    if collective == "reduce_scatter_tensor_coalesced":
        options = dist.ReduceScatterOptions()
        options.reduceOp = op
        target = group or dist.distributed_c10d._get_default_group()
        return target.reduce_scatter_tensor_coalesced([ones(3, dtype)], [ones(3 * size, dtype)], options).wait()
    function = getattr(dist, collective)
    arguments = {
        "all_reduce": lambda: [ones(3, dtype)],
        "all_reduce_coalesced": lambda: [[ones(3, dtype), ones(5, dtype)]],
        "reduce": lambda: [ones(3, dtype), 0],
        "reduce_scatter": lambda: [ones(3, dtype), [ones(3, dtype) for _ in range(size)]],
        "reduce_scatter_tensor": lambda: [ones(3, dtype), ones(3 * size, dtype)],
    }[collective]()
    return function(*arguments, op=op, group=group)


def check_reduction_of(collective, name, dtype, way):
    seen, error = counted(lambda: reduction(collective, operation(name), dtype))
    what = f"{collective} of {name} of {dtype}: the table has {way}, counted was {seen}, the error is {error}"
    if way == "refused":
        assert error and ("local" not in str(seen)) and ("switch" not in str(seen)), what
    else:
        assert error is None and seen == {(COUNTED_AS[collective], way)}, what
    if error:
        refused = harness.caught(lambda: reduction(collective, operation(name), dtype, gloo()))
        assert refused, f"{what}; Gloo does it"


def known_types():
    return [name for name in TYPES if hasattr(torch, name)]


def rank_reductions(collective, local):
    for (name, op, dtype), way in ways_by_type(BY_TYPE).items():
        if name == collective and dtype in known_types():
            if op == "PREMUL_SUM" and not hasattr(dist, "_make_nccl_premul_sum"):
                continue
            way = "local" if local and way == "switch" else way
            check_reduction_of(collective, op, getattr(torch, dtype), way)


def p2p(sending, receiving, **source):
    """Rank 0 sends, rank 1 receives."""

    def call(dtype):
        if dist.get_rank() == 0:
            work = sending(ones(4, dtype), 1)
        else:
            work = receiving(ones(4, dtype), **source)
        return work.wait() if hasattr(work, "wait") else None

    return call


def batch(dtype):
    other = 1 - dist.get_rank()
    operations = [dist.P2POp(dist.isend, ones(4, dtype), other), dist.P2POp(dist.irecv, ones(4, dtype), other)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


GATHER_SINGLE = "`gather_single`, from PyTorch 2.14 on"


def other_calls():
    """The first cell of a row -> the calls it speaks of, as functions of a type."""
    size, root = dist.get_world_size(), dist.get_rank() == 0

    def many(dtype):
        return [ones(4, dtype) for _ in range(size)]

    result = {
        "`barrier`": [lambda dtype: dist.barrier()],
        "`monitored_barrier`": [lambda dtype: dist.monitored_barrier(timeout=harness.seconds(20))],
        "`broadcast`": [lambda dtype: dist.broadcast(ones(4, dtype), 0)],
        "`broadcast_object_list`": [lambda dtype: dist.broadcast_object_list([str(dtype)], 0)],
        "`all_gather`": [lambda dtype: dist.all_gather(many(dtype), ones(4, dtype))],
        "`all_gather_object`": [lambda dtype: dist.all_gather_object([None] * size, str(dtype))],
        "`all_gather_coalesced`": [
            lambda dtype: dist.all_gather_coalesced([[x] for x in many(dtype)], [ones(4, dtype)])
        ],
        "`all_gather_into_tensor`": [lambda dtype: dist.all_gather_into_tensor(ones(4 * size, dtype), ones(4, dtype))],
        "`gather`": [lambda dtype: dist.gather(ones(4, dtype), many(dtype) if root else None, 0)],
        "`gather_object`": [lambda dtype: dist.gather_object(str(dtype), [None] * size if root else None, 0)],
        "`scatter`": [lambda dtype: dist.scatter(ones(4, dtype), many(dtype) if root else None, 0)],
        "`scatter_object_list`": [
            lambda dtype: dist.scatter_object_list([None], [str(dtype)] * size if root else None, 0)
        ],
        "`all_to_all`": [lambda dtype: dist.all_to_all(many(dtype), many(dtype))],
        "`all_to_all_single`": [lambda dtype: dist.all_to_all_single(ones(4 * size, dtype), ones(4 * size, dtype))],
    }
    if TORCH >= (2, 1):
        result["`all_gather_into_tensor`, coalesced"] = [
            lambda dtype: through_manager(dist.all_gather_into_tensor, ones(4 * size, dtype), ones(4, dtype))
        ]
    if hasattr(dist, "gather_single"):
        result[GATHER_SINGLE] = [
            lambda dtype: dist.gather_single(ones(4, dtype), ones(4 * size, dtype) if root else None, dst=0)
        ]
    if size > 1:
        from_rank_0 = [p2p(dist.send, dist.recv, src=0), p2p(dist.isend, dist.irecv, src=0)]
        result.update({"`send`, `isend`": from_rank_0, "`recv`, `irecv`": from_rank_0, "`batch_isend_irecv`": [batch]})
        result["`recv` from any rank"] = [p2p(dist.send, dist.recv)]
    return result


def rank_other_calls(column):
    """column: the one that has the way for groups of this size."""
    rank, calls = dist.get_rank(), other_calls()
    newer = set() if TORCH >= (2, 1) else {"`all_gather_into_tensor`, coalesced"}
    newer |= set() if hasattr(dist, "gather_single") else {GATHER_SINGLE}
    assert {row["call"] for row in OTHERS if row[column]} == set(calls) | newer
    for row in OTHERS:
        names = names_in(row["counted as"])
        for function, dtype in itertools.product(calls.get(row["call"], ()), known_types()):
            seen, error = counted(lambda: function(getattr(torch, dtype)))
            what = f"{row['call']} of {dtype}: the table has {names}, {row[column]}; counted was {seen}, the error is {error}"
            assert error is None, what
            if "send" in row["call"] and "batch" not in row["call"] and rank == 1:
                continue  # it received
            if "recv" in row["call"] and "batch" not in row["call"] and rank == 0:
                continue  # it sent
            assert seen == {(name, row[column]) for name in names}, what


def rank_coalescing_manager():
    size = dist.get_world_size()
    calls = {
        "all_reduce_coalesced": lambda: through_manager(dist.all_reduce, ones(4, torch.float32)),
        "reduce_scatter_tensor_coalesced": lambda: through_manager(
            dist.reduce_scatter_tensor, ones(4, torch.float32), ones(4 * size, torch.float32)
        ),
    }
    for name, call in calls.items():
        assert counted(call) == ({(name, "switch")}, None)


def rank_notes():
    """What the page says below the table of types."""
    group = dist.distributed_c10d._get_default_group()
    for other in (torch.float64, torch.float16):
        tensors = [ones(4, torch.float32), ones(4, other)]
        assert harness.caught(lambda: group.allreduce_coalesced(tensors).wait()), "tensors of two types"
    sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (4,))
    assert counted(lambda: dist.all_reduce(sparse)) == ({("all_reduce", "switch")}, None)
    for name, dtype in (("AVG", torch.int32), ("PREMUL_SUM", torch.float32)):
        if name == "AVG" or hasattr(dist, "_make_nccl_premul_sum"):
            assert harness.caught(lambda: dist.all_reduce(ones(4, dtype), operation(name), group=gloo())), (
                f"Gloo has {name}"
            )
    for dtype, most in ((torch.int8, 127), (torch.uint8, 255), (torch.int16, 2**15 - 1), (torch.int64, 2**63 - 1)):
        average = torch.tensor([most, -most - 1 if dtype.is_signed else 0, 5]).to(dtype)
        dist.all_reduce(average[::2], dist.ReduceOp.AVG)
        dist.all_reduce(average[1], dist.ReduceOp.AVG)
        assert average.tolist() == [most, -most - 1 if dtype.is_signed else 0, 5]
    average = torch.tensor([-3, 3]) if dist.get_rank() == 0 else torch.tensor([0, 0])
    dist.all_reduce(average, dist.ReduceOp.AVG)
    assert average.tolist() == [-1, 1]


# ---- tests ----


#: Who adds: how many ranks, and their settings.
PLACES = {
    "alone": (1, {}),
    "memory": (2, {"SWITCHML_TRANSPORT": "shm"}),
    "software switch": (2, {"SWITCHML_TRANSPORT": "udp"}),
    "software switch over TCP": (2, {"SWITCHML_TRANSPORT": "tcp"}),
    "integer switch": (2, {"SWITCHML_TRANSPORT": "udp", "SWITCHML_PRECISION": "integer"}),
    "integer switch and hosts": (2, {"SWITCHML_TRANSPORT": "auto", "SWITCHML_PRECISION": "auto"}),
}


@pytest.fixture(scope="module", params=PLACES)
def ranks(request):
    size, environment = PLACES[request.param]
    with contextlib.ExitStack() as stack:
        if request.param == "integer switch and hosts":
            pytest.importorskip("grpc", reason="needs grpcio: pip install grpcio protobuf")
            if controlled.MISSING:
                pytest.skip(controlled.MISSING)
            environment = stack.enter_context(controlled.one_switch(**environment))
        yield stack.enter_context(harness.fresh_pool(size, environment=environment))


@pytest.mark.parametrize("collective", COUNTED_AS)
def test_reductions(ranks, collective):
    if collective == "reduce_scatter_tensor_coalesced" and not hasattr(dist.ProcessGroup, collective):
        pytest.skip(f"torch {torch.__version__} has no {collective}")
    ranks.run(rank_reductions, collective, ranks.size == 1)


def test_other_calls(ranks):
    in_memory = ranks.environment.get("SWITCHML_TRANSPORT") in ("shm", "auto")
    ranks.run(rank_other_calls, "group of one" if ranks.size == 1 else "in memory" if in_memory else "between hosts")


@pytest.mark.skipif(TORCH < (2, 1), reason="the coalescing manager takes plain calls from torch 2.1 on")
def test_coalescing_manager():
    harness.pool(2).run(rank_coalescing_manager)


def test_notes():
    harness.pool(2).run(rank_notes)
