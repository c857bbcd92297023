"""All-reduces of the engines that serve models on CPUs, each as a function of the tensor that gives a call without
arguments. Their packages are imported only where they take part."""

import functools
import itertools
import os
import pathlib
import sys
import types

import member
import torch
import torch.distributed as dist


def ordinary(count, kind):
    return torch.empty(count, dtype=kind)


def of_group(group, allocate=ordinary):
    return types.SimpleNamespace(
        allocate=allocate, call=lambda tensor: functools.partial(dist.all_reduce, tensor, group=group)
    )


@functools.cache
def own_group():
    return member.new_group("switchml")


def switchml():
    return of_group(own_group())


def arena():
    import switchml

    def allocate(count, kind):
        before = switchml.stats(own_group())["arena_bytes"]
        tensor = switchml.empty(count, dtype=kind, group=own_group())
        if switchml.stats(own_group())["arena_bytes"] == before:
            raise ValueError(f"no room for {count} elements in the arena")
        return tensor

    return of_group(own_group(), allocate)


def alone():
    groups = [member.new_group("switchml", ranks=[rank]) for rank in range(dist.get_world_size())]
    return of_group(groups[dist.get_rank()])


class Shared:
    """No engine, but what no engine with sums in tensors can be faster than: the tensors of all ranks lie in one
    mapping, and each rank adds its part of them where it is, a piece that a cache holds at a time."""

    PIECE = 16 << 10  # elements

    def __init__(self):
        self.pace, self.files = member.Pace(network=False, store=sys.argv[1]), itertools.count()

    def allocate(self, count, kind):
        folder, size = pathlib.Path(sys.argv[1]).parent.name, dist.get_world_size()
        path = pathlib.Path("/dev/shm") / f"{folder}-{next(self.files)}"
        with path.open("ab") as file:
            file.truncate(size * count * kind.itemsize)
        self.ranks = torch.from_file(str(path), shared=True, size=size * count, dtype=kind).view(size, count)
        dist.barrier()
        path.unlink(missing_ok=True)  # all have it by now
        return self.ranks[dist.get_rank()]

    def call(self, tensor):
        mine = self.ranks.tensor_split(dist.get_world_size(), 1)[dist.get_rank()].split(self.PIECE, 1)
        pieces = [piece.unbind() for piece in mine]

        def add():
            self.pace()
            for total, *others in pieces:
                for other in others:
                    total.add_(other)
                for other in others:
                    other.copy_(total)
            self.pace()

        return add


def in_place():
    return Shared()


def gloo():
    return of_group(member.new_group("gloo"))


def vllm():
    """Its shared memory, as vllm/distributed/device_communicators/cpu_communicator.py opens it."""
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    name = [f"switchml-bench-{os.getpid()}"]
    dist.broadcast_object_list(name)
    handle = torch.ops._C.init_shm_manager(name[0], dist.get_world_size(), dist.get_rank(), torch.get_num_threads())
    dist.barrier()
    torch.ops._C.join_shm_manager(handle, name[0])
    dist.barrier()
    pathlib.Path(f"/dev/shm/{name[0]}_{dist.get_rank()}").unlink()  # all have it by now
    return types.SimpleNamespace(
        allocate=ordinary, call=lambda tensor: functools.partial(torch.ops._C.shm_allreduce, handle, tensor)
    )


def deepspeed():
    """Its shared memory, as deepspeed/comm/torch.py opens it; compiled at the first time."""
    from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder

    size, rank, name = dist.get_world_size(), dist.get_rank(), [str(os.getpid())]
    dist.broadcast_object_list(name)
    os.environ |= {"LOCAL_SIZE": str(size), "MASTER_ADDR": "switchml-bench", "MASTER_PORT": name[0]}
    ShareMemCommBuilder().load(verbose=False).initialize(size, rank)
    dist.barrier()
    for path in pathlib.Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_switchml-bench_{name[0]}_{rank}"):
        path.unlink()  # all have it by now, and it stays otherwise
    return types.SimpleNamespace(
        allocate=ordinary, call=lambda tensor: functools.partial(torch.ops.deepspeed.inference_all_reduce_, tensor)
    )


def openmpi():
    """Open MPI has no bfloat16: it adds as many integers of 16 bits."""
    from mpi4py import MPI

    def call(tensor):
        kind = MPI.INT16_T if tensor.element_size() == 2 else MPI.FLOAT
        return functools.partial(MPI.COMM_WORLD.Allreduce, MPI.IN_PLACE, [tensor.numpy(), kind])

    def allocate(count, kind):
        return ordinary(count, torch.int16 if kind == torch.bfloat16 else kind)

    return types.SimpleNamespace(allocate=allocate, call=call)
