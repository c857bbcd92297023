"""Switches that are wrong in one thing each, made from the reference model: a vector must find every one of them.

Each is listed with a vector that does, so that a vector which loses its teeth is noticed.
"""

import dataclasses

import pytest

from vectors import model, parse, runner, wire
from vectors.model import MAX, SUM
from vectors.targets import model as model_target
from vectors.wire import ROOT


class NothingIsStale(model.ReferenceSwitch):
    def newer(self, seq, held):
        return seq != held


class ComparesUnsigned(model.ReferenceSwitch):
    def newer(self, seq, held):
        return seq > held


class HalfTheRangeIsNewer(model.ReferenceSwitch):
    def newer(self, seq, held):
        return 0 < (seq - held) % 2**32 <= 2**31


class NewAdds(model.ReferenceSwitch):
    """What the version held stays in."""

    def aggregate(self, packet, sender):
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            old = list(held.packets.values())
            packet = dataclasses.replace(packet, words=tuple(self.combine(SUM, c) for c in self.columns(old + [packet])))
        return super().aggregate(packet, sender)


class NewWithoutWordsKeepsThem(model.ReferenceSwitch):
    """Words are registers: a first contribution without words does not write them, and the next one adds to what they held,
    whichever session that was of."""

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
            self.uses[(packet.job, *place)].packets["registers"] = dataclasses.replace(packet, witness=0, exponent=0, words=old)
        return out

    def complete(self, session, held):
        return len(held.packets.keys() - {"registers"}) == len(session.spec.members)


