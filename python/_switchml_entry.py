"""What installed entry points call. Outside the package, because importing the package needs PyTorch."""


def autoload():
    """Called by PyTorch (entry points torch.backends and torch.distributed.backends) to register the backend.

    `import torch` fails if this raises, so it never does: a package that cannot be loaded says so in a warning.
    """
    try:
        import switchml  # noqa: F401  importing registers
    except Exception as error:
        import warnings

        warnings.warn(f"the backend 'switchml' is installed but cannot be loaded: {error}", stacklevel=2)


def vllm():
    """Called by each process of vLLM (entry point vllm.general_plugins). vLLM calls all plugins unless VLLM_PLUGINS
    names some; this one does nothing unless it is named."""
    import os

    if "switchml" in os.environ.get("VLLM_PLUGINS", "").split(","):
        from switchml import _vllm

        _vllm.use_switchml()


def until_written(program, run):
    """What run() returns, if all that it prints is written; else the status of a program to which that happens."""
    import errno
    import os
    import sys

    try:
        try:
            return run()
        finally:
            if sys.stdout:  # None: closed before Python started
                sys.stdout.flush()  # so that this hears of it if it fails
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write goes there at the end of Python
        if error.errno == errno.EPIPE:
            return 141  # as a shell has it for a program that SIGPIPE ended
        print(f"{program}: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def switchd():
    """The console script switchml-switchd: becomes the program that the package carries."""
    import importlib.util
    import os
    import sys

    package = importlib.util.find_spec("switchml")
    folder = os.path.dirname(package.origin if package and package.origin else "")
    program = os.path.join(folder, "bin", "switchml-switchd")
    if not os.access(program, os.X_OK):
        sys.exit(f"switchml-switchd: the program is not at {program}; install switchml again")
    os.execv(program, [program, *sys.argv[1:]])


def load_planner(name, folder):
    """A controller's host has no PyTorch, which importing the package `switchml` needs: so the planner is loaded alone,
    as a package of this name."""
    import importlib.util
    import os
    import sys

    file = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[folder])
    if spec is None or spec.loader is None or not os.path.exists(file):
        raise FileNotFoundError(f"the planner is not at {folder}")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def plan():
    """The console script switchml-plan."""
    import importlib.util
    import os
    import sys

    package = importlib.util.find_spec("switchml")
    folder = os.path.join(os.path.dirname(package.origin if package and package.origin else ""), "planner")
    try:
        load_planner("_switchml_planner", folder)
        command = importlib.import_module("_switchml_planner.command")
    except FileNotFoundError as error:
        sys.exit(f"switchml-plan: {error}; install switchml again")
    except ImportError as error:
        sys.exit(
            f"switchml-plan: {error}: {sys.executable} -m pip install matplotlib networkx numpy pyyaml scipy, or for "
            "Debian's Python apt-get install python3-matplotlib python3-networkx python3-scipy python3-yaml"
        )
    return command.main()
