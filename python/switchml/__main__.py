"""python -m switchml info | doctor | bench: what is installed, whether hosts can work together, and how fast they
are."""

import argparse
import errno
import os
import sys

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
    """Whatever was printed is written when this ends, so that main() hears of it if that fails."""
    try:
        options = parse(arguments)
        return COMMANDS[options.command].run(options)
    finally:
        if sys.stdout:  # None: closed before Python started
            sys.stdout.flush()


def main(arguments=None):
    try:
        return run(arguments)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write goes there at the end of Python
        if error.errno == errno.EPIPE:
            return 141  # as a shell has it for a program that SIGPIPE ended
        print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
