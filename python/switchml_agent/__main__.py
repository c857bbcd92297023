"""switchml-bmv2-agent, and `python -m switchml_agent bmv2`: serves the controller for a running simple_switch."""

import sys

from switchml_agent import bfrt_main, command_line


def _bmv2_options(program, arguments):
    parser = command_line.parser(program, __doc__)
    parser.add_argument("--thrift", type=command_line.address, default=("127.0.0.1", 9090), metavar="ADDRESS:PORT",
                        help="of simple_switch (127.0.0.1:9090)")  # fmt: skip
    return command_line.parse(parser, arguments)


def _bmv2_driver(options):
    from switchml_agent import bmv2  # here: --help needs no gRPC

    host, port = options.thrift
    stations = dict(options.station)
    return bmv2.Bmv2(bmv2.Settings(host, port, options.address, options.mac, options.control_port, stations))


def run(program, arguments):
    return command_line.run(program, _bmv2_options(program, arguments), _bmv2_driver)


def bmv2():
    """The console script switchml-bmv2-agent."""
    sys.exit(run("switchml-bmv2-agent", sys.argv[1:]))


SWITCHES = {"bmv2": run, "bfrt": bfrt_main.run}


def main():
    switch = sys.argv[1] if len(sys.argv) > 1 else ""
    if switch not in SWITCHES:
        sys.exit(f"usage: python -m switchml_agent SWITCH [OPTIONS]; switches: {', '.join(SWITCHES)}")
    sys.exit(SWITCHES[switch](f"python -m switchml_agent {switch}", sys.argv[2:]))


if __name__ == "__main__":
    main()
