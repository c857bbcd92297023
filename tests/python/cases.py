"""What the tests of collectives share: sizes and types, what every rank puts in, and the same call over Gloo."""

import random

import torch
import torch.distributed as dist

from harness import gloo
from oracle import values

#: Around vectors, blocks (256 elements), payloads (64 words to 63 KiB) and windows.
SIZES = (0, 1, 7, 63, 64, 65, 255, 256, 257, 8191, 8192, 8193, 16129, 100003)
FEW_SIZES = (0, 1, 257, 8193)
#: For collectives to which a type is a width and no more, or whose arithmetic all_reduce's tests have covered.
MOVED_TYPES = (torch.float32, torch.float16, torch.int64, torch.uint8)


def name_of(dtype):
    return str(dtype).replace("torch.", "")


def inputs_of_all(shape, dtype, seed=0, small=False, group=None):
    return [values(shape, dtype, rank, seed, small) for rank in range(dist.get_world_size(group))]


def tensors_of_all(shapes):
    """[rank][i]: a tensor of shapes[i]."""
    return [
        [values(shape, torch.float32, rank, seed) for seed, shape in enumerate(shapes)]
        for rank in range(dist.get_world_size())
    ]


def layouts(rank, dtype, seed=3, small=False):
    """(name, a fresh tensor of rank `rank`) for every kind of memory layout."""
    grid = values((12, 34), dtype, rank, seed, small)
    yield "zero dimensions", grid[0, 0].clone()
    yield "transposed", grid.clone().t()
    yield "transposed on some ranks", grid.clone().t() if rank % 2 else grid.t().contiguous()
    yield "every third column", grid.clone()[:, ::3]
    yield "a column", grid.clone()[:, 5]
    yield "a slice with an offset", grid.clone().reshape(-1)[3:200]
    yield "channels last", values((2, 3, 4, 5), dtype, rank, seed, small).contiguous(memory_format=torch.channels_last)
    yield "an empty matrix", torch.empty(0, 5, dtype=dtype)


def beside(view):
    """What lies in a tensor's memory and is not of the tensor: no call may write there."""
    memory = view.untyped_storage() if hasattr(view, "untyped_storage") else view.storage()  # not before 2.0
    whole = view.as_strided((memory.nbytes() // view.element_size(),), (1,), 0).clone()
    whole.as_strided(view.size(), view.stride(), view.storage_offset()).zero_()
    return whole


def gloo_result(function, *tensors):
    """What Gloo makes of the same call, or None where Gloo does not have it (it says so on every rank alike)."""
    try:
        function(gloo(), *tensors)
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    return tensors


class AliasedParts:
    """The tensors of one rank in a call of several parts: views of one memory, overlapping at random. Sizes and steps
    are the same on all ranks (a function of the seed), where the views lie is not. Small whole numbers: sums are exact
    in any type."""

    def __init__(self, seed, rank, ranks, dtype, longest, sizes):
        """sizes(lengths of the parts, ranks): elements of each input, and of each output or None: in place."""
        common, own = random.Random(seed), random.Random(seed * 1000 + rank)
        self.operation = common.choice(("SUM", "SUM", "MAX") if dtype.is_floating_point else ("SUM", "AVG", "MAX"))
        lengths = [common.choice((1, 7, 64, common.randint(1, longest))) for _ in range(common.randint(2, 5))]
        inputs, outputs = sizes(lengths, ranks)
        steps = [1 if outputs else common.choice((1, 1, 2)) for _ in inputs]
        # A room hardly larger than the largest view: most views overlap.
        room = max(
            n * step for n, step in zip(inputs + (outputs or []), steps + [1] * len(outputs or []))
        ) + common.randint(0, 9)
        generator = torch.Generator().manual_seed(seed * 1000 + rank)
        self.memory = torch.randint(-60, 60, (room,), generator=generator).to(dtype)
        self._inputs = [self._place(own, room, n, step) for n, step in zip(inputs, steps)]
        self._outputs = [self._place(own, room, n, 1) for n in outputs] if outputs else self._inputs

    @staticmethod
    def _place(own, room, count, step):
        begin = own.choice((0, own.randint(0, room - count * step)))
        return slice(begin, begin + count * step, step)

    def __repr__(self):
        return f"inputs {self._inputs}, outputs {self._outputs}"

    def inputs(self):
        return [self.memory[where] for where in self._inputs]

    def outputs(self):
        return [self.memory[where] for where in self._outputs]

    def write(self, results):
        """results, in their order, to the outputs."""
        for output, result in zip(self.outputs(), results):
            output.copy_(result)
