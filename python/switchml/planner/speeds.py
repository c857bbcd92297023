"""Speeds as people write them: 3G, 100M, 1.5G, in bits per second."""

import re

from .errors import PlanError

UNITS = {"M": 1e6, "G": 1e9, "T": 1e12}
SPEED = re.compile(r"(\d+\.?\d*)([MGT])")


def parse_speed(text):
    """Bits per second. The controller takes the same words."""
    match = SPEED.fullmatch(text)
    value = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not value:
        raise PlanError(f'"{text}": allowed is a number above 0 with M, G or T, as in 100G')
    return value


def format_speed(value):
    """The shortest of the same words, with four digits: 2.438G."""
    value = float(f"{value:.4g}")
    for unit, scale in sorted(UNITS.items(), key=lambda item: -item[1]):
        if value >= scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value / 1e6:.3g}M" if value else "0"
