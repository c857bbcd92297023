#!/usr/bin/env python3
"""How many slots a job needs to keep a link full, and how many such jobs a Tofino holds: a Markdown table.

    python3 switch_p4/sizing.py [--rtt-us 15] [--payloads 256,1024] [--rates 10,25,100,400]

A slot carries one packet per round trip, so a job needs the bandwidth-delay product: rate x round trip / bytes that a packet
takes on the wire. The engine keeps a quarter of the slots for calls, which are idle while data streams; so a third comes on
top. Slots are granted in pages. The switch's slots are those of sizes.p4 (256 B), four times fewer for 1024 B in one pipe.
"""

import argparse
import math
import pathlib
import re

# Preamble and gap 20, Ethernet 18 with its checksum, IPv4 20, UDP 8, our header 20.
OVERHEAD_BYTES = 86
DATA_LANE = 0.75


def sizes():
    text = (pathlib.Path(__file__).parent / "sizes.p4").read_text(encoding="utf-8")
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", text)}


def slots_needed(gigabits, rtt_us, payload):
    in_flight = gigabits * 1e9 / 8 * rtt_us * 1e-6 / (payload + OVERHEAD_BYTES)
    return math.ceil(in_flight / DATA_LANE)


def slot_bytes(payload):
    """Register bytes of a slot: two versions of words, epoch and seq, bitmap (64 workers and their number), exponent, witness."""
    return 2 * (payload + 8 + 9 + 2 + 4)


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt-us", type=float, default=15, help="round trip with an idle switch, microseconds (15)")
    parser.add_argument("--payloads", type=numbers, default=[256, 1024], help="bytes (256,1024)")
    parser.add_argument("--rates", type=numbers, default=[10, 25, 100, 400], help="Gbit/s (10,25,100,400)")
    arguments = parser.parse_args()
    if arguments.rtt_us <= 0 or min(arguments.payloads) < 256 or min(arguments.rates) < 1:
        parser.error("--rtt-us: above 0; --payloads: 256 or more; --rates: 1 or more")
    chip = sizes()
    print(f"Round trip {arguments.rtt_us:g} us.\n")
    print("| link, Gbit/s | payload, B | slots | pages | bytes of registers | jobs, one pipe | jobs, four pipes |")
    print("|---|---|---|---|---|---|---|")
    for rate in arguments.rates:
        for payload in arguments.payloads:
            slots = slots_needed(rate, arguments.rtt_us, payload)
            pages = math.ceil(slots / chip["PAGE_SLOTS"])
            segments = max(1, payload // 256)
            # Each pipe holds every slot's segment of 256 B; in one pipe alone a slot takes one index per segment.
            one = chip["SLOTS"] // segments // (pages * chip["PAGE_SLOTS"])
            four = min(4, segments) * one
            print(f"| {rate} | {payload} | {slots} | {pages} | {slots * slot_bytes(payload):,} | {one} | {four} |")


if __name__ == "__main__":
    main()
