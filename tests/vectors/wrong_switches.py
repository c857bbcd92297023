"""Switches that are wrong in one thing each, made from the reference model: where words are added, and of trees."""

import dataclasses

from vectors import model, wire
from vectors.model import MAX, SUM


class WrongSwitch(model.ReferenceSwitch):
    """Each is listed with a vector that finds it, so that a vector which loses its teeth is noticed."""

    found_by: dict[type, str] = {}

    def __init_subclass__(cls, found_by):
        WrongSwitch.found_by[cls] = found_by


class NothingIsStale(WrongSwitch, found_by="stale_older"):
    def newer(self, seq, held):
        return seq != held


class ComparesUnsigned(WrongSwitch, found_by="stale_after_wrap"):
    def newer(self, seq, held):
        return seq > held


class HalfTheRangeIsNewer(WrongSwitch, found_by="signed_difference"):
    def newer(self, seq, held):
        return 0 < (seq - held) % 2**32 <= 2**31


class NewAdds(WrongSwitch, found_by="new_overwrites"):
    """What the version held stays in."""

    def aggregate(self, packet, sender):
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            old = list(held.packets.values())
            packet = dataclasses.replace(
                packet, words=tuple(self.combine(SUM, c) for c in self.columns(old + [packet]))
            )
        return super().aggregate(packet, sender)


class NewWithoutWordsKeepsThem(WrongSwitch, found_by="new_without_words"):
    """Words are registers: a first contribution without words does not write them, and the next one adds to what they
    held, whichever session that was of."""

    def __init__(self):
        super().__init__()
        self.registers = {}  # words by (slot, version)

    def aggregate(self, packet, sender):
        place = (packet.slot, packet.seq % 2)
        held = self.uses.get((packet.job, *place))
        fresh = held is None or held.epoch != packet.epoch or self.newer(packet.seq, held.seq)
        old = self.registers.get(place, ())
        if packet.words:
            self.registers[place] = packet.words
        out = super().aggregate(packet, sender)
        if fresh and not packet.words:
            self.uses[(packet.job, *place)].packets["registers"] = dataclasses.replace(
                packet, witness=0, exponent=0, words=old
            )
        return out

    def complete(self, session, held):
        return len(held.packets.keys() - {"registers"}) == len(session.spec.members)


class AnswersInFull(WrongSwitch, found_by="duplicate_shorter"):
    """A duplicate brings all words, however short it is."""

    def duplicate(self, session, held, sender, worker, size):
        return super().duplicate(session, held, sender, worker, None)


class KeepsTheWitness(WrongSwitch, found_by="witness"):
    """The witness of a slot is never reset."""

    def aggregate(self, packet, sender):
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            kept = sum(p.witness for p in held.packets.values()) + packet.witness
            packet = dataclasses.replace(packet, witness=kept % 2**32)
        return super().aggregate(packet, sender)


class OneVersion(WrongSwitch, found_by="duplicate_of_previous_use"):
    def aggregate(self, packet, sender):
        held = self.uses.get((packet.job, packet.slot, 1 - packet.seq % 2))
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            del self.uses[(packet.job, packet.slot, 1 - packet.seq % 2)]
        return super().aggregate(packet, sender)


class AnswersIncomplete(WrongSwitch, found_by="duplicate_incomplete"):
    def duplicate(self, session, held, sender, worker, size):
        self.count("duplicates_dropped")
        return [(sender, self.result(held))]


class AnswersAll(WrongSwitch, found_by="duplicate_complete"):
    """A duplicate of a complete use brings the result to everybody again."""

    def duplicate(self, session, held, sender, worker, size):
        answer = super().duplicate(session, held, sender, worker, size)
        name = sender.split(".")[0]
        return [(f"{name}.{member}", frame) for _, frame in answer for member in session.spec.members]


class MaskOf32(WrongSwitch, found_by="workers_33"):
    """Bits beyond 31 are not waited for."""

    def complete(self, session, held):
        return len([w for w in held.packets if w < 32]) >= min(len(session.spec.members), 32)


class MaskOf64(WrongSwitch, found_by="workers_65"):
    """Bits are shifted modulo 64."""

    def complete(self, session, held):
        return len({w % 64 for w in held.packets}) >= min(len(session.spec.members), 64)


class UnsignedMax(WrongSwitch, found_by="max_signed"):
    def combine(self, operation, column):
        return (
            wire.wrap(max(word % 2**32 for word in column)) if operation == MAX else super().combine(operation, column)
        )


class SubtractingMax(WrongSwitch, found_by="max_signed"):
    """Compares by the sign of a difference that overflows."""

    def combine(self, operation, column):
        if operation == SUM:
            return super().combine(operation, column)
        best = column[0]
        for word in column[1:]:
            best = word if wire.wrap(word - best) > 0 else best
        return best


