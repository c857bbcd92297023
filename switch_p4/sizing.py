#!/usr/bin/env python3
"""How many slots a job needs to keep a link full, and how many such jobs a Tofino holds: a Markdown table.

    python3 switch_p4/sizing.py [--rtt-us 15] [--payloads 256,1024] [--rates 10,25,100,400]

A slot carries one packet per round trip, so a job needs the bandwidth-delay product: rate x round trip / bytes that a
packet takes on the wire. Some slots are for calls and for short collectives (docs/protocol.md, The stream), and idle
while data streams; so there are more. Slots are granted in pages. Each pipe has the slots of sizes.p4, for 256 B each:
one of 1024 B takes four, in one pipe or in several.
"""

import argparse
import math
import pathlib
import re

# Preamble and gap 20, Ethernet 18 with its checksum, IPv4 20, UDP 8, our header 20.
OVERHEAD_BYTES = 86
MAX_JOBS = 255
MAX_SLOTS = 4096  # of one job


def sizes():
    text = (pathlib.Path(__file__).parent / "sizes.p4").read_text(encoding="utf-8")
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)", text)}


def data_slots(slots):
    """Those that carry the elements of a long tensor (LaneSlots of backend/engine/engine.h)."""
    if slots < 64:
        return slots - max(1, slots // 4 if slots >= 8 else 1)
    return slots - 5 * min(slots // 16, 16)


def slots_needed(gigabits, rtt_us, payload):
    in_flight = gigabits * 1e9 / 8 * rtt_us * 1e-6 / (payload + OVERHEAD_BYTES)
    slots = max(2, math.ceil(in_flight))
    while data_slots(slots) < in_flight:
        slots += 1
    return slots


def slot_bytes(segments):
    """Register bytes of a slot: two versions, each with 256 B of words, epoch and seq, bitmap, witness, exponent and
    count per segment."""
    return segments * 2 * (256 + 8 + 8 + 4 + 2 + 1)


def jobs_on(pipes, pages_of_pipe, slots, pages, segments):
    """Jobs that fit: their segments are spread over the pipes. A page is the same job's in every pipe, so that the job
    may lie where its workers are: more pipes than segments hold no more."""
    if slots > MAX_SLOTS:
        return 0
    return min(MAX_JOBS, min(pipes, segments) * pages_of_pipe // segments // pages)


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt-us", type=float, default=15, help="round trip with an idle switch, microseconds (15)")
    parser.add_argument("--payloads", type=numbers, default=[256, 1024], help="bytes (256,1024)")
    parser.add_argument("--rates", type=numbers, default=[10, 25, 100, 400], help="Gbit/s (10,25,100,400)")
    arguments = parser.parse_args()
    if arguments.rtt_us <= 0 or not set(arguments.payloads) <= {256, 1024} or min(arguments.rates) < 1:
        parser.error("--rtt-us: above 0; --payloads: 256 and 1024; --rates: 1 or more")
    chip = sizes()
    print(f"Round trip {arguments.rtt_us:g} us.\n")
    print("| link, Gbit/s | payload, B | slots | pages | bytes of registers | jobs, 1 pipe | 2 pipes | 4 pipes |")
    print("|---|---|---|---|---|---|---|---|")
    for rate in arguments.rates:
        for payload in arguments.payloads:
            slots = slots_needed(rate, arguments.rtt_us, payload)
            pages = math.ceil(slots / chip["PAGE_SLOTS"])
            segments = max(1, payload // 256)
            jobs = [jobs_on(pipes, chip["PAGES"], slots, pages, segments) for pipes in (1, 2, 4)]
            print(
                f"| {rate} | {payload} | {slots} | {pages} | {slots * slot_bytes(segments):,} | "
                + " | ".join(map(str, jobs))
                + " |"
            )


if __name__ == "__main__":
    main()
