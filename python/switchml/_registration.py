"""The backend as torch.distributed sees it: its name, its factory, its options and its statistics."""

import atexit
import datetime
import functools
import inspect
import os
import re
import threading
import warnings
from collections.abc import Mapping

import torch
import torch.distributed as dist

from switchml import _flight
from switchml._secret import Secret

__all__ = ["Options", "empty", "settings", "stats"]

_NAME = "switchml"
_lock = threading.Lock()
_extension_module = None


def _version(text):
    """(2, 13) of '2.13.0+cpu'."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.split("+")[0].split(".")[:2])


def _check_torch(built_for, running):
    """The C++ interface that a backend derives from changes with every PyTorch; the wrong one ends in a crash."""
    if _version(built_for) == _version(running):
        return
    raise ImportError(
        f"switchml was built for PyTorch {built_for}, but this is PyTorch {running}. Build it for this one: "
        "`pip install --no-build-isolation --no-deps --force-reinstall .` in its source folder (or use the wheel "
        f"made for {'.'.join(map(str, _version(running)))})"
    )


def _why_not_loaded(reason):
    """What the loader says, and what helps."""
    library = re.search(r"\b(lib[^\s/:]+\.so[^\s/:]*): ", reason)
    if library:
        remedy = (
            f"install {library[1]} (Debian, Ubuntu: apt-get install libgoogle-glog-dev), or a wheel of `make wheel`, "
            "which carries the libraries that it needs"
        )
    else:
        remedy = "build it again: `pip install --no-build-isolation --no-deps --force-reinstall .` in its source folder"
    return f"the compiled part of switchml cannot be loaded ({reason}): {remedy}"


def _extension():
    """The compiled part, loaded once; its groups end behind the interpreter, which finalizers may call them in."""
    global _extension_module
    with _lock:
        if _extension_module is None:
            try:
                from switchml import _C
            except ImportError as error:
                raise ImportError(_why_not_loaded(str(error))) from error
            atexit.register(_C.outlive_interpreter)
            _extension_module = _C
            # DDP asks for its buckets' memory where this says so; on machines with GPUs that is NCCL's affair as well.
            # To ask PyTorch for GPUs would initialise their driver.
            if not any(os.path.exists(device) for device in ("/dev/nvidiactl", "/dev/kfd")):
                os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    return _extension_module


# ---- options ----


def settings():
    """The settings as a list of dicts: name, allowed, default, help, secret. SWITCHML_<NAME> in the environment sets
    one for the process, Options(<name>=...) for a group."""
    return _extension().settings()


class Options:
    """Settings of a process group, for pg_options: Options(payload=8192, slots=64). The names are those of the
    SWITCHML_* variables in lower case; a plain dict does as well. A bad name or value raises ValueError with what is
    allowed. Secret values are not shown, and not pickled."""

    def __init__(self, **values):
        self.values = values = _texts(values)  # tracebacks show variables
        _extension().describe(self.values)

    def __repr__(self):
        return f"switchml.Options({', '.join(f'{k}={v!r}' for k, v in self.values.items())})"

    def __eq__(self, other):
        return isinstance(other, Options) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


def _text(value):
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _texts(values):
    """A misspelt name may be that of a token, so what no setting is called is not shown either."""
    shown = {setting["name"] for setting in settings() if not setting["secret"]}
    shown |= {f"SWITCHML_{name.upper()}" for name in shown}
    return {str(name): _text(value) if name in shown else Secret(value) for name, value in values.items()}


def _values(options):
    """The settings in what a user gave as pg_options."""
    if options is None:
        return {}
    if isinstance(options, Options):
        return options.values
    if isinstance(options, Mapping):
        return _texts(options)
    # In new_group() and split_group() PyTorch may hand the parent's options on: only a timeout, which comes by itself.
    if type(options).__name__ in ("Options", "_Options") and type(options).__module__.startswith(
        ("torch.", "switchml._C")
    ):
        return {}
    raise TypeError(
        f"pg_options of the backend switchml is a {type(options).__name__}; allowed: switchml.Options, a dict, or None"
    )


def torch_log_level():
    """The level that PyTorch's own variable asks for, in our words; None where SWITCHML_LOG_LEVEL does, or neither."""
    if os.environ.get("SWITCHML_LOG_LEVEL"):
        return None
    levels = {"INFO": "info", "WARNING": "warning", "ERROR": "error", "FATAL": "off"}
    value = os.environ.get("TORCH_CPP_LOG_LEVEL", "").upper()
    return levels.get(value) or dict(zip("0123", levels.values())).get(value)


