"""Bad arguments: a call that Gloo refuses is refused here at the call, by a RuntimeError in Gloo's words."""

import re

import pytest
import switchml
import torch
import torch.distributed as dist

import harness

CPU = torch.device("cpu")
#: "ProcessGroupGloo::broadcast: ", before what is wrong.
PREFIX = re.compile(r"^ProcessGroupGloo(::\w+:?)? ")
#: An older Gloo has not every collective.
LACKING = re.compile("does not support|no support for")
#: Before torch 2 its dispatcher is asked first, and knows no calls for some devices.
REFUSED_BY = ("switchml ", "Could not run 'c10d::")


def backend_of(group):
    """Below PyTorch's own checks, which differ between its versions. Before torch 2 a group is its backend."""
    return group._get_backend(CPU) if hasattr(group, "_get_backend") else group


def options(kind, **values):
    made = getattr(dist, kind + "Options")()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def zeros(*sizes, dtype=torch.float32):
    return torch.zeros(sizes, dtype=dtype)


def sparse(count=2, dtype=torch.float32):
    return torch.eye(count, dtype=dtype).to_sparse()


def freed(*sizes):
    """A tensor whose memory is gone, as FSDP leaves parameters that it has sharded."""
    tensor = zeros(*sizes)
    (tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()).resize_(0)  # not before 2.0
    return tensor


def one_each(group, tensor=None):
    return [zeros(2) if tensor is None else tensor.clone() for _ in range(group.size())]


def broadcast(group, tensors, root=0, tensor=0):
    return group.broadcast(tensors, options("Broadcast", rootRank=root, rootTensor=tensor))


def reduce(group, tensors, root=0, tensor=0):
    return group.reduce(tensors, options("Reduce", rootRank=root, rootTensor=tensor))


def all_reduce(group, tensors, op=dist.ReduceOp.SUM):
    return group.allreduce(tensors, options("Allreduce", reduceOp=op))


def all_reduce_coalesced(group, tensors):
    return group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions())


def gather(group, outputs, inputs, root):
    return group.gather(outputs, inputs, options("Gather", rootRank=root))


def scatter(group, outputs, inputs, root):
    return group.scatter(outputs, inputs, options("Scatter", rootRank=root))


def to_all(group, output, input, output_splits=(), input_splits=()):
    return group.alltoall_base(output, input, list(output_splits), list(input_splits))


def other(group):
    """A root that is not this rank."""
    return (group.rank() + 1) % group.size()


