"""Values of the commands' options and of a launcher's variables: one that is not allowed is refused with what is, and
status 2 or 1."""

import argparse
import os
import pathlib
import sys

MOST_SECONDS, MOST_RANKS = 1e6, 1 << 20


def refuse(text, allowed):
    raise argparse.ArgumentTypeError(f"{text!r} is not allowed: use {allowed}")


def number(text, kind, is_allowed, allowed):
    """The number of this kind that the text has; what is no number is not allowed either."""
    try:
        value = kind(text)
    except ValueError:
        value = None
    return value if value is not None and is_allowed(value) else refuse(text, allowed)


def whole(least):
    return lambda text: number(text, int, lambda value: least <= value < 1 << 31, f"a whole number from {least} on")


def size(text):
    """Bytes, as NCCL's tests take them."""
    scale = "KMG".find(text[-1:].upper()) + 1 if text[-1:].isalpha() else 0
    digits = text[:-1] if scale else text
    count = int(digits) << 10 * scale if digits.isdecimal() else 0
    allowed = "a number of bytes from 1 to 64G, as 4096, 64K, 32M or 1G"
    return count if 1 <= count <= 64 << 30 else refuse(text, allowed)


def one_of(names):
    return lambda text: text if text in names else refuse(text, f"one of {', '.join(names)}")


def seconds(text):
    allowed = f"a number of seconds above 0, up to {MOST_SECONDS:.0f}"
    return number(text, float, lambda value: 0 < value <= MOST_SECONDS, allowed)


def ranks(text):
    return number(text, int, lambda value: 2 <= value <= 128, "a whole number from 2 to 128")


def of_launcher(variable, least, most, default=""):
    """The whole number that a launcher has put into this variable."""
    allowed = f"a whole number from {least} to {most}"
    try:
        return number(os.environ.get(variable, default), int, lambda value: least <= value <= most, allowed)
    except argparse.ArgumentTypeError as error:
        sys.exit(f"error: {variable}={error}")


def launched():
    """The rank, the number of ranks, and the store's address and port, under a launcher."""
    rank = of_launcher("RANK", 0, MOST_RANKS - 1)
    size = of_launcher("WORLD_SIZE", rank + 1, MOST_RANKS)
    address = os.environ.get("MASTER_ADDR") or sys.exit("error: MASTER_ADDR='' is not allowed: use rank 0's address")
    return rank, size, address, of_launcher("MASTER_PORT", 1, 65535)


def picture(text):
    """Where rank 0 is to write a file, or '' for nowhere; other ranks may have other folders."""
    if text and os.environ.get("RANK", "0") == "0":
        path = pathlib.Path(text)
        is_new = not path.exists()
        try:
            path.open("ab").close()
        except OSError as error:
            refuse(text, f"the name of a file that can be written, or '' for none ({error.strerror})")
        if is_new:
            path.unlink()
    return text
