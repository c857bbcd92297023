"""Ray's collective groups over this backend. Importing this registers "switchml" with ray.util.collective, in the
driver and in each actor."""

import torch
import torch.distributed as dist
from ray.util.collective.backend_registry import register_collective_backend
from ray.util.collective.collective_group.torch_gloo_collective_group import TORCH_REDUCE_OP_MAP, TorchGLOOGroup

import switchml  # noqa: F401  registers the backend of torch.distributed


class Group(TorchGLOOGroup):
    """Ray's group of torch.distributed meets through Gloo; this one calls switchml."""

    def __init__(self, world_size, rank, group_name):
        super().__init__(world_size, rank, group_name)
        self._met: dist.ProcessGroup = self._pg
        self._pg: dist.ProcessGroup = dist.new_group(range(world_size), backend="switchml")

    def destroy_group(self):
        dist.destroy_process_group(self._pg)
        self._pg = self._met
        super().destroy_group()

    @classmethod
    def backend(cls):
        return "SWITCHML"

    def reducescatter(self, tensor, tensor_list, options):
        (output,), (inputs,) = tensor, tensor_list
        operation = TORCH_REDUCE_OP_MAP[options.reduceOp]
        inputs = [torch.as_tensor(each) for each in inputs]
        dist.reduce_scatter(torch.as_tensor(output), inputs, operation, self._pg)

    def send(self, tensor, options):
        dist.send(self._check_tensor_input(tensor), options.dst_rank, self._pg)

    def recv(self, tensor, options):
        dist.recv(self._check_tensor_input(tensor), options.src_rank, self._pg)


register_collective_backend("switchml", Group)
