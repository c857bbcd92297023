"""Packets of RoCE version 2 as a card makes and takes them, without looking at how the switches do it. [RDMA-11]"""

import zlib

from vectors import wire

PORT = wire.PROTOCOL["roce"]["port"]
OPCODES = wire.PROTOCOL["opcodes"]
BASE = wire.Layout("base_transport")
EXTENDED = wire.Layout("extended_transport")
IMMEDIATE = wire.Layout("immediate")
IPV4_BYTES, UDP_BYTES, CHECK_BYTES = 20, 8, 4
HEADERS_BYTES = BASE.bytes + EXTENDED.bytes + IMMEDIATE.bytes


def invariant_check(packet):
    """Of a packet from IPv4 on, up to the check. What routers may change counts as ones: service, time to live, both
    checksums, congestion. So does InfiniBand's own header, which RoCE has not. [RDMA-14]"""
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (1, 8, 10, 11, IPV4_BYTES + 6, IPV4_BYTES + 7, IPV4_BYTES + UDP_BYTES + 4):
        masked[8 + at] = 0xFF
    return zlib.crc32(masked).to_bytes(4, "little")


def place_bits(payload):
    """[RDMA-10]"""
    size = 1
    while 1 << size < wire.HEADER.bytes + payload:
        size += 1
    return size


def message(frame, **fields):
    """A UDP payload without the check: `frame` in an RDMA WRITE. `fields`: those of the three headers that are not what
    they always are."""
    fill = -len(frame) % 4
    base = {"opcode": OPCODES["write_only_with_immediate"], "partition": 0xFFFF, "pad": fill}
    base |= {name: fields.pop(name) for name, _ in BASE.fields if name in fields}
    extended = {"bytes": len(frame)} | {name: fields.pop(name) for name, _ in EXTENDED.fields if name in fields}
    return BASE.pack(**base) + EXTENDED.pack(**extended) + IMMEDIATE.pack(**fields) + frame + b"\0" * fill


def split(payload):
    """(fields of all headers, message) of a UDP payload whose check is right; ValueError if it is no WRITE."""
    if len(payload) < HEADERS_BYTES + CHECK_BYTES:
        raise ValueError(f"{len(payload)} bytes are no message of RoCE")
    extended, immediate = payload[BASE.bytes :], payload[BASE.bytes + EXTENDED.bytes :]
    fields = BASE.unpack(payload) | EXTENDED.unpack(extended) | IMMEDIATE.unpack(immediate)
    return fields, payload[HEADERS_BYTES:-CHECK_BYTES]
