"""python -m switchml info | doctor | bench | status: what is installed, whether hosts can work together, how fast they
are, and what running jobs do."""

import argparse
import importlib
import sys

from _switchml_entry import until_written

COMMANDS = ("info", "doctor", "bench", "status")


def _module(name):
    return importlib.import_module(f"switchml._{name}")


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m switchml", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # `status` must not wait for PyTorch, which the others import.
    for name in ["status"] if (sys.argv[1:] if arguments is None else arguments)[:1] == ["status"] else COMMANDS:
        module = _module(name)
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_options(
            commands.add_parser(
                name, help=summary, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
            )
        )
    return parser.parse_args(arguments)


def run(arguments):
    options = parse(arguments)
    try:
        return _module(options.command).run(options)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def main(arguments=None):
    return until_written("error", lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
