"""The workers of a switch that is the end of queue pairs: what their cards send, and what they would take. [RDMA-11,
RDMA-15]"""

import itertools
import socket

from vectors import roce, wire
from vectors.targets import TargetError
from vectors.targets import bmv2_switch as packets
from vectors.targets.programmed import sessions
from vectors.vector import STRANGER

FIRST_PSN = 0xFFFFFE  # so that numbers wrap soon
STRANGE_PAIR = 0xFFFFFF


class Cards:
    """Of all workers, by their endpoints. `checked`: whether they look at the invariant check. [RDMA-14]"""

    def __init__(self, payload, checked=True):
        self._place_bits = roce.place_bits(payload)
        self._checked = checked
        self._psns = itertools.count(0xABCDE0)  # of all pairs together: each has gaps [RDMA-15]
        self.forget()

    def forget(self):
        self._indices = itertools.count()
        self._pairs = {}  # by endpoint: (number of the switch's end, sessions.Pair)
        self._awaited = {}  # by endpoint: packet number of the next result

    def __contains__(self, endpoint):
        return endpoint in self._pairs

    def __iter__(self):
        return iter(self._pairs)

    def own_end(self, endpoint, number):
        """A pair for the worker, whose other end has this number."""
        index = next(self._indices)
        pair = sessions.Pair(0x10000 + 17 * index, (index + 5) << 32, 0x80000000 + 3 * index, index, FIRST_PSN)
        self._pairs[endpoint] = number, pair
        self._awaited[endpoint] = FIRST_PSN
        return pair

    def counts_from(self, endpoint, psn):
        """The switch begins with this number, whatever the pair says."""
        self._awaited[endpoint] = psn

    def pair_number(self, endpoint):
        """Of the switch's end."""
        return self._pairs[endpoint][0]

    def message(self, sender, station, frame, fields):
        """A packet from IPv4 on. `fields`: those of the headers that are other than they should be, and `udp_port`."""
        udp_port = fields.pop("udp_port", station.udp_port)
        number, _ = self._pairs.get(sender, (STRANGE_PAIR, None))
        message = roce.message(frame, **{"queue_pair": number, "psn": next(self._psns) % 2**24, "rkey": 1} | fields)
        datagram = packets.udp(udp_port, roce.PORT, message + bytes(roce.CHECK_BYTES))
        packet = packets.ipv4(station.ip, packets.SWITCH_IP, 17, datagram)[: -roce.CHECK_BYTES]
        return packet + roce.invariant_check(packet)

    def written(self, endpoint, station, port, frame):
        """What the card of a worker would write into its memory, if it takes the frame."""
        packet, (_, pair) = frame[14 : 14 + int.from_bytes(frame[16:18], "big")], self._pairs[endpoint]
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
            and frame[:14] == packets.mac_bytes(station.mac) + packets.mac_bytes(packets.SWITCH_MAC) + b"\x08\x00"
            and packet[9] == 17
            and packets.checksum(packet[:20]) == 0
            and len(packet) == 20 + int.from_bytes(packet[24:26], "big")
            and (not self._checked or packet[-4:] == roce.invariant_check(packet[:-4]))
        )
        if wrong or not right:
            raise TargetError(f"to {endpoint}: {wrong or 'lengths, addresses or checks'}: {frame.hex()}")
        return message


class PairedWorkers:
    """Of a target in front of which it is named: its workers have pairs, and `cards`."""

    cards: Cards

    def reset(self):
        super().reset()
        self.cards.forget()

    def _packet(self, sender, frame):
        """Other switches have no pair. A stranger tries to look as if it had one."""
        if sender in self.cards or sender == STRANGER:
            return self.cards.message(sender, self._station(sender), frame, {})
        return super()._packet(sender, frame)

    def send_datagram(self, sender, frame):
        """As if the sender had no pair."""
        return self._sent(self._station(sender), super()._packet(sender, frame))

    def send_message(self, sender, frame, **fields):
        """`fields`: those of the headers that are other than they should be, and `udp_port`."""
        station = self._station(sender)
        return self._sent(station, self.cards.message(sender, station, frame, fields))

    def _received(self, port, frame):
        if int.from_bytes(frame[36:38], "big") != roce.PORT:
            return super()._received(port, frame)
        destination = socket.inet_ntoa(frame[30:34])
        for endpoint in self.cards:
            station = self._station(endpoint)
            if station.ip == destination:
                return endpoint, self.cards.written(endpoint, station, port, frame)
        raise TargetError(f"port {port}: to no worker: {frame.hex()}")
