"""python -m switchml info | doctor | bench: what is installed, whether hosts can work together, and how fast they
are."""

import argparse
import sys

from _switchml_entry import until_written

from switchml import _bench, _doctor, _info

COMMANDS = {"info": _info, "doctor": _doctor, "bench": _bench}


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m switchml", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
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
        return COMMANDS[options.command].run(options)
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def main(arguments=None):
    return until_written("error", lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
