"""As wrong_switches.py, where elements are reduced in exact sessions."""

import dataclasses

from vectors import elements, model, packed, partial, wire
from vectors.wrong_switches import WrongSwitch


class RoundsEachTerm(WrongSwitch, found_by="exact_sum"):
    """Adds in the elements' own type, one contribution after the other."""

    def reduce(self, element, operation, divisor, column):
        if operation != "sum" or not element.floating:
            return super().reduce(element, operation, divisor, column)
        total = elements.fold(lambda a, b: elements.reduce(element, "sum", 1, [a, b]), column)
        return elements.reduce(element, "sum", divisor, [total])


class RoundsBeforeItDivides(WrongSwitch, found_by="exact_sum"):
    def reduce(self, element, operation, divisor, column):
        return super().reduce(element, operation, divisor, [super().reduce(element, operation, 1, column)])


class RoundsTwice(WrongSwitch, found_by="exact_sum_types"):
    """To float32, then to 16 bits."""

    def reduce(self, element, operation, divisor, column):
        if operation != "sum" or not element.floating or element.size != 2:
            return super().reduce(element, operation, divisor, column)
        wide = elements.TYPES["float32"]
        bits = super().reduce(wide, operation, divisor, [wide.encode(element.decode(bits)) for bits in column])
        return element.encode(wide.decode(bits))


class RoundsToTheTypeOfNarrowTerms(WrongSwitch, found_by="exact_sum_to_float32"):
    """Before it widens the sum."""

    def reduce(self, element, operation, divisor, column):
        if operation != elements.TO_FLOAT32 or not element.floating:
            return super().reduce(element, operation, divisor, column)
        wide = elements.TYPES["float32"]
        return wide.encode(element.decode(elements.reduce(element, "sum", divisor, column)))


class ResultsHaveToFitThePayload(WrongSwitch, found_by="exact_sum_to_float32"):
    def too_long(self, packet):
        longer = packet.kind in wire.EXACT_KINDS and packet.is_to_float32 and not packet.is_result
        count = len(packet.chunk.data) // packet.size if longer else 0
        limit = self.sessions[packet.job].spec.payload
        return "dropped_length" if 4 * count > limit else super().too_long(packet)


class AScaleOf255IsANumber(WrongSwitch, found_by="exact_sum_to_float32"):
    def reduce(self, element, operation, divisor, column):
        if isinstance(element, elements.Scaled):
            column = [bits - (bits % 256 == 255) for bits in column]
        return super().reduce(element, operation, divisor, column)


class ALeafAddsNarrowTerms(WrongSwitch, found_by="exact_tree_to_float32"):
    def exact_partial(self, session, held, repeat):
        packets = list(held.packets.values())
        data = self.reduced(packets, 1)
        return dataclasses.replace(packets[0], worker=session.spec.uplink, flags=repeat, data=data).sealed(
            session.key
        ).encode()  # fmt: skip


class WhatIsBeyondIsNaN(WrongSwitch, found_by="exact_float8"):
    """As conversions of PyTorch before 2.13."""

    def reduce(self, element, operation, divisor, column):
        bits = super().reduce(element, operation, divisor, column)
        terms = [element.decode(term) for term in column]
        if operation != "sum" or not isinstance(element, elements.NoInfinity) or elements.NAN in terms:
            return bits
        return element.infinity if abs(sum(term.value for term in terms)) > 448 * divisor else bits


class OneContributionIsTheResult(WrongSwitch, found_by="exact_bools"):
    """Its bits, whatever they are."""

    def reduce(self, element, operation, divisor, column):
        return column[0] if len(column) == 1 else super().reduce(element, operation, divisor, column)


class RoundsPartialSumsToTheType(WrongSwitch, found_by="exact_partial_sums_tree"):
    """As a leaf of other sums does."""

    def summed(self, element, parts, room):
        return partial.encode_terms(element, [partial.rounded(element, parts, 1)])


class RoundsPartialSumsTwice(WrongSwitch, found_by="exact_partial_sums"):
    """Each contribution, and then their sum."""

    def rounded(self, element, parts, divisor):
        rounded = [[element.decode(bits) for bits in partial.rounded(element, [part], 1)] for part in parts]
        once = [partial.Partial(1, [[number] for number in numbers]) for numbers in rounded]
        return partial.rounded(element, once, divisor)


class DividesPartialSumsByTheHeader(WrongSwitch, found_by="exact_partial_sums"):
    def rounded(self, element, parts, divisor):
        return super().rounded(element, [dataclasses.replace(part, divisor=0) for part in parts], divisor)


