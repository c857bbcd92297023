"""Contributions to sums of partial sums (PART-1 to PART-9 of docs/protocol-exact.md): bytes, and exact numbers."""

import dataclasses
import struct
from fractions import Fraction

from vectors import elements

HEAD = struct.Struct("<4H")
MOST_TERMS = 128
#: Divisors that a contribution has because a header cannot.
OWN_DIVISORS = range(129, 1025)
#: Of each type: the wide float, and the bytes of an exact sum as an integer.
WIDE = {"float16": (elements.TYPES["float32"], 8), "bfloat16": (elements.TYPES["float32"], 36),
        "float32": (elements.FLOAT64, 36), "float64": (elements.FLOAT64, 264)}  # fmt: skip
ZERO = elements.Number(False, Fraction(0))


def wide_of(element):
    return WIDE[next(name for name, kind in elements.TYPES.items() if kind == element)]


def pairs(element):
    """Whether a wide number is two, because no float is wider."""
    return element == elements.FLOAT64


@dataclasses.dataclass
class Partial:
    """`columns`: of each element the terms, or its sum."""

    terms: int
    columns: list
    divisor: int = 0


def number_of(value):
    return elements.Number(value < 0, abs(value))


def has(kind, number):
    return kind.decode(kind.encode(number)) == number


def encode_terms(element, terms, divisor=0):
    """`terms`: of each source, the bits of all elements."""
    data = b"".join(elements.join(bits, element.size) for bits in terms)
    return HEAD.pack(len(terms[0]), 0, len(terms), divisor) + data


def encode_sums(element, numbers, divisor=0):
    wide, size = wide_of(element)
    highs, lows, listed = [], [], b""
    for index, number in enumerate(numbers):
        high, low = split_wide(element, number) or (elements.NAN, ZERO)
        if high is elements.NAN and number is not elements.NAN:
            units = number.value / Fraction(2) ** element.least
            listed += index.to_bytes(2, "little") + int(units).to_bytes(size, "little", signed=True)
        highs.append(wide.encode(high))
        lows.append(wide.encode(low))
    data = elements.join(highs + (lows if pairs(element) else []), wide.size)
    return HEAD.pack(len(numbers), len(listed) // (2 + size), 0, divisor) + data + listed


def split_wide(element, number):
    """The wide number, or the two, that are the number; None: there are none."""
    wide, _ = wide_of(element)
    if number is elements.NAN or not number.finite or has(wide, number):
        return number, ZERO
    high = wide.decode(wide.encode(number))
    if not pairs(element) or not high.finite:
        return None
    rest = number_of(number.value - high.value)
    return (high, rest) if has(wide, rest) else None


def decode(element, data):
    """A Partial; None: it is none. [PART-7]"""
    if len(data) < HEAD.size:
        return None
    count, listed, terms, divisor = HEAD.unpack(data[: HEAD.size])
    wide, size = wide_of(element)
    width = wide.size * (2 if pairs(element) else 1)
    numbers = count * (terms * element.size if terms else width)
    right = HEAD.size + numbers + listed * (2 + size) == len(data)
    right = right and (divisor == 0 or divisor in OWN_DIVISORS)
    if not right or count == 0 or terms > MOST_TERMS or listed > (0 if terms else count):
        return None
    body, entries = data[HEAD.size : HEAD.size + numbers], data[HEAD.size + numbers :]
    if terms:
        bits = elements.split(body, element.size)
        columns = [[element.decode(bits[t * count + i]) for t in range(terms)] for i in range(count)]
        return Partial(terms, columns, divisor)
    columns = with_list(element, [wide.decode(bits) for bits in elements.split(body, wide.size)], entries, count)
    return columns and Partial(0, columns, divisor)


def with_list(element, numbers, entries, count):
    _, size = wide_of(element)
    columns = [[numbers[i]] for i in range(count)]
    if pairs(element):
        for column, low in zip(columns, numbers[count:]):
            column += [low] if low is elements.NAN or low.magnitude != 0 else []
    last = -1
    for at in range(0, len(entries), 2 + size):
        index = int.from_bytes(entries[at : at + 2], "little")
        if index <= last or index >= count or numbers[index] is not elements.NAN:
            return None
        last = index
        units = int.from_bytes(entries[at + 2 : at + 2 + size], "little", signed=True)
        columns[index] = [number_of(units * Fraction(2) ** element.least)]
    return columns


def together(element, parts, room):
    """What a switch with a parent sends of some; None: it does not fit. [PART-4, PART-8]"""
    terms = sum(part.terms for part in parts) if all(part.terms for part in parts) else 0
    columns = [[number for part in parts for number in part.columns[i]] for i in range(len(parts[0].columns))]
    as_terms = None
    if 0 < terms <= MOST_TERMS:
        bits = [[element.encode(column[t]) for column in columns] for t in range(terms)]
        as_terms = encode_terms(element, bits, parts[0].divisor)
    if as_terms is not None and len(as_terms) > room:
        as_terms = None
    wide, _ = wide_of(element)
    if as_terms is not None and terms * element.size <= wide.size * (2 if pairs(element) else 1):
        return as_terms
    totals = [elements.reduce_floats("sum", 1, column) for column in columns]
    sums = encode_sums(element, totals, parts[0].divisor)
    if len(sums) <= (room if as_terms is None else len(as_terms)):
        return sums
    return as_terms


def rounded(element, parts, divisor):
    columns = zip(*(part.columns for part in parts))
    divisor = parts[0].divisor or divisor
    return [element.encode(elements.reduce_floats("sum", divisor, [n for own in column for n in own]))
            for column in columns]  # fmt: skip