def _values_in_force(options):
    values, level = _values(options), torch_log_level()
    return (
        values
        if level is None or values.keys() & {"log_level", "SWITCHML_LOG_LEVEL"}
        else {"log_level": level} | values
    )


def _is_of_python(store):
    """Whether Python, not C++, has what the store keeps."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return not type(store).__module__.startswith("torch.")


# ---- the controller ----


def _ask_controller(call, question):
    """Rank 0 asks the controller of SWITCHML_CONTROLLER; gRPC is needed for nothing else."""
    from switchml import _controller

    return _controller.ask(call, question)


# ---- the backend ----


def _create(options, pg_options):
    """torch.distributed calls this on every rank of a new group."""
    return _extension().ProcessGroupSwitchML(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        pg_options,
        name=options.group_id if options.global_ranks_in_group else "default",
        global_ranks=options.global_ranks_in_group,
        awaits_ranks=getattr(options, "enable_reconfigure", False),
    )


def _devices():
    """What groups take tensors of that name no devices: the host, and the accelerator that PyTorch was built for or
    that was registered so far. To ask for that initialises no driver."""
    accelerator = torch.accelerator.current_accelerator() if _version(torch.__version__) >= (2, 13) else None
    return ["cpu"] if accelerator is None else ["cpu", accelerator.type]


def _register():
    """Idempotent."""
    if not dist.is_available():
        raise ImportError("switchml needs a PyTorch with torch.distributed")
    backend = dist.Backend
    if _NAME.upper() in backend._plugins:
        return
    extra = {}
    if "devices" in inspect.signature(backend.register_backend).parameters:
        extra["devices"] = _devices()
    defaults = dict(getattr(backend, "default_device_backend_map", {}))
    backend.register_backend(_NAME, _create, extended_api=True, **extra)
    if defaults:
        backend.default_device_backend_map = defaults  # a device's own backend may be registered after this one
    # PyTorch 1.13 would report the name in capitals.
    setattr(backend, _NAME.upper(), _NAME)
    _offer_monitored_barrier()
    _name_groups()
    _extend_timeouts()
    _name_shrunk_groups()
    _flight.join_dumps(lambda: _extension_module and _extension_module.flights())


def _offer_monitored_barrier():
    """torch.distributed.monitored_barrier refuses every group that is not named "gloo" before it asks the group. Ours
    can, so the function is wrapped for them."""
    original = dist.monitored_barrier

    @functools.wraps(original)
    def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
        target = dist.distributed_c10d._get_default_group() if group is None else group
        if target is dist.GroupMember.NON_GROUP_MEMBER or _ours(target) is None:
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            return target.monitored_barrier(wait_all_ranks=wait_all_ranks)
        if not isinstance(timeout, datetime.timedelta):
            timeout = datetime.timedelta(seconds=timeout)
        return target.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    dist.monitored_barrier = monitored_barrier
    dist.distributed_c10d.monitored_barrier = monitored_barrier


def _name_groups():
    """Since 2.0 a group whose backend PyTorch does not know calls itself "custom" and denies that it counts its calls.
    Groups of ours answer what the backend does."""
    if hasattr(dist.ProcessGroup, "_get_backend"):
        for method in ("name", "_get_sequence_number_for_group", "_set_sequence_number_for_group"):
            if hasattr(dist.ProcessGroup, method):  # 2.14 sets no sequence numbers
                setattr(dist.ProcessGroup, method, _asking_ours(getattr(dist.ProcessGroup, method)))


def _asking_ours(original):
    @functools.wraps(original)
    def method(group):
        ours = _ours(group)
        return original(group) if ours is None else getattr(ours, original.__name__)()

    return method


def _extend_timeouts():
    """Before 2.14 PyTorch asks NCCL's groups alone for more time."""
    name = "_add_ephemeral_timeout_for_all_pgs"
    original = getattr(dist.distributed_c10d, name, None)
    if original is None or hasattr(torch._C._distributed_c10d.Backend, "_add_ephemeral_timeout"):
        return

    @functools.wraps(original)
    def extend(timeout):
        original(timeout)
        for group in list(dist.distributed_c10d._world.pg_map):
            ours = _ours(group)
            if ours is not None:
                ours._add_ephemeral_timeout(timeout)

    setattr(dist.distributed_c10d, name, extend)


