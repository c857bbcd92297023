"""Switches that are wrong in one thing each, made from the reference model: a vector must find every one of them.

Each is listed with a vector that does, so that a vector which loses its teeth is noticed.
"""

import dataclasses

import pytest

from vectors import elements, model, parse, runner, wire
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
            packet = dataclasses.replace(
                packet, words=tuple(self.combine(SUM, c) for c in self.columns(old + [packet]))
            )
        return super().aggregate(packet, sender)


class NewWithoutWordsKeepsThem(model.ReferenceSwitch):
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


class AnswersInFull(model.ReferenceSwitch):
    """A duplicate brings all words, however short it is."""

    def duplicate(self, session, held, sender, worker, size):
        return super().duplicate(session, held, sender, worker, None)


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
    def duplicate(self, session, held, sender, worker, size):
        self.count("duplicates_dropped")
        return [(sender, self.result(held))]


class AnswersAll(model.ReferenceSwitch):
    """A duplicate of a complete use brings the result to everybody again."""

    def duplicate(self, session, held, sender, worker, size):
        answer = super().duplicate(session, held, sender, worker, size)
        name = sender.split(".")[0]
        return [(f"{name}.{member}", frame) for _, frame in answer for member in session.spec.members]


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
        return (
            wire.wrap(max(word % 2**32 for word in column)) if operation == MAX else super().combine(operation, column)
        )


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
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
        return dataclasses.replace(packet, exponent=list(held.packets.values())[-1].exponent).encode()


class SignedExponent(model.ReferenceSwitch):
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
        signed = max(p.exponent ^ 0x8000 for p in held.packets.values()) ^ 0x8000
        return dataclasses.replace(packet, exponent=signed).encode()


class ReturnsTheFlags(model.ReferenceSwitch):
    def result(self, held, worker=None):
        packet = wire.Packet.decode(super().result(held, worker))
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

    def duplicate(self, session, held, sender, worker, size):
        if session.spec.uplink is None or not self.complete(session, held):
            return super().duplicate(session, held, sender, worker, size)
        self.count("duplicates_answered")
        return [(sender, self.result(held))]


class LeafAsksOnce(model.ReferenceSwitch):
    """Whoever asks again, and whatever has come down."""

    def duplicate(self, session, held, sender, worker, size):
        asked = session.spec.uplink is not None and getattr(held, "sent_again", False)
        held.sent_again = self.complete(session, held)
        return [] if asked else super().duplicate(session, held, sender, worker, size)


class LeafForgetsTheMark(model.ReferenceSwitch):
    def partial(self, session, held, repeat, size=None):
        return super().partial(session, held, 0, size)


class LeafSpeaksAsTheLast(model.ReferenceSwitch):
    """The sum goes up under the number of whoever contributed last."""

    def partial(self, session, held, repeat, size=None):
        packet = wire.Packet.decode(super().partial(session, held, repeat, size))
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

    def pass_down(self, packet, frame):
        if packet.kind == wire.KINDS["result"]:
            self.uses.pop((packet.job, packet.slot, packet.seq % 2), None)
        return super().pass_down(packet, frame)


class ResultsGoToOneShard(model.ReferenceSwitch):
    def pass_down(self, packet, frame):
        return super().pass_down(dataclasses.replace(packet, slot=0), frame)


class NumbersAreRanks(model.ReferenceSwitch):
    """Members are taken to be 0 to n-1."""

    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        within = session and packet.worker < len(session.spec.members)
        return super().foreign(packet, sender) if not session or within else "dropped_worker"


class CountsNothing(model.ReferenceSwitch):
    def count(self, name):
        pass


class RoundsEachTerm(model.ReferenceSwitch):
    """Adds in the elements' own type, one contribution after the other."""

    def reduce(self, element, operation, divisor, column):
        if operation != "sum" or not element.floating:
            return super().reduce(element, operation, divisor, column)
        total = elements.fold(lambda a, b: elements.reduce(element, "sum", 1, [a, b]), column)
        return elements.reduce(element, "sum", divisor, [total])