class SendsSumsAlways(WrongSwitch, found_by="exact_partial_sums_tree"):
    def summed(self, element, parts, room):
        return super().summed(element, [dataclasses.replace(part, terms=0) for part in parts], room)


class TakesNoPartialSumOfOneTerm(WrongSwitch, found_by="exact_partial_sums_lengths"):
    """As if hosts of one rank sent ordinary contributions."""

    def malformed_exact(self, frame):
        reason = super().malformed_exact(frame)
        partials = not reason and model.partials([wire.decode(frame)])
        return "dropped_length" if partials and partials[0].terms == 1 else reason


class SumsOfZerosAreZero(WrongSwitch, found_by="exact_sum_special"):
    def reduce(self, element, operation, divisor, column):
        bits = super().reduce(element, operation, divisor, column)
        zero = operation == "sum" and element.floating and bits == 1 << 8 * element.size - 1
        return 0 if zero else bits


class ZerosHaveNoOrder(WrongSwitch, found_by="exact_min_max"):
    def reduce(self, element, operation, divisor, column):
        if element.floating and operation in ("min", "max") and set(column) == {0, 1 << 8 * element.size - 1}:
            return column[0]
        return super().reduce(element, operation, divisor, column)


class NumbersWin(WrongSwitch, found_by="exact_min_max"):
    """As fmin and fmax have it."""

    def reduce(self, element, operation, divisor, column):
        if element.floating and operation in ("min", "max"):
            column = [bits for bits in column if element.decode(bits) is not elements.NAN] or column
        return super().reduce(element, operation, divisor, column)


class SaturatingIntegers(WrongSwitch, found_by="exact_integers"):
    def reduce(self, element, operation, divisor, column):
        if element.floating or element.truth or operation != "sum":
            return super().reduce(element, operation, divisor, column)
        low, high = (-1 << 8 * element.size - 1, (1 << 8 * element.size - 1) - 1) if element.signed else (0, 255)
        return element.encode(max(low, min(high, sum(map(element.decode, column)))))


class EveryIntegerHasASign(WrongSwitch, found_by="exact_integers"):
    def reduce(self, element, operation, divisor, column):
        signed = element if element.floating else dataclasses.replace(element, signed=True)
        return super().reduce(signed, operation, divisor, column)


class BoolsAreBytes(WrongSwitch, found_by="exact_bools"):
    def reduce(self, element, operation, divisor, column):
        byte = elements.TYPES["uint8"] if element == elements.TYPES["bool"] else element
        return super().reduce(byte, operation, divisor, column)


class ReducesAsTheyCome(WrongSwitch, found_by="exact_product"):
    """In the order of the packets."""

    def reduced(self, packets, divisor):
        return super().reduced([dataclasses.replace(packet, worker=i) for i, packet in enumerate(packets)], divisor)


class NothingIsZeros(WrongSwitch, found_by="exact_without_elements"):
    """Contributions without elements count as zeros, as missing words do."""

    def reduced(self, packets, divisor):
        longest = max(len(packet.data) for packet in packets)
        return super().reduced([dataclasses.replace(p, data=p.data.ljust(longest, b"\0")) for p in packets], divisor)


class KeptIsReduced(WrongSwitch, found_by="exact_without_elements"):
    """What a worker had in the use before is reduced again where it has nothing now."""

    def reduced(self, packets, divisor):
        first = packets[0]
        before = self.uses.get((first.job, first.slot, 1 - first.seq % 2))
        kept = before.packets if before else {}
        longest = max(len(packet.data) for packet in packets)
        size = first.element.size
        old = {worker: packet.data[: longest // size * size] for worker, packet in kept.items()}
        return super().reduced(
            [dataclasses.replace(p, data=p.data or old.get(p.worker, b"")) for p in packets], divisor
        )


class SharesTheRoom(WrongSwitch, found_by="exact_overtaken"):
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


class EverybodyWantsElements(WrongSwitch, found_by="exact_wants_none"):
    def exact_result(self, held, worker):
        return super().exact_result(held, None)


class TheLastOneWantsNoneForAll(WrongSwitch, found_by="exact_wants_none"):
    def exact_result(self, held, worker):
        return super().exact_result(held, list(held.packets)[-1])


class AsksWhatEachWantsAgain(WrongSwitch, found_by="exact_wants_none"):
    """A duplicate is answered as it asks, and not as the contribution did."""

    def aggregate(self, packet, sender):
        held = self.uses.get((packet.job, packet.slot, packet.seq % 2))
        if held is not None and held.seq == packet.seq and packet.worker in held.packets:
            first = held.packets[packet.worker]
            flags = first.flags & ~wire.NO_ELEMENTS | packet.flags & wire.NO_ELEMENTS
            held.packets[packet.worker] = dataclasses.replace(first, flags=flags)
        return super().aggregate(packet, sender)


class LastOnesFields(WrongSwitch, found_by="exact_disagree"):
    def exact_result(self, held, worker):
        result, last = super().exact_result(held, worker), list(held.packets.values())[-1]
        fields = {name: getattr(last, name) for name in ("type", "operation", "divisor", "call")}
        return dataclasses.replace(result, **fields)


class NobodyComparesCalls(WrongSwitch, found_by="exact_disagree"):
    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, call=0) for packet in packets])


