"""The v1model program as a data plane whose workers have queue pairs: the packets of the vectors travel in RDMA WRITEs,
and every result must be one that a card would take. [RDMA-11, RDMA-15]"""

import itertools
import socket

from vectors import roce, wire
from vectors.targets import TargetError
from vectors.targets import bmv2_switch as bmv2
from vectors.targets.bmv2 import Bmv2Target
from vectors.targets.programmed import sessions
from vectors.vector import STRANGER

FIRST_PSN = 0xFFFFFE  # so that numbers wrap soon
STRANGE_PAIR = 0xFFFFFF


class Bmv2RoceTarget(Bmv2Target):
    name = "bmv2-roce"

    def __init__(self, words=64, sizes=None):
        super().__init__(words, sizes)
        self._place_bits = roce.place_bits(4 * words)
        self._indices = itertools.count()
        self._pairs = {}  # by endpoint: (number of the switch's end, sessions.Pair)
        self._awaited = {}  # by endpoint: packet number of the next result
        self._psns = itertools.count(0xABCDE0)  # of all pairs together: each has gaps [RDMA-15]

    def reset(self):
        super().reset()
        self._indices = itertools.count()
        self._pairs.clear()

    def _member_entries(self, session, spec, worker, shard):
        if worker in spec.children:
            return super()._member_entries(session, spec, worker, shard)
        endpoint = spec.address(worker, shard)
        index = next(self._indices)
        pair = sessions.Pair(0x10000 + 17 * index, (index + 5) << 32, 0x80000000 + 3 * index, index, FIRST_PSN)
        self._pairs[endpoint] = sessions.pair_number(session.job, worker, shard), pair
        self._awaited[endpoint] = FIRST_PSN
        return session.pair_entries(worker, shard, self._station(endpoint), pair)

    def _packet(self, sender, frame):
        """Other switches have no pair. A stranger tries to look as if it had one."""
        if sender in self._pairs or sender == STRANGER:
            return self._message(sender, frame, {})
        return super()._packet(sender, frame)

    def send_datagram(self, sender, frame):
        """As if the sender had no pair."""
        return self._sent(self._station(sender), super()._packet(sender, frame))

    def send_message(self, sender, frame, **fields):
        """`fields`: those of the headers that are other than they should be, and `udp_port`."""
        return self._sent(self._station(sender), self._message(sender, frame, fields))

    def pair_number(self, endpoint):
        """Of the switch's end."""
        return self._pairs[endpoint][0]

    def _message(self, sender, frame, fields):
        station = self._station(sender)
        udp_port = fields.pop("udp_port", station.udp_port)
        number, _ = self._pairs.get(sender, (STRANGE_PAIR, None))
        message = roce.message(frame, **{"queue_pair": number, "psn": next(self._psns) % 2**24, "rkey": 1} | fields)
        datagram = bmv2.udp(udp_port, roce.PORT, message + bytes(roce.CHECK_BYTES))
        packet = bmv2.ipv4(station.ip, bmv2.SWITCH_IP, 17, datagram)[: -roce.CHECK_BYTES]
        return packet + roce.invariant_check(packet)

    def _received(self, port, frame):
        packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
        if int.from_bytes(packet[22:24], "big") != roce.PORT:
            return super()._received(port, frame)
        destination = socket.inet_ntoa(packet[16:20])
        for endpoint in self._pairs:
            if self._station(endpoint).ip == destination:
                return endpoint, self._written(endpoint, port, frame, packet)
        raise TargetError(f"port {port}: to no worker: {frame.hex()}")

    def _written(self, endpoint, port, frame, packet):
        """What the card of a worker would write into its memory, if it takes the packet."""
        station, (_, pair) = self._station(endpoint), self._pairs[endpoint]
        fields, message = roce.split(packet[28:])
        result = wire.Packet.decode(message)
        psn = self._awaited[endpoint]
        self._awaited[endpoint] = (psn + 1) % 2**24
        place = (result.slot << 1 | result.seq & 1) << self._place_bits
        wanted = {
            "queue_pair": pair.queue_pair, "psn": psn, "address": pair.address + place, "rkey": pair.rkey,
            "bytes": len(message), "slot": result.slot, "seq_low": result.seq & 0xFFFF, "partition": 0xFFFF,
            "opcode": roce.OPCODES["write_only_with_immediate"],
        }  # fmt: skip
        wrong = {name: value for name, value in fields.items() if value != wanted.get(name, 0)}
        right = (
            port == station.port
            and frame[:14] == bmv2.mac_bytes(station.mac) + bmv2.mac_bytes(bmv2.SWITCH_MAC) + b"\x08\x00"
            and packet[9] == 17
            and bmv2.checksum(packet[:20]) == 0
            and len(packet) == 20 + int.from_bytes(packet[24:26], "big")
            and packet[-4:] == roce.invariant_check(packet[:-4])
        )
        if wrong or not right:
            raise TargetError(f"to {endpoint}: {wrong or 'lengths, addresses or checks'}: {frame.hex()}")
        return message
