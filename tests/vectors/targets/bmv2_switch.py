"""The v1model program in bmv2's simple_switch, in a network namespace of its own whose ports are veth pairs.

Needs p4c-bm2-ss, simple_switch and simple_switch_CLI on PATH, and what tests/lab.py needs.
"""

import itertools
import os
import pathlib
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import lab

ROOT = pathlib.Path(__file__).parents[3]
TOOLS = ("p4c-bm2-ss", "simple_switch", "simple_switch_CLI")
PORTS = 4
SWITCH_IP = "10.77.255.254"
SWITCH_MAC = "02:77:00:00:ff:fe"
MARKER_MAC = "02:77:00:00:fd:00"  # of a station at the control port
PATIENCE = 60.0  # seconds for anything that must come
PACKET_OUTGOING = 4
_PROMPT = "RuntimeCmd: "
_NUMBERS = itertools.count()
_PROGRAMS = {}  # compiled, by their constants


class SwitchError(Exception):
    """The switch or a tool did not do what it should."""


def missing():
    """Why a switch cannot be started here; empty if it can."""
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"not on PATH: {', '.join(lacking)} (docs/switch.md says where they come from)"
    return lab.missing()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SwitchError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def compile_program(folder, words=64, sizes=None):
    """Compiles the program for payloads of so many words; returns the path of what simple_switch loads. `sizes`:
    constants of sizes.p4 that are to have another value."""
    wire, program = folder / "wire.p4", folder / "switchml.json"
    source = ROOT / "switch_p4"
    text = (source / "sizes.p4").read_text(encoding="utf-8")
    for name, value in (sizes or {}).items():
        text, found = re.subn(rf"#define {name} \d+", f"#define {name} {value}", text)
        if not found:
            raise SwitchError(f"sizes.p4 has no {name}")
    (folder / "sizes.p4").write_text(text, encoding="utf-8")
    run(sys.executable, ROOT / "backend/wire/generate.py", ROOT / "backend/wire/protocol.toml", wire, str(words))
    run("p4c-bm2-ss", "--std", "p4-16", "-I", folder, "-I", source, "-o", program, source / "v1model/switchml.p4")
    return program


def checksum(data):
    """The Internet's: 16-bit one's complement."""
    data += b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mac_bytes(mac):
    return bytes.fromhex(mac.replace(":", ""))


def ethernet(destination, source, kind, payload):
    frame = mac_bytes(destination) + mac_bytes(source) + kind.to_bytes(2, "big") + payload
    return frame.ljust(60, b"\0")


def ipv4(source, destination, protocol, payload):
    header = bytearray(20)
    header[0], header[8], header[9] = 0x45, 64, protocol
    header[2:4] = (20 + len(payload)).to_bytes(2, "big")
    header[12:16], header[16:20] = socket.inet_aton(source), socket.inet_aton(destination)
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return bytes(header) + payload


def udp(source_port, destination_port, payload):
    ports = source_port.to_bytes(2, "big") + destination_port.to_bytes(2, "big")
    return ports + (8 + len(payload)).to_bytes(2, "big") + b"\0\0" + payload


def echo(kind, number):
    body = bytes((kind, 0, 0, 0)) + b"sw" + number.to_bytes(2, "big") + b"switchml"
    return body[:2] + checksum(body).to_bytes(2, "big") + body[4:]


