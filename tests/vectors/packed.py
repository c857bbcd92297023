"""Payloads without their blocks of zeros: docs/protocol-exact.md, Zero blocks."""

import dataclasses

BLOCK = 256


@dataclasses.dataclass(frozen=True)
class Chunk:
    """All elements of a chunk; of a packed one also how it is cut, and which blocks travel."""

    data: bytes
    first: int = 0  # elements of the first block; 0: it is not packed
    present: frozenset = frozenset()


def blocks(count, first):
    """Where each begins and ends, in elements."""
    ends = [*range(first, count, BLOCK), count]
    return list(zip([0, *ends], ends))


def pack(chunk, size):
    """The payload. [ZERO-2]"""
    count = len(chunk.data) // size
    cut = blocks(count, chunk.first)
    elements = b"".join(chunk.data[cut[i][0] * size : cut[i][1] * size] for i in sorted(chunk.present))
    bitmap = sum(1 << i for i in chunk.present).to_bytes((len(cut) + 7) // 8, "little")
    return elements + bitmap + count.to_bytes(2, "little") + chunk.first.to_bytes(2, "little")


def nonzero(data, size, first):
    """The blocks of elements that have a bit that is not 0."""
    cut = blocks(len(data) // size, first)
    return frozenset(i for i, (begin, end) in enumerate(cut) if any(data[begin * size : end * size]))


def unpack(payload, size):
    """The chunk; ValueError if it is none. [ZERO-3]"""
    count, first = (int.from_bytes(payload[at : at + 2], "little") for at in (len(payload) - 4, len(payload) - 2))
    if len(payload) < 4 or not 1 <= first <= min(count, BLOCK) or not len(payload) <= count * size <= 63 * 1024:
        raise ValueError("no trailer")
    cut = blocks(count, first)
    bitmap = payload[:-4][-((len(cut) + 7) // 8) :]
    bits = int.from_bytes(bitmap, "little")
    present = frozenset(i for i in range(8 * len(bitmap)) if bits >> i & 1)
    if len(bitmap) != (len(cut) + 7) // 8 or any(i >= len(cut) for i in present):
        raise ValueError("no bitmap")
    left, data = payload[: -4 - len(bitmap)], b""
    for i, (begin, end) in enumerate(cut):
        length = (end - begin) * size
        data += left[:length] if i in present else bytes(length)
        left = left[length:] if i in present else left
    if left or len(data) != count * size:
        raise ValueError("not as many elements as blocks say")
    return Chunk(data, first, present)
