"""Live pages of other hosts, from their doors (backend/live/live_door.h)."""

import contextlib
import errno
import hmac
import os
import selectors
import socket
import struct
import time

from switchml import _live

_MAGIC = b"SWLDOOR2"
_MOST_TRIED = 8  # Doors of a host, all at once: that of a stopped process says nothing.
_PATIENCE = 0.2  # Seconds that a door which has greeted may take to show that it knows the key.
_MOST_PAGES, _MOST_BYTES = 1024, 1 << 17  # Of an answer, and of a page.


class Host:
    """`doors`: [(rank, address, port, key)], all at one address."""

    def __init__(self, doors):
        self.doors = [_Door(*door) for door in doors]
        self.asked = None
        self.asked_at = 0.0
        self.processes = None  # What it has answered.
        #: For how long the way there and back took: what `ahead` may be wrong by is half of that.
        self.round_trip = None

    def outcome(self, rank):
        """Why the process of this rank is not seen."""
        if self.processes is not None:
            return "gone"
        own = [door.outcome for door in self.doors if door.rank == rank and door.outcome]
        return (own or [door.outcome for door in self.doors if door.outcome] or ["not asked"])[0]


class _Door:
    def __init__(self, rank, address, port, key):
        self.rank, self.key, self.outcome, self.nonce = rank, key, "unreachable", None
        self.to = (address, port)
        self.socket = None
        self.received = bytearray()

    def connect(self):
        family = socket.AF_INET6 if ":" in self.to[0] else socket.AF_INET
        try:
            self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            return self.socket.connect_ex(self.to) in (0, errno.EINPROGRESS)
        except OSError:
            return False


def ask(hosts, seconds):
    """Asks one door of each host, all hosts at once; the answers are in the hosts."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
        for host in hosts:
            for door in host.doors[:_MOST_TRIED]:
                if door.connect():
                    selector.register(door.socket, selectors.EVENT_WRITE, (host, door))
                if door.socket:
                    stack.callback(door.socket.close)
        waiting = list(hosts)
        while waiting and (left := deadline - time.monotonic()) > 0 and selector.get_map():
            for key, _ in selector.select(min(left, 0.05)):
                _serve(selector, *key.data)
            waiting = [host for host in waiting if host.processes is None]
            for host in waiting:
                _choose(host)


def _serve(selector, host, door):
    """Something has come, or the connection stands, or failed."""
    try:
        if door.outcome == "unreachable":
            error = door.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            door.outcome = "stopped"  # until it greets
            selector.modify(door.socket, selectors.EVENT_READ, (host, door))
            return
        data = door.socket.recv(1 << 18)
        door.received += data
        if host.asked is door:
            _take(host, door)
        if not data or host.processes is not None:
            selector.unregister(door.socket)
            _give_up(host, door)
    except BlockingIOError:
        return
    except (OSError, _live.NotAPage) as error:
        door.outcome = "dead" if getattr(error, "errno", 0) == errno.ECONNREFUSED else "unreachable"
        selector.unregister(door.socket)
        _give_up(host, door)


def _give_up(host, door):
    door.received.clear()
    if host.asked is door and host.processes is None:
        host.asked = None


def _choose(host):
    """The first door that greets is asked; another one, where that says no more."""
    if host.asked and (host.round_trip is not None or time.monotonic() < host.asked_at + _PATIENCE):
        return
    for door in host.doors:
        if door.nonce is None and len(door.received) == 16 and door.received.startswith(_MAGIC):
            theirs, door.nonce = bytes(door.received[8:]), os.urandom(8)
            door.received.clear()
            host.asked, host.asked_at, host.sent_at = door, time.monotonic(), time.time_ns()
            door.proof = _proof(door, b"say", theirs + door.nonce)
            with contextlib.suppress(OSError):
                door.socket.send(door.nonce + _proof(door, b"ask", theirs + door.nonce))
            return


def _take(host, door):
    data = door.received
    if host.round_trip is None and len(data) >= 16:
        if not hmac.compare_digest(bytes(data[:8]), door.proof):
            raise _live.NotAPage("a door without the key")
        came = time.time_ns()
        host.round_trip = (came - host.sent_at) / 1e9
        host.clock = struct.unpack_from("<q", data, 8)[0]
        host.ahead = host.clock - (came + host.sent_at) // 2
    if host.round_trip is None or len(data) < 24:
        return
    (count,) = struct.unpack_from("<Q", data, 16)
    if count > _MOST_PAGES:
        raise _live.NotAPage("too many pages")
    at, found = 24, []
    for _ in range(count):
        if len(data) < at + 8:
            return
        length, letter = struct.unpack_from("<Ic3x", data, at)
        if length > _MOST_BYTES:
            raise _live.NotAPage("too long a page")
        if len(data) < at + 8 + length:
            return
        found.append((letter.decode("latin-1"), bytes(data[at + 8 : at + 8 + length])))
        at += 8 + length
    host.processes = []
    for letter, page in found:
        with contextlib.suppress(_live.NotAPage):
            process = _live.parse(page)
            process.state, process.read_at, process.ahead = _live.meaning(letter), host.clock, host.ahead
            process.path = f"{door.to[0]}:{process.pid}"
            host.processes.append(process)


def _proof(door, word, nonces):
    return hmac.digest(door.key, word.ljust(8, b"\0") + nonces, "sha256")[:8]
