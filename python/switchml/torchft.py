"""torchft's process group over this backend: torchft.Manager(pg=ProcessGroupSwitchML(...), ...)."""

from datetime import timedelta

import torch
import torch.distributed as dist

import switchml
from switchml import _registration

try:
    from torchft.process_group import ProcessGroupWrapper
except ImportError as error:
    raise ImportError(f"switchml.torchft needs the package torchft ({error}): pip install torchft-nightly") from error


class ProcessGroupSwitchML(ProcessGroupWrapper):
    """The group of a quorum's replicas. Each new quorum gets a group of its own, and aborts the last one.

    timeout: of calls, and of the wait for the other replicas of a quorum. options: as pg_options of new_group().
    """

    def __init__(self, timeout=timedelta(seconds=60), options=None):
        super().__init__(timeout)
        self._settings = options
        self._aborted = None

    def getBackendName(self):
        return "torchft-switchml"

    def _create_pg(self, store, rank, world_size):
        self._aborted = None
        backend = switchml.ProcessGroup(store, rank, world_size, self._timeout, self._settings, name="torchft")
        kind = dist.ProcessGroup.BackendType.CUSTOM
        group = dist.ProcessGroup(store, rank, world_size)
        group._set_default_backend(kind)
        for device in _registration._devices():
            group._register_backend(torch.device(device), kind, backend)
        return group

    def set_timeout(self, timeout):
        super().set_timeout(timeout)
        if self._pg is not None:
            backend = _registration._ours(self._pg)
            (getattr(backend, "set_timeout", None) or backend._set_default_timeout)(timeout)

    def abort(self, errored=True):
        if errored:
            self._aborted = RuntimeError("the process group was aborted")
        super().abort(errored)

    def errored(self):
        """An abort(). Calls tell all other errors themselves: a replica that dies behind its last call of a step has
        given what the step needs, and the others must not drop what that one may have committed."""
        return self._aborted
