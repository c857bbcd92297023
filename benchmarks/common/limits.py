"""What links allow at best: bytes on the wire over the link's rate. Headers are those that tbf counts, from Ethernet's
on."""

import math

import repository  # noqa: F401  the path to _figures
from _figures import bus_bytes

ETHERNET, IP, UDP, TCP = 14, 20, 8, 32  # TCP with timestamps
SWITCHML = {"exact": 24, "mixed": 20, "integer": 20}  # by the precision of the session: docs/protocol-exact.md
WORD = 4  # bytes of the widest float that integers stand for


def packets_bytes(size, per_packet, headers, mtu):
    """headers: those behind IP's. A packet that is larger than the MTU travels as fragments, each of whole 8 bytes but
    the last."""
    packets, fragment = math.ceil(size / per_packet), (mtu - IP) // 8 * 8
    in_each = 1 if per_packet + headers + IP <= mtu else math.ceil((per_packet + headers) / fragment)
    return size + packets * (headers + in_each * (ETHERNET + IP))


def link_bytes(size, hosts, embedded, zeros=0.0):
    """What the fullest link carries of a tensor, each way, where so many of the hosts embed a switch (0: it has a link
    of its own), each for as large a part. What a host sends to the switch that it embeds does not leave it. `zeros`:
    this part of each host's blocks is zero and left out, at random places; of the result, what all leave out."""
    result = 1 - zeros**hosts
    if not embedded:
        return result * size
    return ((embedded - 1) * (1 - zeros) + (hosts - 1) * result) / embedded * size


def switch_seconds(size, hosts, rate, mtu, session):
    """Both ways at a time. size: bytes of the elements as they travel. rate: Mbit/s. session: what the worker says of
    it."""
    carried = link_bytes(size, hosts, session["embedded"], session.get("zeros", 0.0))
    if session["transport"].endswith("tcp"):
        return packets_bytes(carried, mtu - IP - TCP, TCP, mtu) * 8 / (rate * 1e6)
    return packets_bytes(carried, session["payload"], UDP + SWITCHML[session["precision"]], mtu) * 8 / (rate * 1e6)


def ring_seconds(size, ranks, rate, mtu):
    """Reduce-scatter and all-gather; acknowledgements, which share the links, are not counted."""
    return packets_bytes(bus_bytes(size, ranks), mtu - IP - TCP, TCP, mtu) * 8 / (rate * 1e6)


def seconds(backend, size, item, ranks, hosts, rate, mtu, session):
    """item: bytes of an element, and towards integers the least that it takes there. What no integer can stand for the
    hosts add where a session adds integers: a ring's bytes."""
    if backend == "switchml" and (session["precision"] == "exact" or item <= WORD):
        return switch_seconds(size, hosts, rate, mtu, session)
    return ring_seconds(size, ranks, rate, mtu)
