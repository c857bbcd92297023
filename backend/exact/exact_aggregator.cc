#include "exact/exact_aggregator.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"
#include "exact/partial_sums.h"
#include "exact/zero_blocks.h"

namespace switchml {

namespace {

uint16_t kind_of(const wire::ExactHeader& header) {
  return static_cast<uint16_t>(header.type << 12 | header.operation << 8 | header.divisor);
}

void set_kind(wire::ExactHeader* header, uint16_t kind) {
  header->type = static_cast<uint8_t>(kind >> 12);
  header->operation = static_cast<uint8_t>(kind >> 8 & 0xf);
  header->divisor = static_cast<uint8_t>(kind);
}

struct Inputs {
  std::array<const uint8_t*, kMaxWorkers> elements;  // or packed payloads
  std::array<uint8_t, kMaxWorkers> workers;
  size_t count = 0;
};

/// Their sum: for the members, or for the parent. Returns its bytes, at most `room`; 0: it does not fit. [PART-2,
/// PART-8]
size_t add_partial_sums(const Inputs& inputs, const ElementReduction& reduction, bool goes_up, size_t room,
                        uint8_t* out) {
  std::array<PartialSum, kMaxWorkers> parts;
  for (size_t i = 0; i < inputs.count; ++i) parts[i] = view_partial_sum(reduction.type, inputs.elements[i]);
  if (goes_up) return write_partial_sum(parts.data(), inputs.count, room, out);
  const uint32_t divisor = parts[0].divisor != 0 ? parts[0].divisor : reduction.divisor;
  round_partial_sums(parts.data(), inputs.count, divisor, out);  // [PART-2]
  return parts[0].elements * element_bytes(reduction.type);
}

/// The contributions in the order of the workers, whatever the order of their arrival.
Inputs inputs_of(const SlotUse& use, SlotStore* store, const Arrival& last) {
  Inputs inputs;
  for (int worker = 0; worker <= use.contributed.highest(); ++worker) {
    if (!use.with_elements.test(worker)) continue;  // [EXACT-17]
    const auto number = static_cast<uint8_t>(worker);
    inputs.elements[inputs.count] = number == last.worker ? last.payload : store->kept(last.slot, number);
    inputs.workers[inputs.count++] = number;
  }
  return inputs;
}

/// The same where some leave blocks of zeros out. [ZERO-5]
Packed reduce_packed(const ElementReduction& reduction, const Inputs& inputs, const Arrival& last, const SlotUse& use,
                     SlotStore* store) {
  const size_t size = element_bytes(reduction.type);
  std::array<ChunkView, kMaxWorkers> chunks;
  std::array<wire::PackedPayload, kMaxWorkers> packed;
  for (size_t i = 0; i < inputs.count; ++i) {
    const uint8_t worker = inputs.workers[i];
    chunks[i] = {inputs.elements[i], nullptr};
    if (!use.packed.test(worker)) continue;
    const size_t bytes = worker == last.worker ? last.bytes : store->payload_bytes();  // As keep() leaves it.
    packed[i] = wire::packed_before(inputs.elements[i] + bytes, size);
    chunks[i] = {packed[i].elements, &packed[i]};
  }
  const wire::Blocks blocks{use.elements, use.first_block};
  return reduce(reduction, chunks.data(), static_cast<int>(inputs.count), blocks, store->payload(last.slot, last.seq));
}

/// Writes the outcome of a use that has elements, and its length, which is 0 where it does not fit; returns whether it
/// is packed. [EXACT-17]
bool reduce_all(const ElementReduction& reduction, const Arrival& last, bool goes_up, SlotUse* use, SlotStore* store) {
  const Inputs inputs = inputs_of(*use, store, last);
  uint8_t* const out = store->payload(last.slot, last.seq);
  if (reduction.op == ReduceOp::kPartialSum) {
    use->bytes = static_cast<uint32_t>(add_partial_sums(inputs, reduction, goes_up, store->payload_bytes(), out));
    return false;
  }
  use->bytes = static_cast<uint32_t>(use->elements * result_bytes(reduction.op, reduction.type));
  if (use->packed == WorkerSet{}) {
    reduce(reduction, inputs.elements.data(), static_cast<int>(inputs.count), use->elements, out);
    return false;
  }
  const Packed packed = reduce_packed(reduction, inputs, last, *use, store);
  if (packed.bytes == 0) return false;
  use->bytes = static_cast<uint32_t>(packed.bytes);
  use->with_target = WorkerSet{};  // A target takes whole chunks. [ZERO-6]
  return true;
}

}  // namespace

wire::ParseError ExactAggregator::parse(const uint8_t* frame, size_t size, bool is_result, Arrival* out) const {
  wire::ExactPacket packet;
  const wire::Kind expected = is_result ? wire::Kind::kExactResult : wire::Kind::kExactContribution;
  const wire::ParseError error = wire::parse_exact(frame, size, expected, &packet);
  if (error != wire::ParseError::kNone) return error;
  const wire::ExactHeader& header = packet.header;
  *out = arrival_of(header);
  out->kind = kind_of(header);
  out->check = header.call;
  out->payload = packet.elements;
  out->bytes = packet.bytes;
  out->room = packet.room;
  out->elements = packet.count;
  out->first_block = packet.packed ? packet.packed->blocks.first : 0;
  out->target = packet.target;
  if (is_result || packet.bytes == 0 || packet.operation != ReduceOp::kPartialSum) return error;
  const auto sum = parse_partial_sum(packet.type, packet.elements, packet.bytes);
  if (!sum) return wire::ParseError::kLength;  // [PART-7]
  out->elements = sum->elements;
  return error;
}

bool ExactAggregator::is_intact(const uint8_t* frame, size_t size, wire::ChecksumRule rule) const {
  return wire::exact_intact(frame, size, rule);  // [EXACT-15]
}

// Both versions of a slot share the memory of kept contributions: a late one for the older use, which no worker waits
// for, would overwrite the newer use's.
bool ExactAggregator::is_overtaken(const SlotUse& other, const Arrival& arrival) const {
  return other.pair.epoch == arrival.epoch && wire::newer_seq(other.pair.seq, arrival.seq);  // [EXACT-16]
}

void ExactAggregator::add(const Arrival& arrival, bool is_first, SlotUse* use, SlotStore* store) const {
  if (is_first) {
    use->check = arrival.check;
    use->kind = arrival.kind;
  }
  if ((arrival.flags & wire::kFlagNoElements) != 0) use->want_none.insert(arrival.worker);  // [EXACT-18]
  use->disagree |= arrival.check != use->check || arrival.kind != use->kind;                // [EXACT-20]
  use->disagree |= (arrival.flags & wire::kFlagDisagree) != 0;                              // [ETREE-3]
  if (arrival.target) {
    store->target(arrival.slot, arrival.worker) = *arrival.target;
    use->with_target.insert(arrival.worker);
  }
  if (arrival.bytes == 0) return;
  use->disagree |= use->elements != 0 && arrival.elements != use->elements;  // [EXACT-20]
  use->elements = std::max(use->elements, static_cast<uint32_t>(arrival.elements));
  use->with_elements.insert(arrival.worker);
  if (arrival.first_block == 0) return;
  use->disagree |= use->first_block != 0 && arrival.first_block != use->first_block;  // [ZERO-4]
  use->first_block = static_cast<uint32_t>(arrival.first_block);
  use->packed.insert(arrival.worker);
}

void ExactAggregator::keep(const Arrival& arrival, SlotStore* store) const {
  if (arrival.bytes == 0) return;
  // A packed one lies at the end of its room, where its trailer is found.
  const size_t before = arrival.first_block != 0 ? store->payload_bytes() - arrival.bytes : 0;
  std::memcpy(store->kept(arrival.slot, arrival.worker) + before, arrival.payload, arrival.bytes);
}

void ExactAggregator::complete(const Arrival& last, SlotUse* use, SlotStore* store, wire::ChecksumRule rule,
                               std::optional<uint8_t> uplink) const {
  const wire::Kind kind = uplink ? wire::Kind::kExactContribution : wire::Kind::kExactResult;  // [ETREE-2]
  auto header = outcome_of<wire::ExactHeader>(last, kind, uplink);
  header.call = use->check;
  set_kind(&header, use->kind);  // [EXACT-19]
  const auto op = static_cast<ReduceOp>(header.operation);
  const auto type = static_cast<ElementType>(header.type);
  use->disagree |= uplink && op == ReduceOp::kSumToFloat32;  // [NSUM-6]
  const bool has_elements = !use->disagree && use->elements > 0;
  const uint32_t divisor = uplink ? 1 : header.divisor;  // The root divides.
  const bool is_packed = has_elements && reduce_all({op, type, divisor}, last, uplink.has_value(), use, store);
  const bool fits = !has_elements || use->bytes > 0;  // [PART-8]
  header.flags = use->disagree || !fits ? wire::kFlagDisagree : uint8_t{0};
  if (uplink && use->want_none == use->contributed) header.flags |= wire::kFlagNoElements;
  uint8_t* payload = store->payload(last.slot, last.seq);
  wire::ExactHeader whole = header;
  if (is_packed) whole.flags |= wire::kFlagPacked;
  wire::seal_exact(whole, rule, payload - wire::kExactHeaderBytes, use->bytes);
  use->complete = true;
  if (uplink) return;
  if (!(use->want_none == WorkerSet{})) wire::seal_exact(header, rule, payload - SlotStore::kHeadRoom, 0);
  if (!(use->with_target == WorkerSet{})) {
    header.flags |= wire::kFlagTarget;
    wire::seal_exact(header, rule, payload - SlotStore::kTargetHead, 0);
  }
}

// [EXACT-13, ETREE-4]
SwitchFrame ExactAggregator::repeated_frame(const SlotUse& use, const uint8_t* payload, uint8_t worker, size_t,
                                            bool is_leaf) const {
  return !is_leaf && use.want_none.test(worker) ? bare_frame(payload) : whole_frame(use, payload);
}

// The use has to know which members want no elements. [ETREE-5]
bool ExactAggregator::hands_on(const SlotUse& use, const Arrival& result) const {
  return use.holds(result.epoch, result.seq) && use.complete;
}

void ExactAggregator::make_bare_frame(const uint8_t* result, wire::ChecksumRule rule, uint8_t* payload) const {
  wire::ExactHeader header = wire::read_exact_header(result);
  header.flags &= static_cast<uint8_t>(~wire::kFlagPacked);
  wire::seal_exact(header, rule, payload - SlotStore::kHeadRoom, 0);
}

}  // namespace switchml