# Each is made by all ranks, and each rank is to refuse it.
BAD_CALLS = {
    "broadcast": {
        "root below": lambda g: broadcast(g, [zeros(2)], root=-1),
        "root above": lambda g: broadcast(g, [zeros(2)], root=g.size()),
        "root tensor below": lambda g: broadcast(g, [zeros(2)], tensor=-1),
        "root tensor above": lambda g: broadcast(g, [zeros(2)], tensor=1),
        "no tensors": lambda g: broadcast(g, []),
        "types": lambda g: broadcast(g, [zeros(2), zeros(2, dtype=torch.float64)]),
        "sizes": lambda g: broadcast(g, [zeros(2), zeros(3)]),
        "sparse": lambda g: broadcast(g, [sparse()]),
        "device": lambda g: broadcast(g, [zeros(2).to("meta")]),
    },
    "all_reduce": {
        "no tensors": lambda g: all_reduce(g, []),
        "types": lambda g: all_reduce(g, [zeros(2), zeros(2, dtype=torch.float64)]),
        "sizes": lambda g: all_reduce(g, [zeros(2), zeros(3)]),
        "layouts": lambda g: all_reduce(g, [zeros(2, 2), sparse()]),
        "device": lambda g: all_reduce(g, [zeros(2).to("meta")]),
        "sparse types": lambda g: all_reduce(g, [sparse(), sparse(dtype=torch.float64)]),
        "sparse sizes": lambda g: all_reduce(g, [sparse(), sparse(3)]),
        "sparse product": lambda g: all_reduce(g, [sparse()], dist.ReduceOp.PRODUCT),
        "sparse maximum": lambda g: all_reduce(g, [sparse()], dist.ReduceOp.MAX),
        "csr": lambda g: all_reduce(g, [torch.eye(2).to_sparse_csr()]),
        "bits of floats": lambda g: all_reduce(g, [zeros(2)], dist.ReduceOp.BAND),
        "or of floats": lambda g: all_reduce(g, [zeros(2)], dist.ReduceOp.BOR),
        "xor of doubles": lambda g: all_reduce(g, [zeros(2, dtype=torch.float64)], dist.ReduceOp.BXOR),
        "quantized": lambda g: all_reduce(g, [torch.quantize_per_tensor(zeros(2), 1.0, 0, torch.qint32)]),
    },
    "all_reduce_coalesced": {
        "no tensors": lambda g: all_reduce_coalesced(g, []),
        "types": lambda g: all_reduce_coalesced(g, [zeros(2), zeros(2, dtype=torch.float64)]),
        "layouts": lambda g: all_reduce_coalesced(g, [zeros(2, 2), sparse()]),
        "sparse": lambda g: all_reduce_coalesced(g, [sparse(), sparse()]),
        "devices": lambda g: all_reduce_coalesced(g, [zeros(2), zeros(2).to("meta")]),
        "device": lambda g: all_reduce_coalesced(g, [zeros(2).to("meta")]),
    },
    "reduce": {
        "root below": lambda g: reduce(g, [zeros(2)], root=-1),
        "root above": lambda g: reduce(g, [zeros(2)], root=g.size()),
        "root tensor": lambda g: reduce(g, [zeros(2)], tensor=1),
        "no tensors": lambda g: reduce(g, []),
        "two tensors": lambda g: reduce(g, [zeros(2), zeros(2)]),
        "sparse": lambda g: reduce(g, [sparse()]),
        "device": lambda g: reduce(g, [zeros(2).to("meta")]),
    },
    "all_gather": {
        "no tensors": lambda g: g.allgather([], []),
        "no inputs": lambda g: g.allgather([one_each(g)], []),
        "no outputs": lambda g: g.allgather([], [zeros(2)]),
        "fewer lists": lambda g: g.allgather([one_each(g)], [zeros(2), zeros(2)]),
        "short list": lambda g: g.allgather([one_each(g)[1:]], [zeros(2)]),
        "long list": lambda g: g.allgather([one_each(g) * 2], [zeros(2)]),
        "second list": lambda g: g.allgather([one_each(g) * 2, one_each(g)], [zeros(2), zeros(2)]),
        "types": lambda g: g.allgather([one_each(g, zeros(2, dtype=torch.float64))], [zeros(2)]),
        "sizes": lambda g: g.allgather([one_each(g, zeros(3))], [zeros(2)]),
        "one size": lambda g: g.allgather([one_each(g)[1:] + [zeros(3)]], [zeros(2)]),
        "shapes": lambda g: g.allgather([one_each(g, zeros(2, 3))], [zeros(3, 2)]),
        "inputs' types": lambda g: g.allgather([one_each(g) * 2] * 2, [zeros(2), zeros(2, dtype=torch.float64)]),
        "sparse": lambda g: g.allgather([one_each(g, zeros(2, 2))], [sparse()]),
        "device": lambda g: g.allgather([one_each(g, zeros(2).to("meta"))], [zeros(2).to("meta")]),
    },
    "all_gather_coalesced": {
        "no inputs": lambda g: g.allgather_coalesced([one_each(g)], []),
        "too few lists": lambda g: g.allgather_coalesced([[zeros(2)]], [zeros(2)]),
        "no lists": lambda g: g.allgather_coalesced([], [zeros(2)]),
        "short lists": lambda g: g.allgather_coalesced([[zeros(2)]] * g.size(), [zeros(2), zeros(2)]),
        "sizes": lambda g: g.allgather_coalesced([[zeros(3)]] * g.size(), [zeros(2)]),
        "types": lambda g: g.allgather_coalesced([[zeros(2, dtype=torch.float64)]] * g.size(), [zeros(2)]),
        "sparse": lambda g: g.allgather_coalesced([[sparse()]] * g.size(), [sparse()]),
        "devices": lambda g: g.allgather_coalesced([[zeros(2)] * 2] * g.size(), [zeros(2), zeros(2).to("meta")]),
    },
    "gather": {
        "root below": lambda g: gather(g, [one_each(g)], [zeros(2)], -1),
        "root above": lambda g: gather(g, [one_each(g)], [zeros(2)], g.size()),
        "no inputs": lambda g: gather(g, [one_each(g)], [], g.rank()),
        "two inputs": lambda g: gather(g, [one_each(g)], [zeros(2)] * 2, g.rank()),
        "no outputs": lambda g: gather(g, [], [zeros(2)], g.rank()),
        "two lists": lambda g: gather(g, [one_each(g)] * 2, [zeros(2)], g.rank()),
        "short list": lambda g: gather(g, [one_each(g)[1:]], [zeros(2)], g.rank()),
        "types": lambda g: gather(g, [one_each(g, zeros(2, dtype=torch.float64))], [zeros(2)], g.rank()),
        "sizes": lambda g: gather(g, [one_each(g, zeros(3))], [zeros(2)], g.rank()),
        "outputs elsewhere": lambda g: gather(g, [one_each(g)], [zeros(2)], other(g)),
        "sparse": lambda g: gather(g, [one_each(g)], [sparse()], g.rank()),
        "device": lambda g: gather(g, [one_each(g, zeros(2).to("meta"))], [zeros(2).to("meta")], g.rank()),
    },
    "scatter": {
        "root below": lambda g: scatter(g, [zeros(2)], [one_each(g)], -1),
        "root above": lambda g: scatter(g, [zeros(2)], [one_each(g)], g.size()),
        "no outputs": lambda g: scatter(g, [], [one_each(g)], g.rank()),
        "two outputs": lambda g: scatter(g, [zeros(2)] * 2, [one_each(g)], g.rank()),
        "no inputs": lambda g: scatter(g, [zeros(2)], [], g.rank()),
        "two lists": lambda g: scatter(g, [zeros(2)], [one_each(g)] * 2, g.rank()),
        "long list": lambda g: scatter(g, [zeros(2)], [one_each(g) * 2], g.rank()),
        "types": lambda g: scatter(g, [zeros(2)], [one_each(g, zeros(2, dtype=torch.float64))], g.rank()),
        "sizes": lambda g: scatter(g, [zeros(2)], [one_each(g, zeros(3))], g.rank()),
        "inputs elsewhere": lambda g: scatter(g, [zeros(2)], [one_each(g)], other(g)),
        "sparse": lambda g: scatter(g, [sparse()], [one_each(g)], g.rank()),
        "device": lambda g: scatter(g, [zeros(2).to("meta")], [one_each(g, zeros(2).to("meta"))], g.rank()),
    },
    "reduce_scatter": {
        "no outputs": lambda g: g.reduce_scatter([], [one_each(g)]),
        "no inputs": lambda g: g.reduce_scatter([zeros(2)], []),
        "two outputs": lambda g: g.reduce_scatter([zeros(2)] * 2, [one_each(g)] * 2),
        "short list": lambda g: g.reduce_scatter([zeros(2)], [one_each(g)[1:]]),
    },
    "all_to_all_single": {
        "input splits": lambda g: to_all(g, zeros(g.size()), zeros(g.size()), [], [g.size()]),
        "output splits": lambda g: to_all(g, zeros(g.size()), zeros(g.size()), [1] * (g.size() + 1), [1] * g.size()),
        "input splits' sum": lambda g: to_all(g, zeros(g.size()), zeros(g.size()), [1] * g.size(), [2] * g.size()),
        "output splits' sum": lambda g: to_all(g, zeros(g.size()), zeros(g.size()), [2] * g.size(), [1] * g.size()),
        "divisible output": lambda g: to_all(g, zeros(g.size() + 1), zeros(g.size()), [], [1] * g.size()),
        "sparse": lambda g: to_all(g, sparse(g.size()), sparse(g.size())),
        "devices": lambda g: to_all(g, zeros(g.size()), zeros(g.size()).to("meta")),
        "device": lambda g: to_all(g, zeros(g.size()).to("meta"), zeros(g.size()).to("meta")),
    },
    "all_to_all": {
        "no tensors": lambda g: g.alltoall([], []),
        "short": lambda g: g.alltoall(one_each(g)[1:], one_each(g)),
        "short input": lambda g: g.alltoall(one_each(g), one_each(g)[1:]),
    },
    "send": {
        "no tensors": lambda g: g.send([], other(g), 0),
        "two tensors": lambda g: g.send([zeros(2), zeros(2)], other(g), 0),
        "tag": lambda g: g.send([zeros(2)], other(g), -1),
    },
    "recv": {
        "no tensors": lambda g: g.recv([], other(g), 0),
        "two tensors": lambda g: g.recv([zeros(2), zeros(2)], other(g), 0),
        "tag": lambda g: g.recv([zeros(2)], other(g), -1),
        "strides": lambda g: g.recv([zeros(4)[::2]], other(g), 0),
        "any: no tensors": lambda g: g.recv_anysource([], 0),
        "any: tag": lambda g: g.recv_anysource([zeros(2)], -1),
        "any: strides": lambda g: g.recv_anysource([zeros(4)[::2]], 0),
    },
}


