// A native session: elements travel in their own type, and one round trip is all there is. A stream has one lane, in
// which all chunks of its collectives follow one another. Each chunk says by a hash to which call it belongs, so the
// aggregator finds out whether ranks disagree; what has no chunk in the short stream's lane puts one without elements
// there: a barrier, an empty tensor, a collective of the bulk stream. So all collectives have one order there, and
// ranks that disagree meet in a slot.
#include <algorithm>

#include "base/limits.h"
#include "engine/shard.h"
#include "wire/checksum.h"

namespace switchml {

namespace {
// Shorter ones go with their headers, in one piece.
constexpr size_t kLeastInPlace = 512;
}  // namespace

static_assert(wire::kHeaderOffsetFlags == wire::kNativeHeaderOffsetFlags);  // where a repeated packet says so

bool Shard::open_native(Stream& stream, Time now) {
  Lane& lane = data_of(stream);
  Task* task = task_at(stream.data_cursor);
  if (task == nullptr || !lane.pool.can_open()) return false;
  if (stream.kind == Task::Stream::kShort && !task->announced) {  // [NLANE-5]
    announce_native(*task, now);
    return true;
  }
  const bool ours = task->stream == stream.kind;
  if (!ours || task->all_data_opened()) {
    const uint64_t next = stream.data_cursor + 1;
    if (ours) on_task_progress(*task);  // one without chunks may be complete
    stream.data_cursor = std::max(stream.data_cursor, next);
    return true;
  }
  if (!window_allows(stream)) return false;
  const ElementRange range = task->plan.chunk(0, task->next_chunk);
  if (++task->next_chunk == task->plan.chunks_of_superblock(0)) ++task->next_superblock;
  InFlight& flight = open_slot(lane, *task, Stage::kData, 0, range);  // [NLANE-4]
  // Where results are kept, others may need them from here.
  const bool wants_result = options_.keep_results || task->native_codec.wants(range);
  flight.result_bytes = wants_result ? task->native_codec.bytes(range) : 0;
  place_native(flight, wants_result);
  const size_t bytes = flight.elements != nullptr
                           ? task->native_codec.bytes(range)
                           : task->native_codec.encode(range, flight.frame + wire::kNativeHeaderBytes);
  seal_native(flight, bytes, wants_result, now);
  return true;
}

// What lies where a card reaches it is sent from there, and its result is written there. Not where results are kept.
void Shard::place_native(InFlight& flight, bool wants_result) {
  const NativeCodec& codec = flight.task->native_codec;
  const size_t bytes = codec.bytes(flight.range);
  if (session_.switch_endpoint.carrier != Carrier::kRdma || options_.keep_results || bytes < kLeastInPlace) return;
  const uint8_t* source = codec.source(flight.range);
  if (source != nullptr && transport().reach(source, bytes)) flight.elements = source;
  const uint8_t* target = wants_result ? codec.target(flight.range) : nullptr;
  const auto reached = target != nullptr ? transport().reach(target, bytes) : std::nullopt;
  if (!reached) return;
  wire::write_target(*reached, flight.frame + wire::kNativeHeaderBytes - wire::kTargetBytes);
  flight.has_target = in_place_ = true;
}

// Once the result may be there, nothing else is: a repeat names no target. Its header lies in front of the other one,
// which a card may still read. [RDMA-8]
const uint8_t* Shard::without_target(const InFlight& flight) const {
  uint8_t* const head = flight.frame - wire::kTargetBytes - wire::kNativeHeaderBytes;
  wire::NativeHeader header = wire::read_native_header(flight.frame - wire::kTargetBytes);
  header.flags = static_cast<uint8_t>((header.flags & ~wire::kFlagTarget) | wire::kFlagRepeat);
  wire::seal_native(header, session_.checksum_rule(), head, flight.sent_bytes);
  return head;
}

// As it goes to the transport. [RDMA-6]
TxFrame Shard::frame_of(const InFlight& flight, bool is_repeat) const {
  const auto head = static_cast<uint32_t>(session_.header_bytes()), rest = static_cast<uint32_t>(flight.sent_bytes);
  TxFrame frame{flight.frame, head, &session_.switch_endpoint};
  const bool names_target = flight.has_target && !is_repeat;
  if (flight.has_target) frame.data = names_target ? flight.frame - wire::kTargetBytes : without_target(flight);
  if (names_target) frame.size += wire::kTargetBytes;
  if (window_ && !session_.whole_chunks) frame.ecn = Ecn::kCapable;  // [ECN-3]
  frame.may_change = is_repeat;  // the first one may be answered before this one has left
  if (flight.elements == nullptr && names_target == flight.has_target) {  // all of it lies together
    frame.size += rest;
    return frame;
  }
  frame.rest = flight.elements != nullptr ? flight.elements : flight.frame + head;
  frame.rest_size = rest;
  return frame;
}

void Shard::announce_native(Task& task, Time now) {
  task.announced = true;
  InFlight& flight = open_slot(lanes_[0], task, Stage::kAnnounced, 0, {});
  flight.result_bytes = 0;
  seal_native(flight, 0, true, now);
}

void Shard::seal_native(InFlight& flight, size_t bytes, bool wants_result, Time now) {
  const Collective& collective = flight.task->collective();
  flight.mask = mask_of(flight, 0);  // [NRES-1]
  flight.sent_bytes = bytes;
  wire::NativeHeader header;
  header.version = wire::kVersion;
  header.kind = static_cast<uint8_t>(wire::Kind::kNativeContribution);
  header.flags = wants_result ? uint8_t{0} : wire::kFlagNoElements;  // [MOVED-7]
  header.job = session_.job;
  header.worker = static_cast<uint8_t>(session_.worker);
  header.epoch = session_.epoch;
  header.slot = flight.slot;
  header.type = static_cast<uint8_t>(collective.type);
  header.operation = static_cast<uint8_t>(collective.op);
  header.divisor = flight.task->native_codec.divisor();
  header.seq = flight.seq;
  header.call = flight.mask;
  if (flight.has_target) header.flags |= wire::kFlagTarget;
  uint8_t* const head = flight.frame - (flight.has_target ? wire::kTargetBytes : 0);
  wire::seal_native(header, session_.checksum_rule(), head, bytes);
  transmit(flight, now);
}

void Shard::on_elements(const RxFrame& frame, Time now) {
  wire::NativePacket packet;
  if (wire::parse_native(frame.data, frame.size, wire::Kind::kNativeResult, &packet) != wire::ParseError::kNone ||
      packet.bytes > session_.payload_bytes || packet.header.worker != kAllWorkers) {  // [NATIVE-14]
    counters_.results_malformed.add(1);
  } else if (packet.header.job != session_.job || packet.header.epoch != session_.epoch) {
    counters_.results_foreign.add(1);
  } else if (!wire::native_intact(frame.data, frame.size, session_.checksum_rule())) {  // [NATIVE-15, NRES-2]
    counters_.results_damaged.add(1);
  } else {
    on_native_result(packet, now);
  }
}

void Shard::on_native_result(const wire::NativePacket& packet, Time now) {
  const wire::NativeHeader& header = packet.header;
  InFlight* flight = awaited(header.slot, header.seq);
  if (flight == nullptr) return;
  const bool disagree = (header.flags & wire::kFlagDisagree) != 0 || header.call != flight->mask;
  if (disagree) return on_disagreement(*flight);                                         // [NRES-3]
  const bool is_placed = flight->has_target && (header.flags & wire::kFlagTarget) != 0;  // [RDMA-7]
  if (packet.bytes != (is_placed ? 0 : flight->result_bytes)) {                          // [NRES-2]
    counters_.results_malformed.add(1);
    return;
  }
  accept(*flight, packet.elements - wire::kNativeHeaderBytes, wire::kNativeHeaderBytes + packet.bytes, now);
  Task& task = *flight->task;
  --task.in_flight;
  flight->task = nullptr;
  if (is_placed) counters_.bytes_written_in_place.add(flight->result_bytes);
  if (flight->stage == Stage::kData) {
    if (packet.bytes > 0) task.native_codec.decode(packet.elements, flight->range);
    if (task.collective().movement == Movement::kNone) counters_.elements_summed_by_switch.add(flight->range.count);
  }
  on_task_progress(task);
}

void Shard::on_disagreement(const InFlight& flight) {
  fail(Status(Code::kMismatch, "this rank called " + flight.task->describe() + ", and not all of the " +
                                   std::to_string(session_.workers) +
                                   " contributions to it belong to that call (slot " + std::to_string(flight.slot) +
                                   ", sequence " + std::to_string(flight.seq) +
                                   "): ranks called with different operations, types or sizes"));
}

}  // namespace switchml
