"""A vector as the runner takes it: steps whose packets name the session's job and epoch instead of holding numbers."""

import dataclasses
import pathlib

from vectors import wire

# What any data plane is taken to have; more than that a vector must ask for with `needs`.
BASE_PAYLOAD = 256
BASE_WORKERS = 8


@dataclasses.dataclass(frozen=True)
class Of:
    """A session's job or epoch, plus a number (modulo the field's width)."""

    session: str
    field: str
    plus: int = 0

    def resolve(self, sessions):
        value = getattr(sessions[self.session], self.field)
        return (value + self.plus) % (256 if self.field == "job" else 2**32)


@dataclasses.dataclass(frozen=True)
class UnusedJob:
    """A job number that none of the vector's sessions has or had."""

    def resolve(self, sessions):
        taken = {session.job for session in sessions.values()}
        return next(job for job in range(255, 0, -1) if job not in taken)


def resolve(value, sessions):
    return value if isinstance(value, int) else value.resolve(sessions)


@dataclasses.dataclass(frozen=True)
class Fields:
    """A packet by its fields; `job` and `epoch` may be symbolic. The last `cut` bytes are left off."""

    values: dict
    cut: int = 0

    def encode(self, sessions):
        values = dict(self.values)
        values["job"] = resolve(values["job"], sessions)
        values["epoch"] = resolve(values["epoch"], sessions)
        frame = wire.Packet(**values).encode()
        return frame[: len(frame) - self.cut]


@dataclasses.dataclass(frozen=True)
class ExactFields:
    """A packet of an exact session by its fields, with the checksum of the session `key` (no session: of key 0)."""

    values: dict
    key: str = ""
    wrong: bool = False  # the checksum
    cut: int = 0

    def encode(self, sessions):
        values = self.values | {name: resolve(self.values[name], sessions) for name in ("job", "epoch")}
        packet = wire.ExactPacket(**values).sealed(sessions[self.key].key if self.key else 0)
        if self.wrong:
            packet = dataclasses.replace(packet, checksum=packet.checksum ^ 1)
        frame = packet.encode()
        return frame[: len(frame) - self.cut]


@dataclasses.dataclass(frozen=True)
class Hex:
    """A packet by its bytes, with jobs and epochs of sessions between them, and perhaps a control message's checksum
    behind them."""

    parts: tuple  # of bytes and Of
    check: bool = False

    @property
    def size(self):
        return sum(len(part) if isinstance(part, bytes) else 1 if part.field == "job" else 4 for part in self.parts)

    def begins_with_kind(self, kind):
        return self.parts[0][:1] == bytes([wire.VERSION << 4 | kind])

    def encode(self, sessions):
        out = b""
        for part in self.parts:
            if isinstance(part, bytes):
                out += part
            else:
                out += part.resolve(sessions).to_bytes(1 if part.field == "job" else 4, "big")
        return wire.checked(out) if self.check else out


@dataclasses.dataclass(frozen=True)
class Open:
    line: int
    name: str
    members: tuple  # worker numbers, ascending
    slots: int
    payload: int  # bytes
    shards: int
    same_job_as: str = ""  # an ended session whose job number this one must get
    uplink: int | None = None  # as whom this switch contributes to its parent; None: it answers
    children: tuple = ()  # members that are switches
    asks_exact: bool = False
    exact: bool = False  # and must get it; else must not

    @property
    def workers(self):
        """Worker numbers are below this."""
        return self.members[-1] + 1

    @property
    def part_of_tree(self):
        """Not every switch can be one, and none becomes one by requests of workers."""
        return self.uplink is not None or self.members != tuple(range(self.workers)) or bool(self.children)

    def address(self, worker, shard=0):
        """The name of the address from which a member speaks for a shard: a switch has one for all."""
        return endpoint(self.name, worker, 0 if worker in self.children else shard)

    @property
    def parent(self):
        return f"{self.name}.parent"


@dataclasses.dataclass(frozen=True)
class Close:
    line: int
    name: str


@dataclasses.dataclass(frozen=True)
class Expect:
    line: int
    to: tuple  # endpoints; each gets the packet once
    packet: object  # Fields, ExactFields or Hex


@dataclasses.dataclass
class Send:
    line: int
    sender: str
    packet: object  # Fields, ExactFields or Hex
    expects: list = dataclasses.field(default_factory=list)  # all that may come out


@dataclasses.dataclass(frozen=True)
class Count:
    """How the counters have moved since the previous Count; those not named must not have moved."""

    line: int
    changes: dict


@dataclasses.dataclass
class Vector:
    path: pathlib.Path
    purpose: str
    needs: dict  # of "payload", "workers" (numbers), "short", "whole", "control", "shards", "tree", "exact" (True)
    steps: list

    @property
    def name(self):
        return self.path.stem


def endpoint(session, worker, shard=0):
    """The name of the address from which a worker speaks for a shard."""
    return f"{session}.{worker}" + (f"/{shard}" if shard else "")


STRANGER = "stranger"  # an address that is no member of anything
