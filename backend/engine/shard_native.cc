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
  const ElementRange range = task->plan.chunk(0, task->next_chunk);
  if (++task->next_chunk == task->plan.chunks_of_superblock(0)) ++task->next_superblock;
  InFlight& flight = open_slot(lane, *task, Stage::kData, 0, range);  // [NLANE-4]
  // Where results are kept, others may need them from here.
  const bool wants_result = options_.keep_results || task->native_codec.wants(range);
  flight.result_bytes = wants_result ? task->native_codec.bytes(range) : 0;
  seal_native(flight, task->native_codec.encode(range, flight.frame + wire::kNativeHeaderBytes), wants_result, now);
  return true;
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
  wire::seal_native(header, session_.session_key, flight.frame, bytes);
  transmit(flight, now);
}

void Shard::on_elements(const RxFrame& frame, Time now) {
  wire::NativePacket packet;
  if (wire::parse_native(frame.data, frame.size, wire::Kind::kNativeResult, &packet) != wire::ParseError::kNone ||
      packet.bytes > session_.payload_bytes || packet.header.worker != kAllWorkers) {  // [NATIVE-14]
    counters_.results_malformed.add(1);
  } else if (packet.header.job != session_.job || packet.header.epoch != session_.epoch) {
    counters_.results_foreign.add(1);
  } else if (!wire::native_intact(frame.data, frame.size, session_.session_key)) {  // [NATIVE-15, NRES-2]
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
  if (disagree) return on_disagreement(*flight);  // [NRES-3]
  if (packet.bytes != flight->result_bytes) {     // [NRES-2]
    counters_.results_malformed.add(1);
    return;
  }
  accept(*flight, packet.elements - wire::kNativeHeaderBytes, wire::kNativeHeaderBytes + packet.bytes, now);
  Task& task = *flight->task;
  --task.in_flight;
  flight->task = nullptr;
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
