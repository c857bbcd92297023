"""switchml-tofino-agent, and `python -m switchml_agent bfrt`: serves the controller for a Tofino, by its BFRuntime
server."""

import argparse
import sys

from switchml_agent import command_line


def _number(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are numbers from 0 on")
    return int(text)


def options(program, arguments):
    parser = command_line.parser(program, __doc__)
    add = parser.add_argument
    add("--grpc", type=command_line.address, default=("127.0.0.1", 50052), metavar="ADDRESS:PORT",
        help="of the BFRuntime server, which bf_switchd has (127.0.0.1:50052)")  # fmt: skip
    add("--device", type=_number, default=0, metavar="N", help="the chip, as the server numbers them (0)")
    add("--program", default="switchml", metavar="NAME", help="of the program in the switch's configuration (switchml)")
    add("--client", type=_number, default=0, metavar="N", help="a number that no other client of the server has (0)")
    add("--loop-port", action="append", type=command_line.port, default=[], metavar="N",
        help="a port in loopback mode, for packets that pass again, beside the chip's own; repeatable")  # fmt: skip
    return command_line.parse(parser, arguments)


def _driver(given):
    from switchml_agent import bfrt  # here: --help needs no gRPC

    host, port = given.grpc
    return bfrt.Bfrt(bfrt.Settings(
        f"{host}:{port}", given.device, given.program, given.client, given.address, given.mac, given.control_port,
        dict(given.station), tuple(given.loop_port),
    ))  # fmt: skip


def run(program, arguments):
    return command_line.run(program, options(program, arguments), _driver)


def main():
    """The console script."""
    sys.exit(run("switchml-tofino-agent", sys.argv[1:]))
