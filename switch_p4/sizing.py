#!/usr/bin/env python3
"""How many slots a job needs to keep a link full, and how many such jobs a Tofino holds: a Markdown table.

    python3 switch_p4/sizing.py [--rtt-us 15] [--payloads 256,1024] [--rates 10,25,100,400]
        [--members 8] [--loop-ports 1] [--loops]

A slot carries one packet per round trip, so a job needs the bandwidth-delay product: rate x round trip / bytes that a
packet takes on the wire. Some slots are for calls and for short collectives (docs/protocol.md, The stream), and idle
while data streams; so there are more. Slots are granted in pages. Each pipe has the slots of sizes.p4, for 256 B each:
one of 1024 B takes four, in one pipe or in several. Sessions also take entries of the program's tables.
"""

import argparse
import math
import pathlib
import re

# Preamble and gap 20, Ethernet 18 with its checksum, IPv4 20, UDP 8, our header 20.
OVERHEAD_BYTES = 86
MAX_JOBS = 255
LATER_PASSES = {1: 1, 4: 10}  # of a packet, by the segments of its payload
MOST_WAYS = 16  # loop ports of a pipe that a job uses: a power of two
# Bytes of a packet of 1024 B on the way into the pipe of each segment: of each contribution, and of each result.
TAKEN_IN = (0, 863, 607, 351)
GIVEN_OUT = (863 + 991, 607 + 735, 351 + 479, 223)
FRAME_BYTES = 1110  # at the front panel
MAX_SLOTS = 4096  # of one job


def sizes():
    text = (pathlib.Path(__file__).parent / "sizes.p4").read_text(encoding="utf-8")
    return {name: int(value) for name, value in re.findall(r"#define (\w+) \(?(\d+)", text)}  # for one segment


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


def sessions_in_tables(pipes, segments, loop_ports):
    """What the agent announces (switchml_agent/bfrt_program.py): so many fit, whatever their slots are."""
    chip = sizes()
    ways = min(1 << loop_ports.bit_length() - 1, MOST_WAYS)
    pages = min(pipes, segments) * chip["PAGES"] // segments
    return min(
        MAX_JOBS,
        chip["SESSIONS"],
        (chip["PAGE_ENTRIES"] - pages) // (chip["PAGE_BITS"] - 1),
        chip["LOOPS"] * segments // (LATER_PASSES[segments] * ways),
        chip["HOMES"] // (max(pipes - 1, 1) * ways),
    )


def jobs_on(pipes, slots, segments, members, loop_ports):
    """Jobs that fit: their segments are spread over the pipes. A page is the same job's in every pipe, so that the job
    may lie where its workers are: more pipes than segments hold no more."""
    if slots > MAX_SLOTS:
        return 0
    chip = sizes()
    pages = math.ceil(slots / chip["PAGE_SLOTS"])
    by_pages = min(pipes, segments) * chip["PAGES"] // segments // pages
    return min(by_pages, chip["MEMBERS"] // members, sessions_in_tables(pipes, segments, loop_ports))


def loop_load(workers):
    """Loop ports' worth of packets into the pipe of each segment: of a job of 1024 B at its workers' line rate."""
    return [(workers * taken + given) / FRAME_BYTES for taken, given in zip(TAKEN_IN, GIVEN_OUT)]


def print_loop_ports():
    """On a chip of four pipes."""
    print("| workers | loop ports' worth into the pipes of segments 0 to 3 | loop ports | front-panel ports lost |")
    print("|---|---|---|---|")
    for workers in (4, 8, 15):
        load = loop_load(workers)
        ports = [1 << math.ceil(math.log2(each)) for each in load]
        shares = ", ".join(f"{each:.1f}" for each in load)
        print(f"| {workers} | {shares} | {', '.join(map(str, ports))} | {sum(ports) - len(ports)} |")


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rtt-us", type=float, default=15, help="round trip with an idle switch, microseconds (15)")
    parser.add_argument("--payloads", type=numbers, default=[256, 1024], help="bytes (256,1024)")
    parser.add_argument("--rates", type=numbers, default=[10, 25, 100, 400], help="Gbit/s (10,25,100,400)")
    parser.add_argument("--members", type=int, default=8, help="of each job, in one shard (8)")
    parser.add_argument("--loop-ports", type=int, default=1, help="of each pipe, the chip's own among them (1)")
    parser.add_argument("--loops", action="store_true", help="the loop ports of one job of 1024 B, instead")
    arguments = parser.parse_args()
    if arguments.loops:
        return print_loop_ports()
    if not 1 <= arguments.members <= sizes()["MAX_WORKERS"] or arguments.loop_ports < 1:
        parser.error(f"--members: 1 to {sizes()['MAX_WORKERS']}; --loop-ports: 1 or more")
    if arguments.rtt_us <= 0 or not set(arguments.payloads) <= {256, 1024} or min(arguments.rates) < 1:
        parser.error("--rtt-us: above 0; --payloads: 256 and 1024; --rates: 1 or more")
    chip = sizes()
    print(
        f"Round trip {arguments.rtt_us:g} us, {arguments.members} members, loop ports of a pipe: {arguments.loop_ports}.\n"
    )
    print("| link, Gbit/s | payload, B | slots | pages | bytes of registers | jobs, 1 pipe | 2 pipes | 4 pipes |")
    print("|---|---|---|---|---|---|---|---|")
    for rate in arguments.rates:
        for payload in arguments.payloads:
            slots = slots_needed(rate, arguments.rtt_us, payload)
            pages = math.ceil(slots / chip["PAGE_SLOTS"])
            segments = max(1, payload // 256)
            jobs = [jobs_on(pipes, slots, segments, arguments.members, arguments.loop_ports) for pipes in (1, 2, 4)]
            print(
                f"| {rate} | {payload} | {slots} | {pages} | {slots * slot_bytes(segments):,} | "
                + " | ".join(map(str, jobs))
                + " |"
            )


if __name__ == "__main__":
    main()
