"""A session in the tables of switch_p4/tna: which entries it takes. Speaks to no switch."""

import dataclasses
import ipaddress
import itertools

from switchml_agent import bfrt_program as names
from switchml_agent.frames import mac_bytes
from switchml_agent.sessions import ALL_SHARDS, ANY_SHARD, Copy, Group, Number, Session, pair_number

OUTSIDE, LOOP, CONTROL = 0, 1, 2  # kinds of ports
_SLOT_BITS = 16
_LANE_BITS = 2  # a wide port takes the first of four numbers
_PIPE_MASK = 0x1FF >> names.PIPE_BITS << names.PIPE_BITS
_STEP_MASK = 15  # packets without words, whose steps have a bit more, go the same way
_PRIORITY = {"$MATCH_PRIORITY": 0}  # of all: no two patterns of a table match the same
_WORD = 2**32 - 1
_CARD_PORTS = 0xC000  # the UDP ports from which cards send, by the number of a pair: one way for one pair


@dataclasses.dataclass(frozen=True)
class Entry:
    """Of a table; a pair as a key is a value and its mask."""

    table: str
    keys: dict
    action: str
    values: dict


def ip(text):
    return int(ipaddress.IPv4Address(text))


def mac(text):
    return int.from_bytes(mac_bytes(text), "big")


def slot_patterns(first, count):
    """[(value, mask)] of `count` slots from `first` on, which is a multiple of a power of two that is not below
    count."""
    made = []
    for power in range(_SLOT_BITS, -1, -1):
        if count & 1 << power:
            made.append((first, 2**_SLOT_BITS - 2**power))
            first += 1 << power
    return made


@dataclasses.dataclass(frozen=True)
class Ways:
    """The entries of way_entries, which change when a session gets another home."""

    session: Session


@dataclasses.dataclass(frozen=True)
class Known:
    """The entry of station, which members at one address have in common."""

    mac: str
    port: int


def station(address, port):
    return Entry(
        names.STATIONS, {"headers.ethernet.destination": mac(address)}, "SwitchIngress.layer2.forward", {"port": port}
    )


def session_entries(session, program):
    """All but the members and what opens it."""
    yield from (Group(group) for group in session.groups)
    yield Ways(session)
    for i, page in enumerate(session.pages):
        yield from _page(session, program, i, page)
    job = {"headers.switchml.job": session.job}
    if session.uplink:
        worker, parent = session.uplink
        values = {"worker": worker, "mac": mac(parent.mac), "ip": ip(parent.ip), "port": parent.port}
        yield Entry(names.UPLINKS, job, "SwitchIngress.session.leaf", values)


def opening(session):
    """The entry without which nothing of the session is taken in."""
    keys = {"headers.switchml.job": session.job, "headers.switchml.epoch": session.epoch}
    return Entry(names.SESSIONS, keys, "SwitchIngress.session.found", {"workers": len(session.members)})


def way_entries(session, program, home):
    """To the pipes of the job's segments: from pass to pass, and to the first, its home, from where packets come in."""
    job = {"headers.switchml.job": session.job, **_PRIORITY}
    for step, segment in enumerate(names.LATER_PASSES[program.segments], 1):
        ports = program.ways(session.job, home, segment)
        for i, port in enumerate(ports):
            keys = job | {"headers.bridge.step": (step, _STEP_MASK), "headers.switchml.slot": (i, len(ports) - 1)}
            yield Entry(names.LOOPS, keys, "SwitchIngress.around.go", {"port": port, "segment": segment})
    ports = program.ways(session.job, home)
    for pipe, (i, port) in itertools.product(range(program.pipes), enumerate(ports)):
        if pipe != home:
            came_by = pipe << names.PIPE_BITS | i << _LANE_BITS, _PIPE_MASK | len(ports) - 1 << _LANE_BITS
            yield Entry(
                names.HOMES, job | {"intrinsic.ingress_port": came_by}, "SwitchIngress.slot_index.away", {"port": port}
            )


def _page(session, program, i, page):
    first = i * program.page_slots
    shard = first // (session.slots // session.shards)
    for segment in range(program.segments):
        for pattern in slot_patterns(first, min(program.page_slots, session.slots - first)):
            keys = {
                "headers.switchml.job": session.job,
                "headers.bridge.segment": segment,
                "headers.switchml.slot": pattern,
            }
            values = {"number": program.page(page, segment), "shard": shard, "audience": session.group(shard)}
            yield Entry(names.PAGES, keys | _PRIORITY, "SwitchIngress.slot_index.page", values)


def worker_entries(session, worker):
    bit = 1 << session.members.index(worker)
    keys = {"headers.switchml.job": session.job, "headers.switchml.worker": worker}
    yield Entry(names.WORKERS, keys, "SwitchIngress.session.member", {"lower": bit & _WORD, "upper": bit >> 32})


def member_entries(session, program, worker, shard, place):
    """Where a member sends from, and where it receives: for one shard or for all."""
    own = ANY_SHARD if shard == ALL_SHARDS else shard
    port = place.udp_port
    yield Known(place.mac, place.port)
    yield _speaks(session, worker, place, _origin(port) if program.pairs else {"headers.udp.source": port}, own)
    for each in range(session.shards) if shard == ALL_SHARDS else (shard,):
        yield from _receives(session, worker, each, place, "member", {"port": port})


def pair_entries(session, worker, shard, place, pair):
    """The same of a worker that has a queue pair for the shard."""
    values = {
        "source": _CARD_PORTS | pair.queue_pair & 0x3FFF, "queue_pair": pair.queue_pair,
        "address_high": pair.address >> 32, "rkey": pair.rkey, "own": pair.index,
    }  # fmt: skip
    yield Number(names.PSNS, pair.index, pair.first_psn)  # [RDMA-15]
    yield Known(place.mac, place.port)
    yield _speaks(session, worker, place, _origin(pair_number(session.job, worker, shard)), shard)  # [RDMA-13]
    yield from _receives(session, worker, shard, place, "pair", values)


def _origin(number):
    """Of a UDP port, or of the switch's end of a pair, which is above all ports."""
    return {"origin_high": number >> 16, "origin": number & 0xFFFF}


def _speaks(session, worker, place, came_from, shard):
    keys = {"headers.switchml.job": session.job, "headers.switchml.worker": worker, "headers.ipv4.source": ip(place.ip)}
    return Entry(names.SOURCES, keys | came_from, "SwitchIngress.session.speaks", {"shard": shard})


def _receives(session, worker, shard, place, action, values):
    group, replica = session.group(shard), worker + 1
    keys = {"headers.bridge.audience": group, "intrinsic.egress_rid": replica}
    values = {"mac": mac(place.mac), "ip": ip(place.ip)} | values
    yield Entry(names.MEMBERS, keys, f"SwitchEgress.copies.{action}", values)
    yield Copy(group, replica, place.port)


def register_index(session, program, slot, seq, segment):
    """Of a use of a slot in the registers of a segment of the job."""
    page, within = divmod(slot, program.page_slots)
    return (program.page(session.pages[page], segment) * program.page_slots + within) << 1 | seq & 1
