"""What links allow at best: bytes on the wire over the link's rate. Headers are those that tbf counts, from Ethernet's on."""
import math

ETHERNET, IP, UDP, TCP = 14, 20, 8, 32  # TCP with timestamps
SWITCHML = 20  # docs/protocol.md


def packets_bytes(size, per_packet, headers, mtu):
    """headers: those behind IP's. A packet that is larger than the MTU travels as fragments, each of whole 8 bytes but the last."""
    packets, fragment = math.ceil(size / per_packet), (mtu - IP) // 8 * 8
    in_each = 1 if per_packet + headers + IP <= mtu else math.ceil((per_packet + headers) / fragment)
    return size + packets * (headers + in_each * (ETHERNET + IP))


def switch_seconds(size, payload, rate, mtu):
    """Everybody sends the tensor once and receives it once, both at a time. rate: Mbit/s."""
    return packets_bytes(size, payload, UDP + SWITCHML, mtu) * 8 / (rate * 1e6)


def ring_seconds(size, ranks, rate, mtu):
    """Reduce-scatter and all-gather; acknowledgements, which share the links, are not counted."""
    return packets_bytes(bus_bytes(size, ranks), mtu - IP - TCP, TCP, mtu) * 8 / (rate * 1e6)


def seconds(backend, size, ranks, rate, mtu, payload):
    return switch_seconds(size, payload, rate, mtu) if backend == "switchml" else ring_seconds(size, ranks, rate, mtu)


def bus_bytes(size, ranks):
    """What NCCL's tests divide by the time and call bus bandwidth: the bytes that a ring puts on each link."""
    return 2 * (ranks - 1) / ranks * size
