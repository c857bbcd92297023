"""Frames of the control port: two bytes for the switch's port, then Ethernet with a worker's control packet in UDP."""

import dataclasses
import ipaddress

UDP_PORT = 48879  # of every switch
PORT_BYTES = 2
_HEADERS = 14 + 20 + 8


class NotOurs(Exception):
    """Not a control packet; the text says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a worker or another switch is."""

    ip: str
    udp_port: int
    mac: str
    port: int  # of this switch


def mac_bytes(text):
    """ValueError unless it is one host's address: six bytes in hexadecimal, as 02:00:00:00:00:01."""
    parts = text.split(":")
    try:
        data = bytes(int(part, 16) for part in parts)
    except ValueError:
        data = b""
    if len(data) != 6 or not all(len(part) == 2 for part in parts):
        raise ValueError(f"MAC address {text!r}: allowed are six pairs of digits, as 02:00:00:00:00:01")
    if not _is_hosts(data):
        raise ValueError(f"MAC address {text!r}: allowed are those of one host, as 02:00:00:00:00:01")
    return data


def _is_hosts(mac):
    """Neither a group's, broadcast included, nor none."""
    return not mac[0] & 1 and any(mac)


def mac_text(data):
    return ":".join(f"{byte:02x}" for byte in data)


def checksum(data):
    """The Internet's: 16-bit one's complement."""
    data += b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _ipv4(source, destination, payload):
    header = bytearray(20)
    header[0], header[8], header[9] = 0x45, 64, 17
    header[2:4] = (20 + len(payload)).to_bytes(2, "big")
    header[12:16], header[16:20] = ipaddress.IPv4Address(source).packed, ipaddress.IPv4Address(destination).packed
    header[10:12] = checksum(bytes(header)).to_bytes(2, "big")
    return bytes(header) + payload


def _udp(source, destination, payload, source_ip, destination_ip):
    size = (8 + len(payload)).to_bytes(2, "big")
    start = source.to_bytes(2, "big") + destination.to_bytes(2, "big") + size
    addresses = ipaddress.IPv4Address(source_ip).packed + ipaddress.IPv4Address(destination_ip).packed
    total = checksum(addresses + b"\0\x11" + size + start + b"\0\0" + payload)
    return start + (total or 0xFFFF).to_bytes(2, "big") + payload  # 0 would say that there is none


def packet_out(to, own_ip, own_mac, payload):
    """What makes the switch send this UDP payload to a worker."""
    packet = _ipv4(own_ip, to.ip, _udp(UDP_PORT, to.udp_port, payload, own_ip, to.ip))
    frame = mac_bytes(to.mac) + mac_bytes(own_mac) + b"\x08\x00" + packet
    return to.port.to_bytes(PORT_BYTES, "big") + frame.ljust(60, b"\0")


def packet_in(data):
    """(Place of the sender, UDP payload) of what the switch handed over.

    The checksum of UDP is not looked at: where a worker's interface is virtual, its kernel leaves it unfinished.
    """
    frame = data[PORT_BYTES:]
    if len(frame) < _HEADERS or frame[12:15] != b"\x08\x00\x45" or frame[23] != 17:
        raise NotOurs(f"{len(data)} bytes that are no UDP in IPv4 without options")
    total, size = int.from_bytes(frame[16:18], "big"), int.from_bytes(frame[38:40], "big")
    packet = frame[14 : 14 + total]
    if not len(packet) == total == 20 + size or size < 8:
        raise NotOurs(f"{len(frame)} bytes whose lengths do not agree")
    if int.from_bytes(packet[22:24], "big") != UDP_PORT:
        raise NotOurs(f"UDP to port {int.from_bytes(packet[22:24], 'big')} instead of {UDP_PORT}")
    if not _is_hosts(frame[6:12]):
        raise NotOurs(f"the sender's MAC address is {mac_text(frame[6:12])}, which is no host's")
    ip, udp_port = str(ipaddress.IPv4Address(packet[12:16])), int.from_bytes(packet[20:22], "big")
    return Place(ip, udp_port, mac_text(frame[6:12]), int.from_bytes(data[:PORT_BYTES], "big")), packet[28:]