# What Gloo accepts, waits for until its timeout, or says in words that are for its developers.
BAD_HERE = {
    "all_reduce": {"freed": lambda g: all_reduce(g, [freed(2)])},
    "broadcast": {"freed": lambda g: broadcast(g, [freed(2)])},
    "all_gather": {"freed": lambda g: g.allgather([[freed(2)] * g.size()], [zeros(2)])},
    "all_gather_into_tensor": {
        "freed": lambda g: g._allgather_base(zeros(2 * g.size()), freed(2)),
        "sizes": lambda g: g._allgather_base(zeros(3 * g.size()), zeros(2)),
        "types": lambda g: g._allgather_base(zeros(2 * g.size(), dtype=torch.float64), zeros(2)),
    },
    "reduce_scatter": {
        "freed": lambda g: g.reduce_scatter([zeros(2)], [[freed(2)] * g.size()]),
        "types": lambda g: g.reduce_scatter([zeros(2, dtype=torch.float64)], [one_each(g)]),
        "sizes": lambda g: g.reduce_scatter([zeros(3)], [one_each(g)]),
    },
    "reduce_scatter_tensor": {
        "sizes": lambda g: g._reduce_scatter_base(zeros(3), zeros(2 * g.size())),
        "types": lambda g: g._reduce_scatter_base(zeros(2), zeros(2 * g.size(), dtype=torch.float64)),
    },
    "all_to_all_single": {
        "not divisible": lambda g: to_all(g, zeros(g.size() + 1), zeros(g.size() + 1)),
        "sizes": lambda g: to_all(g, zeros(g.size()), zeros(2 * g.size())),
        "negative": lambda g: to_all(
            g, zeros(g.size()), zeros(g.size()), [1] * g.size(), [-1, 3] + [1] * (g.size() - 2)
        ),
    },
    "send": {
        "freed": lambda g: g.send([freed(2)], other(g), 0),
        "sparse": lambda g: g.send([sparse()], other(g), 0),
        "rank above": lambda g: g.send([zeros(2)], g.size(), 0),
        "rank below": lambda g: g.send([zeros(2)], -1, 0),
        "device": lambda g: g.send([zeros(2).to("meta")], other(g), 0),
    },
    "recv": {
        "freed": lambda g: g.recv([freed(2)], other(g), 0),
        "sparse": lambda g: g.recv([sparse()], other(g), 0),
        "rank above": lambda g: g.recv([zeros(2)], g.size(), 0),
        "rank below": lambda g: g.recv([zeros(2)], -1, 0),
        "device": lambda g: g.recv([zeros(2).to("meta")], other(g), 0),
    },
}


