"""docs/protocol.md as a program: what a switch does with one packet. Written from the text for reading, not for speed;
it keeps the contributions of a use as they came and looks at them all each time."""

import dataclasses

from vectors import elements, packed, partial, wire
from vectors.vector import Open

SUM, MAX = wire.OPERATIONS["sum"], wire.OPERATIONS["max"]
CONTRIBUTIONS = wire.KINDS["contribution"], wire.KINDS["exact_contribution"]
RESULTS = wire.KINDS["result"], wire.KINDS["exact_result"]


@dataclasses.dataclass
class Session:
    """A live one."""

    job: int
    epoch: int
    spec: Open
    key: int = 0  # of the checksums of an exact one

    def address(self, worker, slot):
        return self.spec.address(worker, slot // (self.spec.slots // self.spec.shards))

    def addresses(self, worker):
        return [self.spec.address(worker, shard) for shard in range(self.spec.shards)]


@dataclasses.dataclass
class Use:
    """What one version of a slot holds: the contributions to one use, by worker."""

    epoch: int
    seq: int
    packets: dict = dataclasses.field(default_factory=dict)
    asked: set = dataclasses.field(default_factory=set)  # of a leaf: whose duplicates belong to the round


class ReferenceSwitch:
    def __init__(self):
        self.sessions = {}  # by job
        self.uses = {}  # by (job, slot, version)
        self.counters = {}

    def count(self, name):
        self.counters[name] = self.counters.get(name, 0) + 1

    def receive(self, sender, frame):
        """All that leaves the switch: [(endpoint, bytes)]."""
        reason = self.malformed(frame) or self.foreign(wire.decode(frame), sender)
        if reason:
            self.count(reason)
            return []
        packet = wire.decode(frame)
        return self.pass_down(packet, frame) if packet.kind in RESULTS else self.aggregate(packet, sender)

    # ---- "A receiver must drop, and count by reason, a packet ..." ----

    def malformed(self, frame):
        """The counter of what is wrong with the packet itself, or None."""
        if len(frame) < wire.HEADER.bytes:
            return "dropped_short"
        if frame[0] >> 4 != wire.VERSION:
            return "dropped_version"
        if frame[0] & 15 not in (*CONTRIBUTIONS, *RESULTS):
            return "dropped_kind"
        if frame[0] & 15 in wire.EXACT_KINDS:
            return self.malformed_exact(frame)
        if (len(frame) - wire.HEADER.bytes) % wire.WORD_BYTES:
            return "dropped_length"
        packet = wire.Packet.decode(frame)
        if packet.flags & 3 not in (SUM, MAX):
            return "dropped_operation"
        return "dropped_seq" if packet.seq == 0 else None

    def malformed_exact(self, frame):
        if len(frame) < wire.EXACT.bytes:
            return "dropped_short"
        packet = wire.decode(frame)
        if not elements.has_operation(packet.type, packet.operation, packet.divisor):
            return "dropped_operation"
        if packet.seq == 0:
            return "dropped_seq"
        none = elements.OPERATIONS[packet.operation] == "none" and packet.data
        whole = len(packet.data) % packet.size == 0
        if packet.is_partial and packet.kind in CONTRIBUTIONS and packet.data:
            whole = partial.decode(packet.element, packet.data) is not None  # [PART-7]
        if packet.flags & wire.PACKED:
            try:
                whole = len(packet.chunk.data) % packet.size == 0 and not packet.is_to_float32  # [ZERO-7]
            except ValueError:
                whole = False
            whole = whole and not packet.is_partial
        wrong = packet.flags & wire.TARGET or none or not whole  # [RDMA-6, ZERO-3]
        return "dropped_length" if wrong or packet.room > 63 * 1024 else None

    def foreign(self, packet, sender):
        """The counter of why this sender may not say this in a session, or None."""
        session = self.sessions.get(packet.job)
        if session is None or session.epoch != packet.epoch:
            return "dropped_session"
        spec = session.spec
        if spec.exact != (packet.kind in wire.EXACT_KINDS):
            return "dropped_kind"
        if packet.kind in RESULTS:
            if spec.uplink is None:
                return "dropped_kind"
            if sender != spec.parent:
                return "dropped_source"
            if packet.slot >= spec.slots:
                return "dropped_slot"
            return self.too_long(packet) or self.damaged(packet, session)
        if packet.worker not in spec.members:
            return "dropped_worker"
        if packet.slot >= spec.slots:
            return "dropped_slot"
        if sender != session.address(packet.worker, packet.slot):
            return "dropped_slot" if sender in session.addresses(packet.worker) else "dropped_source"
        return self.too_long(packet) or self.damaged(packet, session)

    def too_long(self, packet):
        limit, exact = self.sessions[packet.job].spec.payload, packet.kind in wire.EXACT_KINDS
        needed = packet.room if exact else len(packet.encode()) - wire.HEADER.bytes
        return "dropped_length" if needed > limit else None

    def damaged(self, packet, session):
        right = not session.spec.exact or packet.checksum == packet.right_checksum(session.key)
        return None if right else "dropped_checksum"

    # ---- "Sequence numbers": the table of verdicts ----

    def aggregate(self, packet, sender):
        session = self.sessions[packet.job]
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if self.overtaken(packet, held):
            self.count("dropped_stale")
            return []
        if held is None or held.epoch != packet.epoch or self.newer(packet.seq, held.seq):
            held = self.uses[place] = Use(packet.epoch, packet.seq)
            self.count("uses_started")
        elif packet.seq != held.seq:
            self.count("dropped_stale")
            return []
        elif packet.worker in held.packets:
            size = None if session.spec.exact else len(packet.encode())
            return self.duplicate(session, held, sender, packet.worker, size)
        held.packets[packet.worker] = packet
        self.count("contributions_added")
        if not self.complete(session, held):
            return []
        self.count("uses_completed")
        if session.spec.uplink is not None:
            return [(session.spec.parent, self.partial(session, held, 0))]
        return [(session.address(w, packet.slot), self.result(held, w)) for w in session.spec.members]

    def held_use(self, packet):
        """The use of this packet, if its slot holds it."""
        held = self.uses.get((packet.job, packet.slot, packet.seq % 2))
        return held if held is not None and (held.epoch, held.seq) == (packet.epoch, packet.seq) else None

    def pass_down(self, packet, frame):
        session, held = self.sessions[packet.job], self.held_use(packet)
        members = [(worker, session.address(worker, packet.slot)) for worker in session.spec.members]
        if session.spec.exact and (held is None or not self.complete(session, held)):
            self.count("dropped_stale")
            return []
        self.count("results_passed_down")
        if held is not None:
            held.asked = set()
        if not session.spec.exact:
            return [(address, frame) for _, address in members]
        flags = packet.flags & ~wire.PACKED
        bare = dataclasses.replace(packet, flags=flags, data=b"").sealed(session.key).encode()
        return [(address, bare if wants_none(held.packets[worker]) else frame) for worker, address in members]

    def duplicate(self, session, held, sender, worker, size):
        """`size`: at most so long an answer."""
        if not self.complete(session, held):
            self.count("duplicates_dropped")
            return []
        self.count("duplicates_answered")
        if session.spec.uplink is not None:
            held.asked = {worker} if worker in held.asked else held.asked | {worker}
            return [(session.spec.parent, self.partial(session, held, wire.REPEAT, size))]
        return [(sender, self.result(held, worker)[:size])]

    def may_leave_out(self, sender, frame):
        """Whether it is the protocol's choice if a leaf sends anything for this packet. [TREE-6, ETREE-4]"""
        if self.malformed(frame) or self.foreign(packet := wire.decode(frame), sender) or packet.kind in RESULTS:
            return False
        session, held = self.sessions[packet.job], self.held_use(packet)
        leaf = session.spec.uplink is not None and held is not None and self.complete(session, held)
        return leaf and bool(held.asked) and packet.worker not in held.asked

    def newer(self, seq, held):
        """The signed difference of the two numbers is above 0."""
        return 0 < (seq - held) % 2**32 < 2**31

    def complete(self, session, held):
        return len(held.packets) == len(session.spec.members)

    # ---- "Contribution and result" ----

    def partial(self, session, held, repeat, size=None):
        """What a leaf contributes to its parent; `size`: at most so long."""
        if session.spec.exact:
            return self.exact_partial(session, held, repeat)
        result = wire.Packet.decode(self.result(held)[:size])
        return dataclasses.replace(
            result, kind=wire.KINDS["contribution"], worker=session.spec.uplink, flags=result.flags | repeat
        ).encode()

    def result(self, held, worker=None):
        """What a worker gets; None: who wants all of it."""
        packets = list(held.packets.values())
        first = packets[0]
        if first.kind in wire.EXACT_KINDS:
            return self.exact_result(held, worker).sealed(self.sessions[first.job].key).encode()
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

    # ---- "Exact sessions" ----

    def exact_result(self, held, worker):
        """Of the fields of the first contribution."""
        packets = list(held.packets.values())
        disagree = self.disagree(packets)
        empty = disagree or worker is not None and wants_none(held.packets[worker])
        packed_flag, data = (0, b"") if empty else self.payload(packets, packets[0].divisor)
        return dataclasses.replace(
            packets[0], kind=wire.KINDS["exact_result"], worker=wire.ALL_WORKERS,
            flags=packed_flag | (wire.DISAGREE if disagree else 0), data=data,
        )  # fmt: skip

    def exact_partial(self, session, held, repeat):
        packets = list(held.packets.values())
        disagree = packets[0].is_to_float32 or self.disagree(packets)
        none = all(wants_none(packet) for packet in packets)
        packed_flag, data = (0, b"") if disagree else self.payload(packets, 1, session.spec.payload)
        disagree = disagree or data is None  # [PART-8]
        return dataclasses.replace(
            packets[0], worker=session.spec.uplink, data=data or b"",
            flags=repeat | packed_flag | (wire.DISAGREE if disagree else 0) | (wire.NO_ELEMENTS if none else 0),
        ).sealed(session.key).encode()  # fmt: skip

    def overtaken(self, packet, held):
        """By a newer use in the other version, unless it is a duplicate."""
        other = self.uses.get((packet.job, packet.slot, 1 - packet.seq % 2))
        if packet.kind not in wire.EXACT_KINDS or other is None or other.epoch != packet.epoch:
            return False
        same = held is not None and (held.epoch, held.seq) == (packet.epoch, packet.seq)
        return self.newer(other.seq, packet.seq) and not (same and packet.worker in held.packets)

    def disagree(self, packets):
        calls = {(packet.type, packet.operation, packet.divisor, packet.call) for packet in packets}
        told = any(packet.flags & wire.DISAGREE for packet in packets)
        if told or len(calls) > 1:
            return True
        if packets[0].is_partial:
            return len({packet.data[:2] for packet in packets if packet.data}) > 1
        chunks = [packet.chunk for packet in packets if packet.data]
        return len({len(chunk.data) for chunk in chunks}) > 1 or len({chunk.first for chunk in chunks} - {0}) > 1

    def payload(self, packets, divisor, room=None):
        """The flag and the payload of a result [ZERO-5]; with `room` of what goes up, None if it is longer."""
        parts = partials(packets)
        if room is not None and parts:
            return 0, self.summed(packets[0].element, parts, room)
        data, chunks = self.reduced(packets, divisor), [packet.chunk for packet in packets if packet.data]
        if not chunks or not all(chunk.first for chunk in chunks):
            return 0, data
        present = frozenset().union(*(chunk.present for chunk in chunks))
        payload = packed.pack(packed.Chunk(data, chunks[0].first, present), packets[0].element.size)
        return (wire.PACKED, payload) if len(payload) <= len(data) - len(data) // 8 else (0, data)

    def reduced(self, packets, divisor):
        """Element by element, of the contributions that have elements, in the order of the workers."""
        taking_part = [packet.words for packet in sorted(packets, key=lambda packet: packet.worker) if packet.data]
        element, operation = packets[0].element, elements.OPERATIONS[packets[0].operation]
        if packets[0].is_partial:
            parts = partials(packets)
            return elements.join(self.rounded(element, parts, divisor), element.size) if parts else b""
        size = elements.result_size(element, operation)
        columns = zip(*taking_part)
        return elements.join([self.reduce(element, operation, divisor, c) for c in columns], size)

    def summed(self, element, parts, room):
        return partial.together(element, parts, room)

    def rounded(self, element, parts, divisor):
        return partial.rounded(element, parts, divisor)

    def reduce(self, element, operation, divisor, column):
        return elements.reduce(element, operation, divisor, column)


def wants_none(packet):
    return bool(packet.flags & wire.NO_ELEMENTS)


def partials(packets):
    """Those that have elements, in the order of the workers; of other operations none."""
    ordered = sorted(packets, key=lambda packet: packet.worker)
    return [partial.decode(p.element, p.data) for p in ordered if p.data and p.is_partial]