class AnswersInFull(model.ReferenceSwitch):
    """A duplicate brings all words, however short it is."""

    def duplicate(self, session, held, sender, words):
        return super().duplicate(session, held, sender, session.spec.payload // wire.WORD_BYTES)


class KeepsTheWitness(model.ReferenceSwitch):
    """The witness of a slot is never reset."""

    def aggregate(self, packet, sender):
        place = (packet.job, packet.slot, packet.seq % 2)
        held = self.uses.get(place)
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            kept = sum(p.witness for p in held.packets.values()) + packet.witness
            packet = dataclasses.replace(packet, witness=kept % 2**32)
        return super().aggregate(packet, sender)


class OneVersion(model.ReferenceSwitch):
    def aggregate(self, packet, sender):
        held = self.uses.get((packet.job, packet.slot, 1 - packet.seq % 2))
        if held and held.epoch == packet.epoch and self.newer(packet.seq, held.seq):
            del self.uses[(packet.job, packet.slot, 1 - packet.seq % 2)]
        return super().aggregate(packet, sender)


class AnswersIncomplete(model.ReferenceSwitch):
    def duplicate(self, session, held, sender, words):
        self.count("duplicates_dropped")
        return [(sender, self.result(held))]


class AnswersAll(model.ReferenceSwitch):
    """A duplicate of a complete use brings the result to everybody again."""

    def duplicate(self, session, held, sender, words):
        answer = super().duplicate(session, held, sender, words)
        name = sender.split(".")[0]
        return [(f"{name}.{worker}", frame) for _, frame in answer for worker in session.spec.members]


class MaskOf32(model.ReferenceSwitch):
    """Bits beyond 31 are not waited for."""

    def complete(self, session, held):
        return len([w for w in held.packets if w < 32]) >= min(len(session.spec.members), 32)


class MaskOf64(model.ReferenceSwitch):
    """Bits are shifted modulo 64."""

    def complete(self, session, held):
        return len({w % 64 for w in held.packets}) >= min(len(session.spec.members), 64)


class UnsignedMax(model.ReferenceSwitch):
    def combine(self, operation, column):
        return wire.wrap(max(word % 2**32 for word in column)) if operation == MAX else super().combine(operation, column)


class SubtractingMax(model.ReferenceSwitch):
    """Compares by the sign of a difference that overflows."""

    def combine(self, operation, column):
        if operation == SUM:
            return super().combine(operation, column)
        best = column[0]
        for word in column[1:]:
            best = word if wire.wrap(word - best) > 0 else best
        return best


class Saturates(model.ReferenceSwitch):
    def combine(self, operation, column):
        return max(-(2**31), min(2**31 - 1, sum(column))) if operation == SUM else max(column)


class LastExponent(model.ReferenceSwitch):
    def result(self, held):
        packet = wire.Packet.decode(super().result(held))
        return dataclasses.replace(packet, exponent=list(held.packets.values())[-1].exponent).encode()


class SignedExponent(model.ReferenceSwitch):
    def result(self, held):
        packet = wire.Packet.decode(super().result(held))
        signed = max((p.exponent ^ 0x8000 for p in held.packets.values())) ^ 0x8000
        return dataclasses.replace(packet, exponent=signed).encode()


class ReturnsTheFlags(model.ReferenceSwitch):
    def result(self, held):
        packet = wire.Packet.decode(super().result(held))
        return dataclasses.replace(packet, flags=list(held.packets.values())[-1].flags).encode()


class AnySource(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_source" else reason


class AnyEpoch(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        if session:
            packet = dataclasses.replace(packet, epoch=session.epoch)
        return super().foreign(packet, sender)


class SlotsForgetEpochs(model.ReferenceSwitch):
    """A slot that a session left is judged by its number alone."""

    def aggregate(self, packet, sender):
        for held in self.uses.values():
            held.epoch = packet.epoch
        return super().aggregate(packet, sender)


class SlotOffByOne(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        at_end = session and packet.slot == session.spec.slots
        return super().foreign(dataclasses.replace(packet, slot=packet.slot - 1) if at_end else packet, sender)


class TakesInnerKinds(model.ReferenceSwitch):
    def malformed(self, frame):
        inner = len(frame) > 0 and frame[0] & 15 >= 14
        return super().malformed(frame[:0] + bytes([frame[0] & 0xF0 | 1]) + frame[1:] if inner else frame)


class LeafKeepsItsResult(model.ReferenceSwitch):
    """A leaf answers a member that asks again with its own sum, as if it were the root."""

    def duplicate(self, session, held, sender, words):
        if session.spec.uplink is None or not self.complete(session, held):
            return super().duplicate(session, held, sender, words)
        self.count("duplicates_answered")
        return [(sender, self.result(held))]


class LeafForgetsTheMark(model.ReferenceSwitch):
    def partial(self, session, held, repeat, words=None):
        return super().partial(session, held, 0, words)


class LeafSpeaksAsTheLast(model.ReferenceSwitch):
    """The sum goes up under the number of whoever contributed last."""

    def partial(self, session, held, repeat, words=None):
        packet = wire.Packet.decode(super().partial(session, held, repeat, words))
        return dataclasses.replace(packet, worker=list(held.packets)[-1]).encode()


class ResultsComeFromAnybody(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_source" and packet.kind == wire.KINDS["result"] else reason


class RootsTakeResults(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_kind" else reason


class ResultsAreStored(model.ReferenceSwitch):
    """What comes down replaces what the slot holds."""

    def to_members(self, packet, frame):
        if packet.kind == wire.KINDS["result"]:
            self.uses.pop((packet.job, packet.slot, packet.seq % 2), None)
        return super().to_members(packet, frame)


class ResultsGoToOneShard(model.ReferenceSwitch):
    def to_members(self, packet, frame):
        return super().to_members(dataclasses.replace(packet, slot=0), frame)


class NumbersAreRanks(model.ReferenceSwitch):
    """Members are taken to be 0 to n-1."""

    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        within = session and packet.worker < len(session.spec.members)
        return super().foreign(packet, sender) if not session or within else "dropped_worker"


class CountsNothing(model.ReferenceSwitch):
    def count(self, name):
        pass


CAUGHT_BY = {
    NothingIsStale: "stale_older",
    ComparesUnsigned: "stale_after_wrap",
    HalfTheRangeIsNewer: "signed_difference",
    NewAdds: "new_overwrites",
    NewWithoutWordsKeepsThem: "new_without_words",
    AnswersInFull: "duplicate_shorter",
    KeepsTheWitness: "witness",
    OneVersion: "duplicate_of_previous_use",
    AnswersIncomplete: "duplicate_incomplete",
    AnswersAll: "duplicate_complete",
    MaskOf32: "workers_33",
    MaskOf64: "workers_65",
    UnsignedMax: "max_signed",
    SubtractingMax: "max_signed",
    Saturates: "sum_wraps",
    LastExponent: "exponent",
    SignedExponent: "exponent",
    ReturnsTheFlags: "repeat_flag",
    AnySource: "wrong_source",
    AnyEpoch: "wrong_epoch",
    SlotsForgetEpochs: "reopened_many_times",
    SlotOffByOne: "slot_out_of_range",
    TakesInnerKinds: "wrong_kind",
    LeafKeepsItsResult: "tree_leaf_duplicate",
    LeafForgetsTheMark: "tree_leaf_duplicate",
    LeafSpeaksAsTheLast: "tree_leaf",
    ResultsComeFromAnybody: "tree_result_from_parent_only",
    RootsTakeResults: "tree_result_from_parent_only",
    ResultsAreStored: "tree_result_touches_no_slot",
    ResultsGoToOneShard: "tree_shards",
    NumbersAreRanks: "tree_high_numbers",
    CountsNothing: "contributors",
}


@pytest.mark.parametrize("mutant", CAUGHT_BY, ids=lambda mutant: mutant.__name__)
def test_a_wrong_switch_is_found(mutant):
    vector = parse.load(ROOT / f"tests/vectors/{CAUGHT_BY[mutant]}.txt")
    runner.Runner(model_target.ModelTarget()).run(vector)  # the model itself passes
    with pytest.raises(runner.VectorFailure, match=rf"{vector.name}\.txt:\d+: "):
        runner.Runner(model_target.ModelTarget(mutant)).run(vector)
