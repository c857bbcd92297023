"""A host on the path: every frame between a host and its bridge goes through these hands, which look at it, alter it,
and send others besides.

Links are cut up nowhere: a frame may be a burst that the receiving host cuts up (GSO), with what says so in front of it
(virtio_net_hdr). The checksums of local sockets are not made yet, so that an altered frame arrives as a good one.
"""

import collections
import ipaddress
import random
import select
import socket
import struct
import threading

import lab
from vectors.wire import EXACT, KINDS, PROTOCOL, ExactPacket, Layout

_SOL_PACKET, _IGNORE_OUTGOING, _VNET_HEADER, _EVERYTHING, _RCVBUFFORCE = 263, 23, 15, 0x0003, 33
VNET, ETHERNET, UDP_BYTES = 10, 14, 8
NO_VNET = bytes(VNET)  # No burst, and no checksum to be made.
MOST, QUEUE = 1 << 17, 1 << 25  # Bytes of a frame, and of those that wait.
JOIN = Layout("join")
CONTROL_BYTES = Layout("control").bytes


class Packet:
    """A frame of UDP or TCP over IPv4, not in fragments; else `payload` is None."""

    def __init__(self, octets):
        self.octets, self.payload = bytearray(octets), None
        ip = VNET + ETHERNET
        if (
            octets[ip - 2 : ip] != b"\x08\x00"
            or octets[ip + 9] not in (6, 17)
            or octets[ip + 6] & 0x3F
            or octets[ip + 7]
        ):
            return
        self.is_udp, transport = octets[ip + 9] == 17, ip + 4 * (octets[ip] & 15)
        ports = struct.unpack_from(">HH", octets, transport)
        addresses = (socket.inet_ntoa(octets[at : at + 4]) for at in (ip + 12, ip + 16))
        self.source, self.destination = zip(addresses, ports)
        self.at = transport + (UDP_BYTES if self.is_udp else 4 * (octets[transport + 12] >> 4))
        self.end = ip + int.from_bytes(octets[ip + 2 : ip + 4], "big")
        self.transport, self.payload = transport, octets[self.at : self.end]
        self.stations = octets[VNET : VNET + 12]  # Only in their direction: a bridge learns where they are.

    def with_payload(self, payload, source=None, destination=None):
        """A datagram of its own, between these ends."""
        source, destination = source or self.source, destination or self.destination
        udp = struct.pack(">HHHH", source[1], destination[1], UDP_BYTES + len(payload), 0) + payload
        ends = ipaddress.ip_address(source[0]).packed + ipaddress.ip_address(destination[0]).packed
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + ends
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        head = head[:10] + struct.pack(">H", 0xFFFF - (total & 0xFFFF) - (total >> 16)) + head[12:]
        return NO_VNET + bytes(self.octets[VNET : VNET + ETHERNET]) + head + udp

    def altered(self, bit):
        """With one bit of the payload another one, and a good checksum."""
        octets = bytearray(self.octets)
        octets[self.at + bit // 8] ^= 1 << bit % 8
        if octets[0] & 1:  # It is not made yet.
            return bytes(octets)
        assert self.is_udp, "who sends TCP with the checksum made?"
        octets[self.transport + 6 : self.transport + 8] = b"\0\0"
        return bytes(octets)


class Attacker(threading.Thread):
    """Between the host behind `port` of the bridge and the bridge, until `stop`. What comes from either is handed on as
    `hands(packet)` says, a list of frames; None: as it is."""

    def __init__(self, network, port):
        super().__init__(daemon=True)
        self.hands, self.refused, self.ended = None, None, threading.Event()
        bridge, near, far = network.bridge, f"{port}-near", f"{port}-far"
        lab.run("ip", "-n", bridge, "link", "set", port, "nomaster")
        network.link(bridge, near, bridge, far)
        network.do(bridge, "ip", "link", "set", far, "master", "bridge")
        with lab.inside(bridge):
            self.sockets = [self.opened(port), self.opened(near)]
        self.start()

    @staticmethod
    def opened(device):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING))
        made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        made.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
        made.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, QUEUE)
        made.bind((device, 0))
        made.setblocking(False)
        return made

    def run(self):
        ways = dict(zip(self.sockets, reversed(self.sockets)))
        try:
            while not self.ended.is_set():
                for source in select.select(self.sockets, [], [], 0.1)[0]:
                    self.hand_on(source, ways[source])
        except Exception as error:
            self.refused = error

    def hand_on(self, source, to):
        try:
            octets = source.recv(MOST)
            hands, packet = self.hands, Packet(octets)
            for each in [octets] if hands is None or not packet.payload else hands(packet):
                to.send(each)
        except BlockingIOError:  # Nothing is there, or the way is full: a network may lose frames.
            pass

    def stop(self):
        self.ended.set()
        self.join()
        for each in self.sockets:
            each.close()
        assert self.refused is None, self.refused