def refusal(bad, group, wait):
    """The text of the RuntimeError in which a bad call ends."""
    try:
        work = bad(group)
        if wait:
            work.wait()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    except Exception as error:
        return error
    return None


def rank_refusals(call, compare):
    """The cases of a call that are not refused as they should be, with both texts. Gloo may find some in wait()
    only."""
    ours, theirs = dist.distributed_c10d._get_default_group(), harness.gloo()
    counted = switchml.stats()["calls"], backend_of(ours)._get_sequence_number_for_group()
    wrong = []
    for name, bad in (BAD_CALLS if compare else BAD_HERE)[call].items():
        said = refusal(bad, backend_of(ours), wait=False)
        known = refusal(bad, backend_of(theirs), wait=True) if compare else ""
        if (
            not (isinstance(said, str) and said.startswith(REFUSED_BY) and isinstance(known, str))
            or PREFIX.sub("", known) not in said
            and not LACKING.search(known)
        ):
            wrong.append((name, said, known))
    assert counted == (switchml.stats()["calls"], backend_of(ours)._get_sequence_number_for_group())
    total = torch.ones(3)
    dist.all_reduce(total)
    dist.broadcast(total, 0)
    assert total.tolist() == [dist.get_world_size()] * 3
    return wrong


@pytest.mark.parametrize("call", BAD_CALLS)
def test_what_gloo_refuses_is_refused_at_the_call_in_its_words(world, call):
    assert harness.pool(world).run(rank_refusals, call, True) == [[]] * world


@pytest.mark.parametrize("call", BAD_HERE)
def test_other_bad_arguments_are_refused_at_the_call(world, call):
    assert harness.pool(world).run(rank_refusals, call, False) == [[]] * world
