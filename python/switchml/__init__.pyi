from typing import Any

import torch
import torch.distributed as dist

from switchml._C import ProcessGroupSwitchML

__version__: str
_BUILT_FOR: str

ProcessGroup = ProcessGroupSwitchML

class Options:
    values: dict[str, str]
    def __init__(
        self,
        *,
        switch: str = ...,
        controller: str = ...,
        controller_token: str = ...,
        controller_token_file: str = ...,
        controller_ca: str = ...,
        controller_cert: str = ...,
        controller_key: str = ...,
        transport: str = ...,
        encryption: str = ...,
        switch_key_file: str = ...,
        precision: str = ...,
        significant_bits: int | str = ...,
        interface: str = ...,
        rdma_device: str = ...,
        rdma_traffic_class: int = ...,
        rdma_service_level: int = ...,
        payload: int | str = ...,
        slots: int | str = ...,
        arena: int | str = ...,
        pinned_memory: int | str = ...,
        blocking_wait: str = ...,
        shards: int | str = ...,
        affinity: str = ...,
        kernels: str = ...,
        connect_timeout: float | str = ...,
        failure_timeout: float | str = ...,
        slow_warning: float | str = ...,
        on_switch_failure: str = ...,
        rto_min: float | str = ...,
        rto_max: float | str = ...,
        congestion_control: str = ...,
        metrics: str = ...,
        live_view: str = ...,
        log_level: str = ...,
        faults: str = ...,
    ) -> None: ...

def all_reduce(
    input: torch.Tensor,
    output: torch.Tensor,
    op: Any = ...,
    group: dist.ProcessGroup | ProcessGroup | None = ...,
    async_op: bool = ...,
    *,
    format: str | None = ...,
) -> dist.Work | None: ...
def reduce_scatter(
    input: torch.Tensor,
    output: torch.Tensor,
    op: Any = ...,
    group: dist.ProcessGroup | ProcessGroup | None = ...,
    async_op: bool = ...,
    *,
    format: str | None = ...,
) -> dist.Work | None: ...
def empty(
    *size: int | torch.Size, dtype: torch.dtype | None = ..., group: dist.ProcessGroup | ProcessGroup | None = ...
) -> torch.Tensor: ...
def settings() -> list[dict[str, Any]]: ...
def stats(group: dist.ProcessGroup | ProcessGroup | None = ...) -> dict[str, Any]: ...