def _name_shrunk_groups():
    """PyTorch takes whatever has shrunk on CPUs for Gloo, and DDP's logger then reads it as that: a crash."""
    original = getattr(dist, "shrink_group", None)
    if original is None:
        return

    @functools.wraps(original)
    def shrink_group(*args, **kwargs):
        group = original(*args, **kwargs)
        ours = _ours(group)
        if ours is not None:
            kind = dist.ProcessGroup.BackendType.CUSTOM
            group._register_backend(torch.device("cpu"), kind, ours)
            group._set_default_backend(kind)
        return group

    dist.shrink_group = shrink_group
    dist.distributed_c10d.shrink_group = shrink_group


def _autoload():
    """Nothing is left to do: importing the package registers."""


# ---- statistics ----


def _backends(group):
    """The backends of a group, a debugging wrapper around one taken off."""
    if not hasattr(group, "_get_backend"):
        found = [group]  # before 2.0 a process group is its backend
    else:
        found = []
        for device in getattr(group, "_device_types", None) or [torch.device("cpu")]:
            try:
                found.append(group._get_backend(torch.device(device)))
            except RuntimeError:  # no backend for that device
                continue
    return [getattr(backend, "wrapped_pg", backend) for backend in found]


def _ours(group):
    """The backend of a group that is of this package, or None."""
    if _extension_module is None:
        return None
    return next((b for b in _backends(group) if isinstance(b, _extension_module.ProcessGroupSwitchML)), None)


def empty(*size, dtype=None, group=None):
    """An uninitialised tensor on the CPU that all ranks of this host see, if the group (default: the default group)
    shares memory, or that its card reaches, over RDMA with one rank each host: its collectives then read and write it
    where it is. An ordinary tensor where there is no such memory, or no more (stats()["arena_limit_bytes"] has how much
    there is). Sizes are integers, or one torch.Size or tuple. A forked child has the same memory, not a copy.
    """
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    dtype = dtype or torch.get_default_dtype()
    count = shape.numel() * torch.empty((), dtype=dtype).element_size()
    memory = _of_group(group, "empty", lambda backend: _extension().allocate(backend, count))
    return memory.view(dtype).view(shape)


def _of_group(group, name, ask):
    """What `ask` says of the group's backend; None of one that is not ours."""
    if group is None:
        group = dist.distributed_c10d._get_default_group()
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise ValueError(f"switchml.{name}: this rank is not a member of the group")
    for backend in _backends(group):
        result = ask(backend)
        if result is not None:
            return result
    raise ValueError(
        f"switchml.{name}: the group's backend is not switchml; allowed: a group made with backend='switchml'"
    )


class _Stats(dict):
    """Finds a counter by the name that it once had, too, with a warning."""

    FORMER = {"nonfinite_groups": "nonfinite_superblocks"}

    def __missing__(self, name):
        now = self.FORMER.get(name)
        if now is None or now not in self:
            raise KeyError(name)
        warnings.warn(f"switchml.stats(): {name!r} is {now!r} now", DeprecationWarning, stacklevel=2)
        return self[now]

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default


def stats(group=None):
    """The counters of a group (default: the default group) on this rank, as a dict.

    Numbers at the top: packets_sent, bytes_sent, retransmissions, elements_summed_by_switch, witness_failures, ...;
    calls_switch, calls_memory, calls_peers, calls_store and calls_local; memory_bytes; arena_bytes, which
    tensors of empty() take, of arena_limit_bytes; pinned_bytes, which tensors of accelerators take, of
    pinned_limit_bytes. Under "calls" the paths by collective, under "session" what was negotiated, and on the rank that
    hosts the embedded switch its own counters under "switch".
    """
    found = _Stats(_of_group(group, "stats", _extension().stats))
    found["calls"] = {name: _Stats(paths) for name, paths in found["calls"].items()}
    return found
