"""What the agents' command lines have in common: options of the control port and of the gRPC server, and the running of
both."""

import argparse
import ipaddress
import logging
import pathlib
import signal
import sys
import threading
import typing

from switchml_agent import frames
from switchml_agent.errors import Refusal

_GRACE = 1.0  # seconds that calls under way have at the end


def address(text):
    host, _, port = text.rpartition(":")
    if not host or host in ("0.0.0.0", "[::]") or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise argparse.ArgumentTypeError(
            f"{text!r}: allowed are ADDRESS:PORT, PORT from 1 to 65535 and ADDRESS not the wildcard one"
        )
    return host, int(port)


def ip(text):
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are IPv4 addresses, as 10.0.0.254") from None


def mac(text):
    try:
        return frames.mac_text(frames.mac_bytes(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def port(text):
    if not text.isdecimal() or int(text) > 510:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are port numbers from 0 to 510")
    return int(text)


def station(text):
    address_part, _, port_part = text.partition("=")
    return mac(address_part), port(port_part)


def parser(program, description):
    """With the options that every agent has; each adds those that say which switch it is."""
    made = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    add = made.add_argument
    add(
        "--listen",
        required=True,
        metavar="ADDRESS:PORT",
        help="where the controller calls; unix:PATH for a local socket",
    )
    add(
        "--control-interface",
        required=True,
        metavar="IFACE",
        help="the interface whose other end is the switch's control port",
    )
    add("--control-port", required=True, type=port, metavar="N", help="the number of that port of the switch")
    add("--address", required=True, type=ip, metavar="IP", help="the switch's own IPv4 address, which workers send to")
    add("--mac", required=True, type=mac, metavar="MAC", help="the switch's own Ethernet address")
    add(
        "--station",
        action="append",
        type=station,
        default=[],
        metavar="MAC=PORT",
        help="a host behind a port; repeatable",
    )
    add(
        "--token-file",
        type=pathlib.Path,
        metavar="FILE",
        help="the token that the controller has to show, on its first line",
    )
    add("--insecure-no-token", action="store_true", help="serve everybody who can reach --listen")
    add("--tls-cert", type=pathlib.Path, metavar="FILE", help="certificate chain, PEM")
    add("--tls-key", type=pathlib.Path, metavar="FILE", help="its key, PEM")
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return made


def parse(made, arguments):
    options = made.parse_args(arguments)
    if bool(options.token_file) == options.insecure_no_token:
        made.error("one of --token-file FILE and --insecure-no-token is needed")
    if bool(options.tls_cert) != bool(options.tls_key):
        made.error("--tls-cert and --tls-key are needed together")
    return options


def _token(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].strip():
        raise OSError(f"--token-file {path}: its first line is empty; a token is needed")
    return lines[0].strip()


def _agent(options, driver, stop):
    """Serves until `stop` is set."""
    from switchml_agent import control_port, service  # here: --help needs no gRPC

    driver.connect()
    own_port: typing.Any = None  # it needs the plane, and the plane needs it
    server = None
    plane = service.DataPlane(driver, lambda place, payload: own_port.send(place, payload))
    try:
        own_port = control_port.ControlPort(options.control_interface, options.address, options.mac, plane.receive)
        tls = (options.tls_cert.read_bytes(), options.tls_key.read_bytes()) if options.tls_cert else None
        token = _token(options.token_file) if options.token_file else None
        server, number = service.serve(plane, options.listen, token, tls)
        at = options.listen if options.listen.startswith("unix:") else f"{options.listen.rpartition(':')[0]}:{number}"
        print(f"listening on {at}", flush=True)
        stop.wait()
    finally:
        if server:
            server.stop(_GRACE).wait()
        if own_port:
            own_port.close()
        driver.close()


def run(program, options, make_driver):
    """The exit status, once a signal ends it. make_driver(options) is called where gRPC is there."""
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    try:
        from switchml_agent import service  # noqa: F401
    except ImportError as error:
        print(
            f"{program}: {error}; needed are grpcio, protobuf and xxhash (apt: python3-grpcio python3-protobuf "
            "python3-xxhash)",
            file=sys.stderr,
        )
        return 1

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        _agent(options, make_driver(options), stop)
    except Refusal as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"{program}: {name}{error.strerror or error}", file=sys.stderr)
        return 1
    return 0
