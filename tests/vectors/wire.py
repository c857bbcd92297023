"""Packets as bytes, from the layouts of backend/wire/protocol.toml."""

import dataclasses
import pathlib
import struct
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOCOL = tomllib.loads((ROOT / "backend/wire/protocol.toml").read_text(encoding="utf-8"))
VERSION = PROTOCOL["version"]
KINDS = PROTOCOL["kinds"]
OPERATIONS = PROTOCOL["operations"]
REPEAT = PROTOCOL["flags"]["repeat"]
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


def describe(frame):
    """One line for people: the fields of a packet, or the bytes of what is none."""
    try:
        packet = Packet.decode(frame)
    except ValueError:
        return f"hex {frame.hex()}"
    if packet.kind not in (KINDS["contribution"], KINDS["result"]):
        return f"hex {frame.hex()}"
    fields = " ".join(f"{name}={getattr(packet, name):#x}" if name in ("epoch", "witness", "flags") else
                      f"{name}={getattr(packet, name)}" for name, _ in HEADER.fields)
    shown = ",".join(map(str, packet.words[:8])) + (",.." if len(packet.words) > 8 else "")
    return f"{fields} words({len(packet.words)})={shown or 'none'}"
