"""switchml: a PyTorch process-group backend whose reductions happen in a network switch.

    import torch.distributed as dist
    import switchml  # not needed from PyTorch 2.5 on

    dist.init_process_group(backend="switchml")

Importing registers the backend and loads nothing else; the compiled part comes with the first process group.
"""

import sys


def _is_status():
    """Whether this is `python -m switchml status`, which answers before PyTorch would be imported."""
    arguments = sys.argv  # It begins with "-m" until the module is found.
    return arguments[:2] == ["-m", "status"] and sys.orig_argv[-len(arguments)] in ("switchml", "-mswitchml")


if not _is_status():
    import torch

    from switchml import _registration
    from switchml._narrow import all_reduce, reduce_scatter
    from switchml._registration import Options, _autoload, _check_torch, _register, empty, settings, stats

    try:
        from switchml._build_info import TORCH_VERSION as _BUILT_FOR
        from switchml._build_info import VERSION as __version__
    except ImportError as error:
        raise ImportError(
            "switchml is not built here (a source folder?): run `pip install --no-build-isolation .` in it, or put the "
            "folder python/ of a build on PYTHONPATH"
        ) from error

__all__ = ["Options", "ProcessGroup", "all_reduce", "empty", "reduce_scatter", "settings", "stats", "__version__"]


def __getattr__(name):
    if name == "ProcessGroup":
        return _registration._extension().ProcessGroupSwitchML
    raise AttributeError(f"module 'switchml' has no attribute {name!r}")


if not _is_status():
    _check_torch(_BUILT_FOR, torch.__version__)
    _register()
