"""Communication hooks of DistributedDataParallel that send gradients in 8 or 16 bits, and sum them exactly.

    from switchml import hooks

    model = DistributedDataParallel(...)
    model.register_comm_hook(hooks.State(), hooks.fp8)

Each rank rounds its gradients to the format; the mean of what the ranks then have is exact (each host of several ranks
rounds its part to float32), and rounded to the format again for the way back. What each rounding loses is added to the
gradients of the next step. All ranks get the same bits. docs/operations.md says what a step costs, and which gradients
are taken.
"""

import collections
import threading
import typing

import torch
import torch.distributed as dist

from switchml import _gradients

__all__ = ["State", "bf16", "fp8", "int8"]


class _Errors(typing.NamedTuple):
    """What the last step's roundings of a bucket have lost."""

    sizes: tuple  # of the gradients, in the bucket's order
    bucket: torch.Tensor
    part: torch.Tensor  # of the mean of this rank's part


class State:
    """What one model's hook keeps from step to step. All ranks make one, and register the same hook with it.

    process_group: that of the model; default: the default group. gather_group: another group of the same ranks, which
    nothing else may use; without one, the first step makes it, with the settings of the environment.

    Pickling keeps rounding errors, not groups: afterwards both groups are the default ones, until they are set. After
    an error of a group a new state is needed.
    """

    def __init__(self, process_group=None, gather_group=None):
        self.process_group, self.gather_group = process_group, gather_group
        self._errors: dict[int, _Errors] = {}
        self._begin()

    def _begin(self):
        self._steps = 0  # since then
        self._way = _InOrder()

    def __getstate__(self):
        return {"errors": {index: tuple(errors) for index, errors in self._errors.items()}}

    def __setstate__(self, state):
        self.process_group = self.gather_group = None
        self._errors = {index: _Errors(*errors) for index, errors in state["errors"].items()}
        self._begin()

    def _groups(self):
        group = dist.distributed_c10d._get_default_group() if self.process_group is None else self.process_group
        if self.gather_group is None:
            # Means are asked for in the order of buckets, and gathers when means are there: each order is the same on
            # all ranks, but how they mix is not.
            is_default = group is dist.distributed_c10d._get_default_group()
            options = _timeout_of(group) if is_default else {"use_local_synchronization": True, **_timeout_of(group)}
            self.gather_group = dist.new_group(dist.get_process_group_ranks(group), backend="switchml", **options)
        return group, self.gather_group

    def _errors_of(self, bucket, part):
        """After its first step DDP makes other buckets, which may be of the same sizes. So that step has no errors, and
        leaves none. A state that was restored keeps its own meanwhile."""
        index, sizes = bucket.index(), tuple(gradient.numel() for gradient in bucket.gradients())
        kept = self._errors.get(index) if self._steps > 0 else None
        if kept is not None and kept.sizes == sizes and kept.part.numel() == part:
            return kept
        fresh = _Errors(sizes, _gradients.zeros(bucket.buffer().numel()), _gradients.zeros(part))
        if self._steps > 0:
            self._errors[index] = fresh
        return fresh


def _timeout_of(group):
    """As an argument of new_group(); nothing where PyTorch does not say it."""
    options = getattr(group._get_backend(torch.device("cpu")), "options", None)
    timeout = getattr(options, "_timeout", None)
    return {} if timeout is None else {"timeout": timeout}


class _InOrder:
    """Hands buckets on in the order in which they came, each when its mean is there, on the thread that brings it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting: collections.deque[_Bucket] = collections.deque()
        self._busy = False
        self.error: Exception | None = None  # the first one: from then on ranks may be at different buckets

    def add(self, bucket):
        with self._lock:
            self._waiting.append(bucket)

    def go_on(self):
        with self._lock:
            if self._busy:
                return
            self._busy = True
        while (bucket := self._next()) is not None:
            bucket.hand_out()

    def _next(self):
        with self._lock:
            if self._waiting and self._waiting[0].has_mean:
                return self._waiting.popleft()
            self._busy = False
            return None


class _Bucket:
    """A bucket on its way: narrow terms, the mean of this rank's part, its narrow form, and that of all parts."""

    def __init__(self, state, form, bucket):
        group, self.gather_group = state._groups()
        ranks = dist.get_world_size(group)
        self.way, self.form, self.buffer = state._way, form, bucket.buffer()
        part = form.whole(-(-self.buffer.numel() // ranks))
        errors = state._errors_of(bucket, part)
        self.error_of_part, self.mean, self.has_mean = errors.part, _gradients.zeros(part), False
        self.terms = form.empty(part * ranks)
        form.narrow(self.buffer, errors.bucket, self.terms)
        work = _gradients.reduce_scatter(self.terms, self.mean, dist.ReduceOp.AVG, group, form)
        self.result: torch.futures.Future = torch.futures.Future()
        self.way.add(self)
        work.get_future().then(self._take_mean)

    def _take_mean(self, done):
        try:
            done.value()
        except Exception as error:
            self.way.error = self.way.error or error
        self.has_mean = True
        self.way.go_on()

    def hand_out(self):
        if self.way.error is not None:
            self.result.set_result(self.way.error)
            return
        try:
            part = self.form.empty(self.mean.numel())
            self.form.narrow(self.mean, self.error_of_part, part)
            work = _gradients.all_gather(self.terms, part, self.gather_group)
            work.get_future().then(self._finish)
        except Exception as error:
            self._fail(error)

    def _finish(self, done):
        try:
            done.value()
            self.form.widen(self.terms, self.buffer)
        except Exception as error:
            self._fail(error)
        else:
            self.result.set_result(self.buffer)

    def _fail(self, error):
        self.way.error = self.way.error or error
        self.result.set_result(error)


def _outcome(result):
    """C++ sees an error that a callback raises, and no other."""
    value = result.value()
    if isinstance(value, Exception):
        raise value
    return value


def _narrowed(state, bucket, form):
    if not isinstance(state, State):
        raise TypeError(f"switchml.hooks: the hook's state is a {type(state).__name__}; allowed: switchml.hooks.State")
    buffer = bucket.buffer()
    if buffer.device.type != "cpu":
        raise ValueError(f"switchml.hooks: gradients are on {buffer.device}; allowed: cpu")
    if buffer.dtype == torch.float32:
        result = _Bucket(state, form, bucket).result.then(_outcome)
    else:
        work = dist.all_reduce(buffer, dist.ReduceOp.AVG, state.process_group, async_op=True)
        result = work.get_future().then(lambda done: done.value()[0])
    state._steps += bucket.is_last()
    return result


def bf16(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients in 2 bytes: bfloat16."""
    return _narrowed(state, bucket, _gradients.FORMATS["bf16"])


def fp8(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients in a byte, and another one for each 64: float8_e4m3fn under a common scale, a power of two."""
    return _narrowed(state, bucket, _gradients.FORMATS["fp8"])


def int8(state: State, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """As fp8, of int8: finer where the gradients of a block are of like size."""
    return _narrowed(state, bucket, _gradients.FORMATS["int8"])
