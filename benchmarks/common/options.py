"""Values of command-line options: what is not allowed is refused with the value and what is."""

import argparse

UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
BACKENDS = ("switchml", "gloo")
TYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}  # bytes of an element


def refuse(text, allowed):
    raise argparse.ArgumentTypeError(f"{text!r} is not allowed: use {allowed}")


def byte_size(text):
    upper = text.strip().upper().removesuffix("IB")
    digits = upper.rstrip("BKMG")
    if not digits.isdigit() or upper[len(digits) :] not in UNITS:
        refuse(text, "a number with K, M or G behind it, like 64K")
    size = int(digits) * UNITS[upper[len(digits) :]]
    if size == 0 or size % 4:
        refuse(text, "a multiple of 4 bytes")
    return size


def number(low, high, kind=float, unit=""):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            refuse(text, f"{'a whole number' if kind is int else 'a number'} from {low:g} to {high:g}{unit}")
        return value

    return parse


def payload(text):
    if text == "auto":
        return text
    size = int(text) if text.isdigit() else 0
    if size not in (256, 512) and (size % (1024 if size > 2048 else 128) or not 1024 <= size <= 64512):
        refuse(text, "auto, 256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to 64512 (bytes)")
    return size


def backend(text):
    return text if text in BACKENDS else refuse(text, " or ".join(BACKENDS))


def element_type(text):
    return text if text in TYPES else refuse(text, ", ".join(TYPES))


def rate_or_none(text):
    """Mbit/s; 0: without a limit."""
    return 0 if text == "none" else link_rate(text)


def list_of(kind):
    def parse(text):
        items = [kind(item.strip()) for item in text.split(",")]
        if len(set(items)) != len(items):
            refuse(text, "each value once")
        return items

    return parse


rank_count = number(2, 64, int, " ranks")
link_rate = number(1, 100000, int, " Mbit/s")
link_mtu = number(576, 65535, int, " bytes")
loss = number(0, 0.5, float, " (a fraction: 0.01 is one per cent)")
zeros = number(0, 1, float, " (a fraction: 0.9 is nine blocks of ten)")
