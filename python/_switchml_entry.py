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