class NobodyComparesLengths(WrongSwitch, found_by="exact_disagree"):
    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, data=b"") for packet in packets])


class NothingNeedNotAgree(WrongSwitch, found_by="exact_disagree"):
    def disagree(self, packets):
        return super().disagree([packet for packet in packets if packet.data])


class DisagreementsAreEmpty(WrongSwitch, found_by="exact_disagree"):
    """The flag is not set."""

    def exact_result(self, held, worker):
        return dataclasses.replace(super().exact_result(held, worker), flags=0)


class LeavesDivide(WrongSwitch, found_by="exact_tree_leaf"):
    def reduced(self, packets, divisor):
        return super().reduced(packets, packets[0].divisor)


class LeavesKnowNoDisagreement(WrongSwitch, found_by="exact_tree_disagree"):
    def exact_partial(self, session, held, repeat):
        return unmarked(super().exact_partial(session, held, repeat), wire.DISAGREE, session.key)


class LeavesWantEverything(WrongSwitch, found_by="exact_tree_results"):
    def exact_partial(self, session, held, repeat):
        return unmarked(super().exact_partial(session, held, repeat), wire.NO_ELEMENTS, session.key)


class WhatLeavesSayIsNotHeard(WrongSwitch, found_by="exact_tree_disagree"):
    """That their members disagree."""

    def disagree(self, packets):
        return super().disagree([dataclasses.replace(packet, flags=0) for packet in packets])


class LeavesRepeatAsTheFirst(WrongSwitch, found_by="exact_tree_duplicate"):
    def exact_partial(self, session, held, repeat):
        return super().exact_partial(session, held, 0)


class AnyResultPasses(WrongSwitch, found_by="exact_tree_results"):
    """Whatever the slot of the leaf holds."""

    def pass_down(self, packet, frame):
        session = self.sessions[packet.job]
        return [(session.address(worker, packet.slot), frame) for worker in session.spec.members]


class ResultsPassWhole(WrongSwitch, found_by="exact_tree_results"):
    """Also to who wants none."""

    def pass_down(self, packet, frame):
        return [(to, frame) for to, _ in super().pass_down(packet, frame)]


def unmarked(frame, flag, key):
    packet = wire.decode(frame)
    return dataclasses.replace(packet, flags=packet.flags & ~flag).sealed(key).encode()


class LooksAtNoChecksum(WrongSwitch, found_by="exact_checksum"):
    def damaged(self, packet, session):
        return None


class AnyKeyWillDo(WrongSwitch, found_by="exact_checksum"):
    def damaged(self, packet, session):
        reasons = [super(AnyKeyWillDo, self).damaged(packet, other) for other in self.sessions.values()]
        return None if None in reasons else reasons[0]


class CoversTheRepeatFlag(WrongSwitch, found_by="exact_checksum"):
    def damaged(self, packet, session):
        repeated = session.spec.exact and packet.flags & wire.REPEAT
        return "dropped_checksum" if repeated else super().damaged(packet, session)


class LooksAtTheChecksumFirst(WrongSwitch, found_by="exact_checksum"):
    def foreign(self, packet, sender):
        session = self.sessions.get(packet.job)
        damaged = session and packet.kind in wire.EXACT_KINDS and self.damaged(packet, session)
        return damaged or super().foreign(packet, sender)


class TakesBothSorts(WrongSwitch, found_by="exact_kinds"):
    def foreign(self, packet, sender):
        reason = super().foreign(packet, sender)
        return None if reason == "dropped_kind" and packet.kind in model.CONTRIBUTIONS else reason

    def aggregate(self, packet, sender):
        if self.sessions[packet.job].spec.exact == (packet.kind in wire.EXACT_KINDS):
            return super().aggregate(packet, sender)
        self.count("contributions_added")
        return []


