"""Packets of a host that is no part of the job: noise, and copies of what it may know of the protocol with the rest
guessed.

It knows every address and port, the version, and what job, worker, slot and sequence numbers may be. It does not know
epochs and keys.
"""

import random
import socket
import struct

from vectors.wire import VERSION, checked

CONTRIBUTION, RESULT, REQUEST, REPLY = 1, 2, 3, 4
EXACT = 4  # more than the kinds of contributions and results of words


class Forger:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def noise(self):
        return self.random.randbytes(self.random.choice((0, 1, 7, 19, 20, 21, 64, 276, 1044, 1400)))

    def data(self, kind):
        """A header with a likely job, worker, slot and number, for words or for elements; the epoch is a guess, and so
        are call and checksum."""
        return self.elements(kind) if self.random.randrange(2) else self.words(kind)

    def elements(self, kind):
        draw = self.random
        header = struct.pack(
            ">BBBBIHBBIII",
            VERSION << 4 | kind + EXACT,
            draw.choice((0, 0, 4, 8)),
            draw.choice((1, 1, 1, 2, 255)),
            255 if kind == RESULT else draw.randrange(5),
            draw.getrandbits(32),
            draw.randrange(140),
            draw.choice((0, 0x20, 0x70, 0xF9)),
            draw.choice((1, 1, 4, 0)),
            draw.randrange(1, 3000),
            draw.getrandbits(32),
            draw.getrandbits(32),
        )
        return header + draw.randbytes(draw.choice((0, 8, 1024, 1408, 1408, 1407, 1416)))

    def words(self, kind):
        draw = self.random
        header = struct.pack(
            ">BBBBIHHII",
            VERSION << 4 | kind,
            draw.choice((0, 1, 4, 5)),
            draw.choice((1, 1, 1, 2, 255)),
            255 if kind == RESULT else draw.randrange(5),
            draw.getrandbits(32),
            draw.randrange(140),
            0,
            draw.randrange(1, 3000),
            draw.getrandbits(32),
        )
        return header + draw.randbytes(draw.choice((0, 4, 1024, 1024, 1024, 1023, 1028)))

    def control(self, kind):
        """A request or reply: an open of impossible sizes, a join, close or probe with a guessed key. Most have the
        right checksum."""
        draw = self.random
        body = draw.randbytes(draw.choice((0, 3, 16, 20, 24, 40)))
        call = draw.choice((1, 2, 2, 3, 3, 4, 4, 9))
        if call == 1:  # so many workers are no group; a proper open would be granted
            body = struct.pack(
                ">QHHHHII", draw.getrandbits(64), draw.choice((0, 129, 65535)), 1, draw.getrandbits(16), 0, 1024, 0
            )
        message = struct.pack(">BBHI", VERSION << 4 | kind, call, 0, draw.getrandbits(32)) + body
        return checked(message) if draw.randrange(8) else message

    def mutated(self, packet):
        """With one to three bits or a byte altered, or its end lost."""
        packet = bytearray(packet)
        for _ in range(self.random.randrange(4)):
            packet[self.random.randrange(min(len(packet), 24))] ^= 1 << self.random.randrange(8)
        return bytes(packet[: self.random.choice((len(packet), len(packet), self.random.randrange(len(packet) + 1)))])

    def for_switch(self):
        make = self.random.choice((self.noise, lambda: self.data(CONTRIBUTION), lambda: self.data(CONTRIBUTION),
                                   lambda: self.control(REQUEST), lambda: self.mutated(self.data(CONTRIBUTION)),
                                   lambda: self.mutated(self.control(REQUEST))))  # fmt: skip
        return make()

    def for_worker(self):
        make = self.random.choice(
            (
                self.noise,
                lambda: self.data(RESULT),
                lambda: self.data(RESULT),
                lambda: self.control(REPLY),
                lambda: self.mutated(self.data(RESULT)),
            )
        )
        return make()


def datagram(source, destination, payload):
    """IPv4 and UDP as SOCK_RAW with IP_HDRINCL takes them; source and destination: (address, port). UDP without a
    checksum."""
    udp = struct.pack(">HHHH", source[1], destination[1], 8 + len(payload), 0) + payload
    ends = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, socket.IPPROTO_UDP, 0) + ends + udp


def unreachable(reporter, source, destination):
    """ICMP "port unreachable", as `destination` would send it about a datagram of `source`'s: it needs no more than the
    ports."""
    about = datagram(source, destination, b"")
    body = struct.pack(">BBHI", 3, 3, 0, 0) + about
    body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
    ends = socket.inet_aton(reporter) + socket.inet_aton(source[0])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, socket.IPPROTO_ICMP, 0) + ends + body


def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