class Console:
    """simple_switch_CLI, kept open: one command, one answer."""

    def __init__(self, namespace, thrift_port):
        command = ["ip", "netns", "exec", namespace, "simple_switch_CLI", "--thrift-port", str(thrift_port)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._read()

    def _read(self):
        text = b""
        end = time.monotonic() + PATIENCE
        while not text.endswith(_PROMPT.encode()):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            piece = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            if not piece:
                raise SwitchError(f"simple_switch_CLI said no more than: {text.decode(errors='replace')}")
            text += piece
        return text.decode(errors="replace")[: -len(_PROMPT)]

    def ask(self, *words):
        line = " ".join(str(word) for word in words)
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        answer = self._read()
        for sign in ("Invalid", "Error", "Unknown", "error"):
            if sign in answer:
                raise SwitchError(f"{line}: {answer.strip()}")
        return answer

    def handle(self, *words):
        """The number of the entry that a command made."""
        answer = self.ask(*words)
        for line in answer.splitlines():
            if "handle" in line:
                return int(line.split()[-1])
        raise SwitchError(f"{' '.join(map(str, words))}: no handle in {answer.strip()!r}")

    def close(self):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


class Bmv2Switch:
    """A running switch. `ports[i]` is a socket that sends to and receives from port i.

    `control`: a port that is the program's control port (it then takes no part in flooding). `bare`: nothing but the
    program is loaded; somebody else sets the tables.
    """

    def __init__(self, words=64, sizes=None, control=None, bare=False):
        why = missing()
        if why:
            raise SwitchError(why)
        self.namespace = f"swml-{os.getpid()}-b{next(_NUMBERS)}"
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="switchml-bmv2-"))
        self._process = None
        self.console = None
        self.ports = []
        self._markers = 0
        self.control = control
        try:
            self._start(words, sizes)
            if not bare:
                self._set_up()
        except BaseException:
            self.close()
            raise

    def _start(self, words, sizes):
        self._program = self._compiled(words, sizes)
        in_namespace = ("ip", "netns", "exec", self.namespace)
        run("ip", "netns", "add", self.namespace)
        run(
            *in_namespace,
            "sysctl",
            "-q",
            "-w",
            "net.ipv6.conf.all.disable_ipv6=1",
            "net.ipv6.conf.default.disable_ipv6=1",
        )
        run(*in_namespace, "ip", "link", "set", "lo", "up")
        for i in range(PORTS):
            run(*in_namespace, "ip", "link", "add", f"s{i}", "type", "veth", "peer", "name", f"h{i}")
            for end in (f"s{i}", f"h{i}"):
                run(*in_namespace, "ip", "link", "set", end, "mtu", "9000", "up")
        self._start_process()
        with lab.inside(self.namespace):
            for i in range(PORTS):
                port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                port.bind((f"h{i}", 0))
                port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                self.ports.append(port)

    def _compiled(self, words, sizes):
        """Once for each set of constants: it takes longer than the rest of the start."""
        path = self._folder / "switchml.json"
        key = words, tuple(sorted((sizes or {}).items()))
        if key in _PROGRAMS:
            path.write_bytes(_PROGRAMS[key])
        else:
            _PROGRAMS[key] = compile_program(self._folder, words, sizes).read_bytes()
        return path

    def _start_process(self):
        interfaces = [word for i in range(PORTS) for word in ("-i", f"{i}@s{i}")]
        with open(self._folder / "simple_switch.log", "ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, "simple_switch", *interfaces, "--thrift-port", "9090",
                 "--notifications-addr", f"ipc://{self._folder}/notifications.ipc", str(self._program)],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._await_thrift()
        self.console = Console(self.namespace, 9090)

    def stop_process(self):
        """As if simple_switch had crashed."""
        if self.console:
            self.console.close()
            self.console = None
        if self._process:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def restart(self):
        """simple_switch anew, with nothing but the program."""
        self.stop_process()
        self._start_process()

    def _set_up(self):
        ask = self.console.ask
        ask("table_add", "addresses", "mine", SWITCH_IP, "=>")
        ask("table_set_default", "mac", "own_mac", SWITCH_MAC)
        ask("mc_mgrp_create", 1)
        ask("mc_node_associate", 1, self.console.handle("mc_node_create", 0, *self._others()))
        if self.control is not None:
            ask("pvs_add", "SwitchParser.control_ports", self.control)
            ask("table_set_default", "control_port", "hand_over", self.control)
            ask("table_add", "stations", "forward", MARKER_MAC, "=>", self.control)

    def _others(self):
        return [port for port in range(PORTS) if port != self.control]

    def _await_thrift(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            with lab.inside(self.namespace), socket.socket() as probe:
                probe.settimeout(0.2)
                if probe.connect_ex(("127.0.0.1", 9090)) == 0:
                    return
            time.sleep(0.05)
        text = (self._folder / "simple_switch.log").read_text(errors="replace")
        raise SwitchError(f"simple_switch does not answer: {text[-2000:]}")

    def inject(self, port, frame):
        self.ports[port].send(frame)

    def settle(self, port):
        """All frames that came out of any port because of what was injected into `port` before: [(port, frame)].

        A ping through the same port passes the ingress behind them, then one through each port passes its egress
        queue behind whatever they caused. What comes in at the control port has no answer; a frame to a station that is
        there stands in.
        """
        out = []
        for first in (port, *range(PORTS)):
            if first == self.control:
                self._mark_control(out)
            else:
                self._ping(first, out)
        return out

    def _mark_control(self, out):
        other = self._others()[0]
        frame = ethernet(MARKER_MAC, MARKER_MAC, 0x88B5, b"marker")
        self.inject(self.control, other.to_bytes(2, "big") + frame)
        self._await(lambda number, came: (number, came) == (other, frame), self.control, out)
        self.inject(other, frame)
        self._await(lambda number, came: (number, came) == (self.control, frame), self.control, out)

    def _await(self, wanted, port, out):
        """Reads frames into `out` until the wanted one comes."""
        end = time.monotonic() + PATIENCE
        while True:
            ready, _, _ = select.select(self.ports, [], [], max(0, end - time.monotonic()))
            if not ready:
                raise SwitchError(f"port {port}: a marker did not come back within {PATIENCE:g} s")
            for socket_ in ready:
                frame, address = socket_.recvfrom(65536)
                if address[2] == PACKET_OUTGOING:
                    continue
                if wanted(self.ports.index(socket_), frame):
                    return
                out.append((self.ports.index(socket_), frame))

    def _ping(self, port, out):
        self._markers = (self._markers + 1) % 65536
        asker_ip, asker_mac = f"10.77.254.{port + 1}", f"02:77:00:00:fe:{port + 1:02x}"
        request = ipv4(asker_ip, SWITCH_IP, 1, echo(8, self._markers))
        expected = ipv4(SWITCH_IP, asker_ip, 1, echo(0, self._markers))
        self.inject(port, ethernet(SWITCH_MAC, asker_mac, 0x0800, request))

        def wanted(number, frame):
            if frame[12:14] != b"\x08\x00" or frame[23] != 1:
                return False
            if frame[14 : 14 + len(expected)] != expected:
                raise SwitchError(f"port {number}: a wrong answer to a ping: {frame.hex()}")
            return True

        self._await(wanted, port, out)

    def close(self):
        """Stops the switch and removes the namespace. Idempotent."""
        for port in self.ports:
            port.close()
        self.ports = []
        self.stop_process()
        if os.path.exists(f"/run/netns/{self.namespace}"):
            run("ip", "netns", "del", self.namespace)
        shutil.rmtree(self._folder, ignore_errors=True)