class TakesEveryOperation(WrongSwitch, found_by="exact_operations"):
    def malformed_exact(self, frame):
        reason = super().malformed_exact(frame)
        return None if reason == "dropped_operation" and frame[10] >> 4 < 10 and frame[10] & 15 < 9 else reason


class TakesPartsOfElements(WrongSwitch, found_by="exact_lengths"):
    def malformed_exact(self, frame):
        reason = super().malformed_exact(frame)
        return None if reason == "dropped_length" else reason


class ExactHeadersAreAsShort(WrongSwitch, found_by="exact_kinds"):
    def malformed(self, frame):
        reason = super().malformed(frame)
        return "dropped_length" if reason == "dropped_short" and len(frame) >= wire.HEADER.bytes else reason


class LeftOutIsNothing(WrongSwitch, found_by="exact_zero_blocks"):
    """Blocks that are left out take no part, as contributions without elements."""

    def reduced(self, packets, divisor):
        element, operation = packets[0].element, elements.OPERATIONS[packets[0].operation]
        chunks = [(packet.chunk, packet.words) for packet in sorted(packets, key=lambda p: p.worker) if packet.data]
        out = []
        for i in range(len(chunks[0][1]) if chunks else 0):
            column = [words[i] for chunk, words in chunks if not chunk.first or self.block(i, chunk) in chunk.present]
            out.append(self.reduce(element, operation, divisor, column or [0]))
        return elements.join(out, element.size)

    def block(self, i, chunk):
        return (i - chunk.first) // packed.BLOCK + 1


class LeafFillsIn(WrongSwitch, found_by="exact_zero_blocks_tree"):
    def payload(self, packets, divisor, room=None):
        return 0, self.reduced(packets, divisor)


class TakesTheFirstBitmap(WrongSwitch, found_by="exact_zero_blocks"):
    """Of all contributions' elements."""

    def reduced(self, packets, divisor):
        first = min(packets, key=lambda packet: packet.worker)
        return super().reduced([self.cut_as(first, packet) for packet in packets], divisor)

    def cut_as(self, first, packet):
        if not packet.flags & first.flags & wire.PACKED:
            return packet
        size, chunk, left = packet.element.size, b"", packet.data
        for i, (begin, end) in enumerate(packed.blocks(len(packet.words), first.chunk.first)):
            length = (end - begin) * size
            chunk += left[:length].ljust(length, b"\0") if i in first.chunk.present else bytes(length)
            left = left[length:] if i in first.chunk.present else left
        return dataclasses.replace(packet, flags=packet.flags & ~wire.PACKED, data=chunk)


class CoversNoTrailer(WrongSwitch, found_by="exact_zero_blocks"):
    """Which blocks are there is not in its checksums."""

    def damaged(self, packet, session):
        if not packet.flags & wire.PACKED:
            return super().damaged(packet, session)
        size = packet.element.size
        trailer = len(packed.pack(dataclasses.replace(packet.chunk, present=frozenset()), size))
        short = dataclasses.replace(packet, data=packet.data[:-trailer])
        return None if packet.checksum == short.right_checksum(session.key) else "dropped_checksum"


class ZerosOfPartialSumsHaveNoSign(WrongSwitch, found_by="exact_partial_sums"):
    def rounded(self, element, parts, divisor):
        sign = 1 << (8 * element.size - 1)
        return [0 if bits == sign else bits for bits in super().rounded(element, parts, divisor)]


class DropsWhatIsListed(WrongSwitch, found_by="exact_partial_sums_tree"):
    """The wider float is rounded, where it does not have the sum."""

    def summed(self, element, parts, room):
        wide, _ = partial.wide_of(element)
        columns = [[number for part in parts for number in part.columns[i]] for i in range(len(parts[0].columns))]
        sums = [elements.reduce_floats("sum", 1, column) for column in columns]
        return partial.encode_sums(element, [wide.decode(wide.encode(number)) for number in sums])


class ChoosesByContributions(WrongSwitch, found_by="exact_partial_sums_tree"):
    """Sends terms where as many contributions as fit a wide number have come, however many terms these have."""

    def summed(self, element, parts, room):
        sent = super().summed(element, parts, room)
        if len(parts) > 2 or not all(part.terms for part in parts):
            return sent
        terms = [[element.encode(column[t]) for column in part.columns] for part in parts for t in range(part.terms)]
        return partial.encode_terms(element, terms)