class RoundsBeforeItDivides(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        return super().reduce(element, operation, divisor, [super().reduce(element, operation, 1, column)])


class RoundsTwice(model.ReferenceSwitch):
    """To float32, then to 16 bits."""

    def reduce(self, element, operation, divisor, column):
        if operation != "sum" or not element.floating or element.size != 2:
            return super().reduce(element, operation, divisor, column)
        wide = elements.TYPES["float32"]
        bits = super().reduce(wide, operation, divisor, [wide.encode(element.decode(bits)) for bits in column])
        return element.encode(wide.decode(bits))


class OneContributionIsTheResult(model.ReferenceSwitch):
    """Its bits, whatever they are."""

    def reduce(self, element, operation, divisor, column):
        return column[0] if len(column) == 1 else super().reduce(element, operation, divisor, column)


class SumsOfZerosAreZero(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        bits = super().reduce(element, operation, divisor, column)
        zero = operation == "sum" and element.floating and bits == 1 << 8 * element.size - 1
        return 0 if zero else bits


class ZerosHaveNoOrder(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        if element.floating and operation in ("min", "max") and set(column) == {0, 1 << 8 * element.size - 1}:
            return column[0]
        return super().reduce(element, operation, divisor, column)


class NumbersWin(model.ReferenceSwitch):
    """As fmin and fmax have it."""

    def reduce(self, element, operation, divisor, column):
        if element.floating and operation in ("min", "max"):
            column = [bits for bits in column if element.decode(bits) is not elements.NAN] or column
        return super().reduce(element, operation, divisor, column)


class SaturatingIntegers(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        if element.floating or element.truth or operation != "sum":
            return super().reduce(element, operation, divisor, column)
        low, high = (-1 << 8 * element.size - 1, (1 << 8 * element.size - 1) - 1) if element.signed else (0, 255)
        return element.encode(max(low, min(high, sum(map(element.decode, column)))))


class EveryIntegerHasASign(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        signed = element if element.floating else dataclasses.replace(element, signed=True)
        return super().reduce(signed, operation, divisor, column)


class BoolsAreBytes(model.ReferenceSwitch):
    def reduce(self, element, operation, divisor, column):
        byte = elements.TYPES["uint8"] if element == elements.TYPES["bool"] else element
        return super().reduce(byte, operation, divisor, column)


class ReducesAsTheyCome(model.ReferenceSwitch):
    """In the order of the packets."""

    def reduced(self, packets, divisor):
        return super().reduced([dataclasses.replace(packet, worker=i) for i, packet in enumerate(packets)], divisor)


class NothingIsZeros(model.ReferenceSwitch):
    """Contributions without elements count as zeros, as missing words do."""

    def reduced(self, packets, divisor):
        longest = max(len(packet.data) for packet in packets)
        return super().reduced([dataclasses.replace(p, data=p.data.ljust(longest, b"\0")) for p in packets], divisor)


class KeptIsReduced(model.ReferenceSwitch):
    """What a worker had in the use before is reduced again where it has nothing now."""

    def reduced(self, packets, divisor):
        first = packets[0]
        before = self.uses.get((first.job, first.slot, 1 - first.seq % 2))
        kept = before.packets if before else {}
        longest = max(len(packet.data) for packet in packets)
        size = model.element_of(first).size
        old = {worker: packet.data[: longest // size * size] for worker, packet in kept.items()}
        return super().reduced(
            [dataclasses.replace(p, data=p.data or old.get(p.worker, b"")) for p in packets], divisor
        )


class SharesTheRoom(model.ReferenceSwitch):
    """One place for each worker's contributions to a slot, whichever version they are of."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def overtaken(self, packet, held):
        return False

    def aggregate(self, packet, sender):
        place = (packet.job, packet.slot)
        if packet.kind in wire.EXACT_KINDS and packet.data:
            self.kept[place, packet.worker] = packet.data
        return super().aggregate(packet, sender)

    def reduced(self, packets, divisor):
        places = [((packet.job, packet.slot), packet.worker) for packet in packets]
        return super().reduced([dataclasses.replace(packet, data=packet.data and self.kept[place])
                                for packet, place in zip(packets, places)], divisor)  # fmt: skip


class EverybodyWantsElements(model.ReferenceSwitch):
    def exact_result(self, held, worker):
        return super().exact_result(held, None)


class TheLastOneWantsNoneForAll(model.ReferenceSwitch):
    def exact_result(self, held, worker):
        return super().exact_result(held, list(held.packets)[-1])


class AsksWhatEachWantsAgain(model.ReferenceSwitch):
    """A duplicate is answered as it asks, and not as the contribution did."""

    def aggregate(self, packet, sender):
        held = self.uses.get((packet.job, packet.slot, packet.seq % 2))
        if held is not None and held.seq == packet.seq and packet.worker in held.packets:
            first = held.packets[packet.worker]
            flags = first.flags & ~wire.NO_ELEMENTS | packet.flags & wire.NO_ELEMENTS
            held.packets[packet.worker] = dataclasses.replace(first, flags=flags)
        return super().aggregate(packet, sender)


class LastOnesFields(model.ReferenceSwitch):
    def exact_result(self, held, worker):
        result, last = super().exact_result(held, worker), list(held.packets.values())[-1]
        fields = {name: getattr(last, name) for name in ("type", "operation", "divisor", "call")}
        return dataclasses.replace(result, **fields)


class NobodyComparesCalls(model.ReferenceSwitch):
    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, call=0) for packet in packets])


class NobodyComparesLengths(model.ReferenceSwitch):
    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, data=b"") for packet in packets])


class NothingNeedNotAgree(model.ReferenceSwitch):
    def disagree(self, packets):
        return super().disagree([packet for packet in packets if packet.data])


class DisagreementsAreEmpty(model.ReferenceSwitch):
    """The flag is not set."""

    def exact_result(self, held, worker):
        return dataclasses.replace(super().exact_result(held, worker), flags=0)


class LeavesDivide(model.ReferenceSwitch):
    def reduced(self, packets, divisor):
        return super().reduced(packets, packets[0].divisor)


class LeavesKnowNoDisagreement(model.ReferenceSwitch):
    def exact_partial(self, session, held, repeat):
        return unmarked(super().exact_partial(session, held, repeat), wire.DISAGREE, session.key)


class LeavesWantEverything(model.ReferenceSwitch):
    def exact_partial(self, session, held, repeat):
        return unmarked(super().exact_partial(session, held, repeat), wire.NO_ELEMENTS, session.key)


class WhatLeavesSayIsNotHeard(model.ReferenceSwitch):
    """That their members disagree."""

    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, flags=0) for packet in packets])


class LeavesRepeatAsTheFirst(model.ReferenceSwitch):
    def exact_partial(self, session, held, repeat):
        return super().exact_partial(session, held, 0)


class AnyResultPasses(model.ReferenceSwitch):
    """Whatever the slot of the leaf holds."""

    def pass_down(self, packet, frame):
        session = self.sessions[packet.job]
        return [(session.address(worker, packet.slot), frame) for worker in session.spec.members]


class ResultsPassWhole(model.ReferenceSwitch):
    """Also to who wants none."""

    def pass_down(self, packet, frame):
        return [(to, frame) for to, _ in super().pass_down(packet, frame)]


def unmarked(frame, flag, key):
    packet = wire.decode(frame)
    return dataclasses.replace(packet, flags=packet.flags & ~flag).sealed(key).encode()


class LooksAtNoChecksum(model.ReferenceSwitch):
    def damaged(self, packet, session):
        return None


class AnyKeyWillDo(model.ReferenceSwitch):
    def damaged(self, packet, session):
        reasons = [super(AnyKeyWillDo, self).damaged(packet, other) for other in self.sessions.values()]
        return None if None in reasons else reasons[0]


class CoversTheRepeatFlag(model.ReferenceSwitch):
    def damaged(self, packet, session):
        repeated = session.spec.exact and packet.flags & wire.REPEAT
        return "dropped_checksum" if repeated else super().damaged(packet, session)


class LooksAtTheChecksumFirst(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        damaged = session and packet.kind in wire.EXACT_KINDS and self.damaged(packet, session)
        return damaged or super().foreign(packet, sender)


class TakesBothSorts(model.ReferenceSwitch):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_kind" and packet.kind in model.CONTRIBUTIONS else reason

    def aggregate(self, packet, sender):
        if self.sessions[packet.job].spec.exact == (packet.kind in wire.EXACT_KINDS):
            return super().aggregate(packet, sender)
        self.count("contributions_added")
        return []


class TakesEveryOperation(model.ReferenceSwitch):
    def malformed_exact(self, frame):
        reason = super().malformed_exact(frame)
        return None if reason == "dropped_operation" and frame[10] >> 4 < 10 else reason


class TakesPartsOfElements(model.ReferenceSwitch):
    def malformed_exact(self, frame):
        reason = super().malformed_exact(frame)
        return None if reason == "dropped_length" else reason


class ExactHeadersAreAsShort(model.ReferenceSwitch):
    def malformed(self, frame):
        reason = super().malformed(frame)
        return "dropped_length" if reason == "dropped_short" and len(frame) >= wire.HEADER.bytes else reason


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
    LeafAsksOnce: "exact_tree_duplicate",
    LeafForgetsTheMark: "tree_leaf_duplicate",
    LeafSpeaksAsTheLast: "tree_leaf",
    ResultsComeFromAnybody: "tree_result_from_parent_only",
    RootsTakeResults: "tree_result_from_parent_only",
    ResultsAreStored: "tree_result_touches_no_slot",
    ResultsGoToOneShard: "tree_shards",
    NumbersAreRanks: "tree_high_numbers",
    CountsNothing: "contributors",
    RoundsEachTerm: "exact_sum",
    RoundsBeforeItDivides: "exact_sum",
    RoundsTwice: "exact_sum_types",
    OneContributionIsTheResult: "exact_bools",
    SumsOfZerosAreZero: "exact_sum_special",
    ZerosHaveNoOrder: "exact_min_max",
    NumbersWin: "exact_min_max",
    SaturatingIntegers: "exact_integers",
    EveryIntegerHasASign: "exact_integers",
    BoolsAreBytes: "exact_bools",
    ReducesAsTheyCome: "exact_product",
    NothingIsZeros: "exact_without_elements",
    KeptIsReduced: "exact_without_elements",
    SharesTheRoom: "exact_overtaken",
    EverybodyWantsElements: "exact_wants_none",
    TheLastOneWantsNoneForAll: "exact_wants_none",
    AsksWhatEachWantsAgain: "exact_wants_none",
    LastOnesFields: "exact_disagree",
    NobodyComparesCalls: "exact_disagree",
    NobodyComparesLengths: "exact_disagree",
    NothingNeedNotAgree: "exact_disagree",
    DisagreementsAreEmpty: "exact_disagree",
    LooksAtNoChecksum: "exact_checksum",
    AnyKeyWillDo: "exact_checksum",
    CoversTheRepeatFlag: "exact_checksum",
    LooksAtTheChecksumFirst: "exact_checksum",
    TakesBothSorts: "exact_kinds",
    TakesEveryOperation: "exact_operations",
    TakesPartsOfElements: "exact_lengths",
    ExactHeadersAreAsShort: "exact_kinds",
    LeavesDivide: "exact_tree_leaf",
    LeavesKnowNoDisagreement: "exact_tree_disagree",
    LeavesWantEverything: "exact_tree_results",
    WhatLeavesSayIsNotHeard: "exact_tree_disagree",
    LeavesRepeatAsTheFirst: "exact_tree_duplicate",
    AnyResultPasses: "exact_tree_results",
    ResultsPassWhole: "exact_tree_results",
}


@pytest.mark.parametrize("mutant", CAUGHT_BY, ids=lambda mutant: mutant.__name__)
def test_a_wrong_switch_is_found(mutant):
    vector = parse.load(ROOT / f"tests/vectors/{CAUGHT_BY[mutant]}.txt")
    runner.Runner(model_target.ModelTarget()).run(vector)  # the model itself passes
    with pytest.raises(runner.VectorFailure, match=rf"{vector.name}\.txt:\d+: "):
        runner.Runner(model_target.ModelTarget(mutant)).run(vector)