class Listener:
    """How many packets have had each of some patterns in them, and a few of all datagrams."""

    KEPT = 4000

    def __init__(self, patterns=()):
        self.seen, self.packets, self.kept = collections.Counter({each: 0 for each in patterns}), 0, []

    def __call__(self, packet):
        self.packets += 1
        for each in self.seen:
            self.seen[each] += each in packet.payload
        if packet.is_udp and len(self.kept) < self.KEPT:
            self.kept.append(packet)
        return [packet.octets]


class Vandal:
    """Alters a bit of some packets, repeats older ones, also those of `earlier` sessions, and sends plain ones in the
    name of the ends. `forge()` makes a payload."""

    def __init__(self, seed, earlier, forge, alter=0.02, repeat=0.05, inject=0.05):
        self.random, self.forge, self.older = random.Random(seed), forge, list(earlier)
        self.chances = {"altered": alter, "repeated": repeat, "injected": inject}
        self.done = collections.Counter()

    def chosen(self, what):
        chosen = self.random.random() < self.chances[what]
        self.done[what] += chosen
        return chosen

    def __call__(self, packet):
        if not packet.is_udp:
            return [packet.octets]
        frames = [packet.altered(self.random.randrange(8 * len(packet.payload)))] if self.chosen("altered") else []
        frames = frames or [packet.octets]
        if self.older and self.chosen("repeated"):
            older = self.random.choice(self.older)
            as_it_was = older.stations == packet.stations and self.random.randrange(2)
            frames.append(bytes(older.octets) if as_it_was else packet.with_payload(older.payload))
        if self.chosen("injected"):
            frames.append(packet.with_payload(self.forge()))
        if len(self.older) < 2 * Listener.KEPT:
            self.older.append(packet)
        return frames


class Bender:
    """Alters a bit of each n-th long segment of TCP, whose stream goes on."""

    def __init__(self, every, least=1000):
        self.every, self.least, self.long, self.altered, self.random = every, least, 0, 0, random.Random(1)

    def __call__(self, packet):
        self.long += not packet.is_udp and len(packet.payload) >= self.least
        if self.long < self.every:
            return [packet.octets]
        self.long, self.altered = 0, self.altered + 1
        return [packet.altered(self.random.randrange(8 * len(packet.payload)))]


class Wise:
    """Alters an element of a contribution so that no checksum tells: it has read the session's key in a join."""

    def __init__(self):
        self.keys, self.forged = {}, 0

    def __call__(self, packet):
        payload = packet.payload
        if not packet.is_udp or len(payload) < EXACT.bytes:
            return [packet.octets]
        if payload[0] & 15 == KINDS["request"] and payload[1] == PROTOCOL["requests"]["join"]:
            join = JOIN.unpack(payload[CONTROL_BYTES:])
            self.keys[join["epoch"]] = join["session_key"]
        if payload[0] & 15 != KINDS["exact_contribution"]:
            return [packet.octets]
        found = ExactPacket.decode(payload)
        if found.epoch not in self.keys or len(found.data) < 64:
            return [packet.octets]
        data = bytearray(found.data)
        data[-2] ^= 1
        found = ExactPacket(**{**vars(found), "data": bytes(data)})
        found = ExactPacket(**{**vars(found), "checksum": found.right_checksum(self.keys[found.epoch])})
        self.forged += 1
        return [packet.with_payload(found.encode())]
