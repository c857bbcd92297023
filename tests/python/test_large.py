"""Tensors of more than 2**31 elements, for indices that do not fit 32 bits. Run with --large: two ranks on this
machine, which check what they get piece by piece, so that memory holds the tensors and little else."""

import contextlib

import pytest
import torch
import torch.distributed as dist

import harness

COUNT = 2**31 + 1000
PIECE = 2**24  # elements checked at a time
SECONDS = 1200
#: Positions with values of their own: at the ends, and around where 31 and, in bytes, 32 bits end.
MARKS = (0, 1, 2**30 + 7, 2**31 - 1, 2**31, 2**31 + 5, COUNT - 1)


def available_gib():
    with open("/proc/meminfo") as stream:
        kib = next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable:"))
    return kib / 2**20


@contextlib.contextmanager
def two_ranks(gib):
    """Ranks that may use that much memory together. Too little is a failure and no skip: --large has asked for it."""
    free = available_gib()
    assert free > gib + 1, f"this test needs {gib} GiB of memory and 1 to spare, {free:.1f} are available"
    with harness.fresh_pool(2, with_gloo=False, group_timeout=SECONDS) as own:
        yield own


def mark(position):
    """Small: sums of both ranks' are exact in every type here."""
    return 1 + MARKS.index(position)


def marked(dtype, rank):
    """COUNT elements: rank + 1, and at the marks that times mark()."""
    tensor = torch.full((COUNT,), rank + 1, dtype=dtype)
    for position in MARKS:
        tensor[position] = (rank + 1) * mark(position)
    return tensor


def check_sum(tensor, first, what):
    """`tensor` is the part of the sum of both ranks' marked() that begins at `first`."""
    for begin in range(0, tensor.numel(), PIECE):
        piece = tensor[begin : begin + PIECE]
        wanted = torch.full_like(piece, 3)
        for position in MARKS:
            if 0 <= position - first - begin < piece.numel():
                wanted[position - first - begin] = 3 * mark(position)
        wrong = (piece != wanted).nonzero()
        if len(wrong):
            at = int(wrong[0])
            raise AssertionError(f"{what}: element {first + begin + at} is {piece[at].item()}, not {wanted[at].item()}")


def way_of(call):
    """Where all calls of that kind went; None over Gloo."""
    if harness.BACKEND == "gloo":
        return None
    import switchml

    return set(switchml.stats()["calls"][call])


def rank_all_reduce(dtype):
    mine = marked(dtype, dist.get_rank())
    dist.all_reduce(mine)
    assert way_of("all_reduce") in (None, {"memory"})
    check_sum(mine, 0, f"all_reduce of {dtype}")


@pytest.mark.large
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("dtype, gib", [(torch.uint8, 5), (torch.bfloat16, 10)], ids=("uint8", "bfloat16"))
def test_all_reduce(dtype, gib):
    with two_ranks(gib) as own:
        own.run(rank_all_reduce, dtype, timeout=SECONDS)


def rank_reduce_scatter_tensor():
    rank = dist.get_rank()
    output = torch.zeros(COUNT // 2, dtype=torch.int8)
    dist.reduce_scatter_tensor(output, marked(torch.int8, rank))
    assert way_of("reduce_scatter_tensor") in (None, {"memory"})
    check_sum(output, rank * (COUNT // 2), "reduce_scatter_tensor")


@pytest.mark.large
@pytest.mark.timeout(SECONDS)
def test_reduce_scatter_tensor():
    with two_ranks(7) as own:
        own.run(rank_reduce_scatter_tensor, timeout=SECONDS)


def rank_broadcast():
    mine = marked(torch.uint8, 2) if dist.get_rank() == 0 else torch.zeros(COUNT, dtype=torch.uint8)
    dist.broadcast(mine, 0)
    check_sum(mine, 0, "broadcast")


@pytest.mark.large
@pytest.mark.timeout(SECONDS)
def test_broadcast():
    with two_ranks(5) as own:
        own.run(rank_broadcast, timeout=SECONDS)