class Saturates(WrongSwitch, found_by="sum_wraps"):
    def combine(self, operation, column):
        return max(-(2**31), min(2**31 - 1, sum(column))) if operation == SUM else max(column)


class AddsHalves(WrongSwitch, found_by="digits_of_16_bits"):
    """No carry out of the lower 16 bits reaches the upper ones."""

    def combine(self, operation, column):
        if operation == MAX:
            return max(column)
        return wire.wrap(sum(word >> 16 for word in column) << 16 | sum(word & 0xFFFF for word in column) & 0xFFFF)


class LastExponent(WrongSwitch, found_by="exponent"):
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
        return dataclasses.replace(packet, exponent=list(held.packets.values())[-1].exponent).encode()


class SignedExponent(WrongSwitch, found_by="exponent"):
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
        signed = max(p.exponent ^ 0x8000 for p in held.packets.values()) ^ 0x8000
        return dataclasses.replace(packet, exponent=signed).encode()


class ReturnsTheFlags(WrongSwitch, found_by="repeat_flag"):
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
        return dataclasses.replace(packet, flags=list(held.packets.values())[-1].flags).encode()


class AnySource(WrongSwitch, found_by="wrong_source"):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_source" else reason


class AnyEpoch(WrongSwitch, found_by="wrong_epoch"):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        if session:
            packet = dataclasses.replace(packet, epoch=session.epoch)
        return super().foreign(packet, sender)


class SlotsForgetEpochs(WrongSwitch, found_by="reopened_many_times"):
    """A slot that a session left is judged by its number alone."""

    def aggregate(self, packet, sender):
        for held in self.uses.values():
            held.epoch = packet.epoch
        return super().aggregate(packet, sender)


class SlotOffByOne(WrongSwitch, found_by="slot_out_of_range"):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        at_end = session and packet.slot == session.spec.slots
        return super().foreign(dataclasses.replace(packet, slot=packet.slot - 1) if at_end else packet, sender)


class TakesInnerKinds(WrongSwitch, found_by="wrong_kind"):
    def malformed(self, frame):
        inner = len(frame) > 0 and frame[0] & 15 >= 14
        return super().malformed(frame[:0] + bytes([frame[0] & 0xF0 | 1]) + frame[1:] if inner else frame)


class LeafKeepsItsResult(WrongSwitch, found_by="tree_leaf_duplicate"):
    """A leaf answers a member that asks again with its own sum, as if it were the root."""

    def duplicate(self, session, held, sender, worker, size):
        if session.spec.uplink is None or not self.complete(session, held):
            return super().duplicate(session, held, sender, worker, size)
        self.count("duplicates_answered")
        return [(sender, self.result(held))]


class LeafAsksOnce(WrongSwitch, found_by="exact_tree_duplicate"):
    """Whoever asks again, and whatever has come down."""

    def duplicate(self, session, held, sender, worker, size):
        asked = session.spec.uplink is not None and getattr(held, "sent_again", False)
        held.sent_again = self.complete(session, held)
        return [] if asked else super().duplicate(session, held, sender, worker, size)


class LeafForgetsTheMark(WrongSwitch, found_by="tree_leaf_duplicate"):
    def partial(self, session, held, repeat, size=None):
        return super().partial(session, held, 0, size)


class LeafSpeaksAsTheLast(WrongSwitch, found_by="tree_leaf"):
    """The sum goes up under the number of whoever contributed last."""

    def partial(self, session, held, repeat, size=None):
        packet = wire.Packet.decode(super().partial(session, held, repeat, size))
        return dataclasses.replace(packet, worker=list(held.packets)[-1]).encode()


class ResultsComeFromAnybody(WrongSwitch, found_by="tree_result_from_parent_only"):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_source" and packet.kind == wire.KINDS["result"] else reason


class RootsTakeResults(WrongSwitch, found_by="tree_result_from_parent_only"):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_kind" else reason


class ResultsAreStored(WrongSwitch, found_by="tree_result_touches_no_slot"):
    """What comes down replaces what the slot holds."""

    def pass_down(self, packet, frame):
        if packet.kind == wire.KINDS["result"]:
            self.uses.pop((packet.job, packet.slot, packet.seq % 2), None)
        return super().pass_down(packet, frame)


class ResultsGoToOneShard(WrongSwitch, found_by="tree_shards"):
    def pass_down(self, packet, frame):
        return super().pass_down(dataclasses.replace(packet, slot=0), frame)


class NumbersAreRanks(WrongSwitch, found_by="tree_high_numbers"):
    """Members are taken to be 0 to n-1."""

    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        within = session and packet.worker < len(session.spec.members)
        return super().foreign(packet, sender) if not session or within else "dropped_worker"


class CountsNothing(WrongSwitch, found_by="contributors"):
    def count(self, name):
        pass
