"""What the tests of collectives share: sizes and types, what every rank puts in, and the same call over Gloo."""

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
        [values(shape, torch.float32, rank, seed) for seed, shape in enumerate(shapes)] for rank in range(dist.get_world_size())
    ]


def gloo_result(function, *tensors):
    """What Gloo makes of the same call, or None where Gloo does not have it (it says so on every rank alike)."""
    try:
        function(gloo(), *tensors)
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    return tensors
