"""Packets as bytes, from the layouts of backend/wire/protocol.toml."""

import dataclasses
import pathlib
import struct
import tomllib

import xxhash
from vectors import elements, packed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOCOL = tomllib.loads((ROOT / "backend/wire/protocol.toml").read_text(encoding="utf-8"))
VERSION = PROTOCOL["version"]
KINDS = PROTOCOL["kinds"]
OPERATIONS = PROTOCOL["operations"]
REPEAT, DISAGREE, NO_ELEMENTS, TARGET, PACKED = (
    PROTOCOL["flags"][name] for name in ("repeat", "disagree", "no_elements", "target", "packed")
)
OPEN_EXACT = PROTOCOL["open_flags"]["exact"]
ALL_WORKERS = 255
WORD_BYTES = 4


class Layout:
    """Fields of a fixed number of bits, first field first, most significant bit first."""

    def __init__(self, name):
        fields = next(message["fields"] for message in PROTOCOL["message"] if message["name"] == name)
        self.fields = [(field["name"], field["bits"]) for field in fields]
        self.bytes = sum(bits for _, bits in self.fields) // 8

    def pack(self, **values):
        """Fields that are not named are 0; ValueError for one that does not exist or does not fit."""
        number = 0
        for name, bits in self.fields:
            value = values.pop(name, 0)
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name}={value}: allowed are 0 to {(1 << bits) - 1}")
            number = number << bits | value
        if values:
            raise ValueError(f"no field {', '.join(values)}")
        return number.to_bytes(self.bytes, "big")

    def unpack(self, data):
        """Of the first `bytes` bytes of `data`."""
        number = int.from_bytes(data[: self.bytes], "big")
        values = {}
        for name, bits in reversed(self.fields):
            values[name] = number & ((1 << bits) - 1)
            number >>= bits
        return values


HEADER = Layout("header")
EXACT = Layout("exact_header")
CONTROL = Layout("control")
CHECK = Layout("control_check")


def checked(message):
    """A control message with its checksum. [CTL-8]"""
    return message + CHECK.pack(checksum=xxhash.xxh3_64_intdigest(message) % 2**32)


def wrap(value):
    """Modulo 2^32, as a word: -2^31 to 2^31-1."""
    return (value + 2**31) % 2**32 - 2**31


@dataclasses.dataclass(frozen=True)
class Packet:
    """A contribution or a result. `words` are signed."""

    job: int
    epoch: int
    worker: int
    slot: int
    seq: int
    version: int = VERSION
    kind: int = KINDS["contribution"]
    flags: int = 0
    exponent: int = 0
    witness: int = 0
    words: tuple = ()

    def encode(self):
        fields = {name: getattr(self, name) for name, _ in HEADER.fields}
        return HEADER.pack(**fields) + struct.pack(f">{len(self.words)}i", *self.words)

    @classmethod
    def decode(cls, frame):
        """ValueError if it is shorter than a header or holds part of a word."""
        size = len(frame) - HEADER.bytes
        if size < 0 or size % WORD_BYTES:
            raise ValueError(f"{len(frame)} bytes are not a header of {HEADER.bytes} and whole words")
        words = struct.unpack(f">{size // WORD_BYTES}i", frame[HEADER.bytes :])
        return cls(words=words, **HEADER.unpack(frame))


@dataclasses.dataclass(frozen=True)
class ExactPacket:
    """The same of an exact session. `data`: the elements as they travel."""

    job: int
    epoch: int
    worker: int
    slot: int
    seq: int
    version: int = VERSION
    kind: int = KINDS["exact_contribution"]
    flags: int = 0
    type: int = 0
    operation: int = 0
    divisor: int = 1
    call: int = 0
    checksum: int = 0
    data: bytes = b""

    def encode(self):
        return EXACT.pack(**{name: getattr(self, name) for name, _ in EXACT.fields}) + self.data

    @classmethod
    def decode(cls, frame):
        """ValueError if it is shorter than a header."""
        if len(frame) < EXACT.bytes:
            raise ValueError(f"{len(frame)} bytes are no header of {EXACT.bytes}")
        return cls(data=frame[EXACT.bytes :], **EXACT.unpack(frame))

    @property
    def chunk(self):
        """What the elements are, those that are left out included. ValueError: they are badly packed; IndexError: no
        such type."""
        return packed.unpack(self.data, self.element.size) if self.flags & PACKED else packed.Chunk(self.data)

    @property
    def words(self):
        """The bits of each element, if the type exists; of a result of float32, of each float."""
        return elements.split(self.chunk.data, 4 if self.is_result and self.is_to_float32 else self.element.size)

    @property
    def element(self):
        return elements.TYPES[elements.NAMES[self.type]]

    @property
    def is_result(self):
        return self.kind == KINDS["exact_result"]

    @property
    def is_to_float32(self):
        return elements.OPERATIONS[self.operation] == elements.TO_FLOAT32

    @property
    def is_partial(self):
        return elements.OPERATIONS[self.operation] == "partial"

    @property
    def size(self):
        """Bytes of an element as this packet has it."""
        return (
            elements.result_size(self.element, elements.OPERATIONS[self.operation])
            if self.is_result
            else (self.element.size)
        )

    @property
    def room(self):
        """The least payload with which so many elements may be together. [NSUM-4]"""
        count = len(self.chunk.data) // self.size
        terms = count * self.element.size
        results = count * elements.result_size(self.element, elements.OPERATIONS[self.operation])
        if self.is_partial:
            return len(self.data)
        return terms if results <= 8192 else max(terms, results)

    def right_checksum(self, key):
        header = dataclasses.replace(self, checksum=0, flags=self.flags & ~REPEAT, data=b"").encode()
        seed = xxhash.xxh3_64_intdigest(header, key)
        return xxhash.xxh3_64_intdigest(self.data, seed) % 2**32

    def sealed(self, key):
        return dataclasses.replace(self, checksum=self.right_checksum(key))


EXACT_KINDS = (KINDS["exact_contribution"], KINDS["exact_result"])
DATA_KINDS = (KINDS["contribution"], KINDS["result"], *EXACT_KINDS)


def decode(frame):
    """A Packet or, of an exact kind, an ExactPacket."""
    return (ExactPacket if frame[0] & 15 in EXACT_KINDS else Packet).decode(frame)


HEXADECIMAL = ("epoch", "witness", "flags", "call", "checksum")


def describe(frame):
    """One line for people: the fields of a packet, or the bytes of what is none."""
    try:
        packet = decode(frame)
        words = packet.words
    except (ValueError, IndexError):
        return f"hex {frame.hex()}"
    if packet.kind not in DATA_KINDS:
        return f"hex {frame.hex()}"
    exact = packet.kind in EXACT_KINDS
    fields = " ".join(f"{name}={getattr(packet, name):#x}" if name in HEXADECIMAL else f"{name}={getattr(packet, name)}"
                      for name, _ in (EXACT if exact else HEADER).fields)  # fmt: skip
    shown = ",".join(map(hex if exact else str, words[:8])) + (",.." if len(words) > 8 else "")
    return f"{fields} {'elements' if exact else 'words'}({len(words)})={shown or 'none'}"
