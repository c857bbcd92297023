"""docs/protocol.md as a program: what a switch does with one packet. Written from the text for reading, not for speed;
it keeps the contributions of a use as they came and looks at them all each time."""

import dataclasses

from vectors import wire
from vectors.vector import endpoint

SUM, MAX = wire.OPERATIONS["sum"], wire.OPERATIONS["max"]


@dataclasses.dataclass
class Member:
    """A live session."""

    job: int
    epoch: int
    workers: int
    slots: int
    payload: int
    shards: int
    name: str  # of its endpoints

    def shard_of(self, slot):
        return slot // (self.slots // self.shards)

    def address(self, worker, slot):
        return endpoint(self.name, worker, self.shard_of(slot))

    def addresses(self, worker):
        return [endpoint(self.name, worker, shard) for shard in range(self.shards)]


@dataclasses.dataclass
class Use:
    """What one version of a slot holds: the contributions to one use, by worker."""

    epoch: int
    seq: int
    packets: dict = dataclasses.field(default_factory=dict)


class ReferenceSwitch:
    def __init__(self):
        self.sessions = {}  # by job
        self.uses = {}  # by (job, slot, version)
        self.counters = {}

    def count(self, name):
        self.counters[name] = self.counters.get(name, 0) + 1

    def receive(self, sender, frame):
        """All that leaves the switch: [(endpoint, bytes)]."""
        reason = self.malformed(frame) or self.foreign(wire.Packet.decode(frame), sender)
        if reason:
            self.count(reason)
            return []
        return self.aggregate(wire.Packet.decode(frame), sender)

    # ---- "A receiver must drop, and count by reason, a packet ..." ----

    def malformed(self, frame):
        """The counter of what is wrong with the packet itself, or None."""
        if len(frame) < wire.HEADER.bytes:
            return "dropped_short"
        if frame[0] >> 4 != wire.VERSION:
            return "dropped_version"
        if frame[0] & 15 != wire.KINDS["contribution"]:
            return "dropped_kind"
        if (len(frame) - wire.HEADER.bytes) % wire.WORD_BYTES:
            return "dropped_length"
        packet = wire.Packet.decode(frame)
        if packet.flags & 3 not in (SUM, MAX):
            return "dropped_operation"
        return "dropped_seq" if packet.seq == 0 else None

    def foreign(self, packet, sender):
        """The counter of why this sender may not say this in a session, or None."""
        session = self.sessions.get(packet.job)
        if session is None or session.epoch != packet.epoch:
            return "dropped_session"
        if packet.worker >= session.workers:
            return "dropped_worker"
        if packet.slot >= session.slots:
            return "dropped_slot"
        if sender != session.address(packet.worker, packet.slot):
            return "dropped_slot" if sender in session.addresses(packet.worker) else "dropped_source"
        return "dropped_length" if len(packet.words) * wire.WORD_BYTES > session.payload else None

    # ---- "Sequence numbers": the table of verdicts ----

    def aggregate(self, packet, sender):
        session = self.sessions[packet.job]
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if held is None or held.epoch != packet.epoch or self.newer(packet.seq, held.seq):
            held = self.uses[place] = Use(packet.epoch, packet.seq)
            self.count("uses_started")
        elif packet.seq != held.seq:
            self.count("dropped_stale")
            return []
        elif packet.worker in held.packets:
            return self.duplicate(session, held, sender)
        held.packets[packet.worker] = packet
        self.count("contributions_added")
        if not self.complete(session, held):
            return []
        self.count("uses_completed")
        result = self.result(held)
        return [(session.address(worker, packet.slot), result) for worker in range(session.workers)]

    def duplicate(self, session, held, sender):
        if not self.complete(session, held):
            self.count("duplicates_dropped")
            return []
        self.count("duplicates_answered")
        return [(sender, self.result(held))]

    def newer(self, seq, held):
        """The signed difference of the two numbers is above 0."""
        return 0 < (seq - held) % 2**32 < 2**31

    def complete(self, session, held):
        return len(held.packets) == session.workers

    # ---- "Contribution and result" ----

    def result(self, held):
        packets = list(held.packets.values())
        first = packets[0]
        return wire.Packet(
            kind=wire.KINDS["result"],
            flags=first.flags & 3,
            job=first.job,
            worker=wire.ALL_WORKERS,
            epoch=held.epoch,
            slot=first.slot,
            exponent=max(packet.exponent for packet in packets),
            seq=held.seq,
            witness=sum(packet.witness for packet in packets) % 2**32,
            words=tuple(self.combine(first.flags & 3, column) for column in self.columns(packets)),
        ).encode()

    def columns(self, packets):
        """Word by word, what each contribution says; words that a packet does not have count as 0."""
        longest = max(len(packet.words) for packet in packets)
        padded = [packet.words + (0,) * (longest - len(packet.words)) for packet in packets]
        return zip(*padded)

    def combine(self, operation, column):
        return max(column) if operation == MAX else wire.wrap(sum(column))
