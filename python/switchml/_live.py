"""Live pages (backend/live/live_page.h): what processes on this host do, read without asking them. Needs no PyTorch,
which takes longer to import than everything here."""

import contextlib
import dataclasses
import fcntl
import ipaddress
import itertools
import json
import os
import stat
import struct
import time

PREFIX = "switchml-live-"
_HEAD = struct.Struct("<8sIIqQ")
_MAGIC = b"SWLIVE1\0"
_MOST_FILES = 4096
_MOST_BYTES = _MOST_DOORS = 1 << 17  # of a page that are read, and of a group's doors
_TRIES = 20  # for texts that are being written
#: The fields of a page that must be numbers, by table.
_NUMBERS = {
    "groups": (
        *(
            "version",
            "number",
            "rank",
            "size",
            "global_rank",
            "is_open",
            "identity",
            "since",
            "called",
            "waits_at",
            "waits_in",
        ),
        *("waits_chunk", "waits_slot", "packets_sent", "retransmissions", "repeats_waiting", "damaged", "doors_bytes"),
    ),
    "rows": ("id", "sequence", "bytes", "created", "started", "ended", "group", "peer", "failed"),
}
_TEXTS = ("name", "transport", "switch_name", "waits_for", "failure")
_MOST_RANKS, _MOST_GROUPS, _MOST_ROWS = 1024, 48, 256
#: /proc/PID/stat, and what it means for a job.
_STATES = {"T": "stopped", "t": "in a debugger", "Z": "dead", "X": "dead"}


class NotAPage(Exception):
    """What a page has no business to have: it may be of a hostile user, where root reads."""


@dataclasses.dataclass
class Process:
    """A process with groups, as its page says."""

    host: str
    pid: int
    version: str
    state: str  # "running", or one of _STATES
    groups: list
    calls: list  # The last ones, the oldest first; their groups may have ended.
    read_at: int  # By its host's clock, in nanoseconds since 1970.
    is_here: bool  # Its number is one of this namespace.
    path: str = ""
    ahead: int = 0  # Its host's clock, before this one's, in nanoseconds.
    doors: dict = dataclasses.field(default_factory=dict)  # By group number: where its ranks answer, and by which key.


def folders(chosen=""):
    """Where processes of this user leave their pages."""
    chosen = chosen or os.environ.get("SWITCHML_LIVE_VIEW", "")
    if chosen.startswith("/"):
        return [chosen]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return ["/dev/shm", *([runtime] if runtime else [])]


def processes(chosen=""):
    """Of this user; as root, of all."""
    found = []
    for folder in folders(chosen):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            pages = (entry.path for entry in entries if entry.name.startswith(PREFIX))
            for path in list(itertools.islice(pages, _MOST_FILES)):
                with contextlib.suppress(OSError, NotAPage):
                    found.append(_read(path))
    return found


def _read(path):
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or os.geteuid() not in (0, about.st_uid):
            raise NotAPage(path)
        read = lambda: os.pread(file, _MOST_BYTES, 0)
        process = parse(read(), read)
        process.state = _state(file, process)
        process.path = path
        for group in process.groups:
            process.doors[group["number"]] = _doors(os.pread(file, group["doors_bytes"], group["doors_at"]))
        return process
    finally:
        os.close(file)


def _state(file, process):
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # Its owner lives.
        return state_of(process.pid) if process.is_here else "running"
    fcntl.flock(file, fcntl.LOCK_UN)
    return "dead"


def state_of(pid):
    """Of a process that lives, or did a moment ago."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            letter = file.read(4096).rpartition(b") ")[2][:1].decode()
    except OSError:
        return "dead"
    return meaning(letter)


def meaning(letter):
    """Of the state of a process in /proc/PID/stat."""
    return _STATES.get(letter, "running")


def _doors(text):
    """[(rank, address, port, key)]"""
    doors = []
    for line in text.decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            rank, place, key = line.split()
            address, _, port = place.rpartition(":")
            address = address.strip("[]")
            ipaddress.ip_address(address.partition("%")[0])  # No name: nobody is asked for one.
            if 0 < int(port) < 1 << 16:
                doors.append((int(rank), address, int(port), bytes.fromhex(key)))
    return doors[:_MOST_RANKS]


class _Table:
    """Rows of one shape: their fields by name."""

    def __init__(self, described, size, numbers):
        at, length, count = (described[name] for name in ("at", "bytes", "count"))
        fields = sorted((place, code, name) for name, (place, code) in described["fields"].items())
        if not 0 <= at <= size or length < 1 or count < 0 or len(fields) > 100:
            raise NotAPage("a table")
        self.at, self.length, self.count, self.numbers = at, length, count, numbers
        self.names, layout, end = [name for _, _, name in fields], "<", 0
        for place, code, _ in fields:
            layout += f"{place - end}x{code}"
            end = place + struct.calcsize("<" + code)
        self.struct = struct.Struct(f"{layout}{length - end}x")

    def rows(self, data, count=None):
        end = self.at + self.length * (self.count if count is None else min(count, self.count))
        if end > len(data):
            raise NotAPage("a table")
        for values in self.struct.iter_unpack(data[self.at : end]):
            row = dict(zip(self.names, values))
            if not all(isinstance(row[name], int) for name in self.numbers):
                raise NotAPage("a number")
            yield row


def parse(data, again=None):
    """`again`: reads the page anew, where its texts are just being written."""
    try:
        return _parsed(data, again)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
        struct.error,
    ) as error:
        raise NotAPage(str(error)) from error


def _parsed(data, again):
    magic, text_bytes, slots, pid, pid_namespace = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise NotAPage("no page")
    text = json.loads(data[_HEAD.size : _HEAD.size + text_bytes])
    groups = _Table(text["groups"], len(data), _NUMBERS["groups"])
    groups.count = min(groups.count, _MOST_GROUPS)
    for _ in range(_TRIES):
        rows = [
            row | {"doors_at": text["doors"]["at"] + i * text["doors"]["bytes"]}
            for i, row in enumerate(groups.rows(data, slots))
        ]
        if again is None or not any(row["version"] % 2 for row in rows):
            break
        data = again()
    names = [printable(name) for name in text["calls"]]
    calls = [row for row in _Table(text["rows"], len(data), _NUMBERS["rows"]).rows(data, _MOST_ROWS) if row["id"]]
    for call in calls:
        call["call"] = names[call["call"]] if call["call"] < len(names) else "?"
        call["kind"] = ("collective", "send", "receive")[call["kind"]]
    return Process(
        host=printable(text["host"]),
        pid=pid,
        version=printable(text["version"]),
        state="running",
        groups=[_group(row) for row in rows if row["number"]],
        calls=sorted(calls, key=lambda call: call["id"]),
        read_at=time.time_ns(),
        is_here=pid_namespace == os.stat("/proc/self/ns/pid").st_ino,
    )


def _group(row):
    group = row | {name: _text(row[name]) for name in _TEXTS}
    if not 0 <= group["rank"] < group["size"] <= _MOST_RANKS:
        raise NotAPage("a rank")
    if not (0 <= group["doors_at"] < 1 << 40 and 0 <= group["doors_bytes"] <= _MOST_DOORS):
        raise NotAPage("doors")
    return group


def _text(value):
    return printable(value.partition(b"\0")[0].decode(errors="replace"))


def printable(text):
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
