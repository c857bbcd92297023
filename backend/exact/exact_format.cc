#include "exact/exact_format.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "exact/exact_codec.h"
#include "slots/partial_sum_room.h"
#include "wire/checksum.h"
#include "wire/packet.h"

namespace switchml {

namespace {

// Shorter ones go with their headers, in one piece.
constexpr size_t kLeastInPlace = 512;

class ExactTask final : public Task {
 public:
  ExactTask(uint64_t serial_number, std::shared_ptr<SharedCollective> collective_state, ElementRange part_in,
            size_t elements_per_chunk, const SessionParameters& session)
      : Task(serial_number, std::move(collective_state), (part_in.count + elements_per_chunk - 1) / elements_per_chunk,
             session),
        codec(collective(), session.worker, session.workers, session.tree, session.partial_sum_ranks > 0,
              session.payload_bytes),
        chunk_elements_(elements_per_chunk),
        left_(part_in) {
    announced = announced || (has_chunks_left() && !is_bulk());  // Its chunks announce it.
  }

  bool has_chunks_left() const { return left_.count > 0; }
  /// None: its elements are not ready.
  std::optional<ElementRange> take() {
    const ElementRange chunk{left_.begin, std::min(left_.count, chunk_elements_)};
    if (!codec.is_ready(chunk)) return std::nullopt;
    left_ = {left_.begin + chunk.count, left_.count - chunk.count};
    return chunk;
  }

  const ExactCodec codec;

 private:
  bool all_opened() const override { return !has_chunks_left(); }

  const size_t chunk_elements_;
  ElementRange left_;  // Not taken yet.
};

ExactTask& exact(Task& task) { return static_cast<ExactTask&>(task); }

// Whether the switch has written the elements to their target. [RDMA-7]
bool is_in_target(const InFlight& flight, const ResultView& result) {
  return flight.has_target && (result.flags & wire::kFlagTarget) != 0;
}

}  // namespace

static_assert(wire::kHeaderOffsetFlags == wire::kExactHeaderOffsetFlags);  // Format::frame_of() marks repeats there.

std::vector<LaneShape> ExactFormat::lanes() const {
  const LaneSlots slots = session_.lanes_per_shard();
  std::vector<LaneShape> all = {{Task::Stream::kShort, true, slots.data}};
  if (slots.has_bulk()) all.push_back({Task::Stream::kBulk, true, slots.bulk_data});
  return all;
}

std::unique_ptr<Task> ExactFormat::begin(uint64_t serial, std::shared_ptr<SharedCollective> collective,
                                         ElementRange part, size_t chunk_bytes) {
  const Collective& call = collective->collective();
  const size_t room = call.op == ReduceOp::kSumToFloat32
                          ? most_chunk_bytes(call.type, session_.payload_bytes, call.op)
                          : chunk_room(call.op, call.type, session_.payload_bytes, session_.partial_sum_ranks);
  const size_t elements = elements_per_chunk(call.type, std::min(chunk_bytes, room), true, call.op);
  return std::make_unique<ExactTask>(serial, std::move(collective), part, elements, session_);
}

Format::Next ExactFormat::next(Task& task, const LaneShape& lane) {
  if (lane.stream == Task::Stream::kShort && !task.announced) return Next::kAnnouncement;  // [ELANE-5]
  return task.stream == lane.stream && exact(task).has_chunks_left() ? Next::kElements : Next::kNothing;
}

std::optional<Chunk> ExactFormat::take(Task& task, const LaneShape& lane) {
  if (next(task, lane) == Next::kElements) {  // [ELANE-4]
    const std::optional<ElementRange> range = exact(task).take();
    return range ? std::optional<Chunk>({Stage::kData, 0, *range}) : std::nullopt;
  }
  task.announced = true;
  return Chunk{Stage::kAnnounced, 0, {}};
}

void ExactFormat::encode(InFlight& flight, Transport& link) {
  const ExactCodec& codec = exact(*flight.task).codec;
  const bool has_elements = flight.stage == Stage::kData;
  const bool wants_result = !has_elements || keep_results_ || codec.wants(flight.range);
  flight.result_bytes = has_elements && wants_result ? codec.result_bytes(flight.range) : 0;
  flight.sent_bytes = 0;
  size_t left_out = 0;
  if (has_elements) {
    uint8_t* const payload = flight.frame + wire::kExactHeaderBytes;
    const Packed packed = codec.pack(flight.range, payload);
    left_out = packed.left_out;
    flight.sent_bytes = packed.bytes;
    offer_memory(flight, wants_result, link);
    if (flight.elements != nullptr) {
      flight.sent_bytes = codec.bytes(flight.range);
    } else if (packed.bytes == 0) {
      flight.sent_bytes = codec.encode(flight.range, payload, &left_out);
    }
  }
  counters_.zero_blocks_left_out.add(left_out);
  const uint8_t flags = wants_result ? uint8_t{0} : wire::kFlagNoElements;  // [MOVED-7]
  seal(flight, left_out > 0 ? static_cast<uint8_t>(flags | wire::kFlagPacked) : flags, link);
}

// TCP and encryption take elements from anywhere, a card from registered memory, to which it has the result written
// too. Not where results are kept: frames may go to another switch then.
void ExactFormat::offer_memory(InFlight& flight, bool wants_result, Transport& link) const {
  const ExactCodec& codec = exact(*flight.task).codec;
  const size_t bytes = codec.bytes(flight.range);
  const bool by_card = session_.switch_endpoint.carrier == Carrier::kRdma && !session_.seal;
  if (!(by_card || link.gathers()) || keep_results_ || bytes < kLeastInPlace) return;
  const uint8_t* source = flight.sent_bytes == 0 ? codec.source(flight.range) : nullptr;  // Unless they are packed.
  const bool reaches = source != nullptr && (link.gathers() || link.queue_pairs()->target_of(source, bytes));
  if (reaches) flight.elements = source;
  if (!by_card) return;
  const uint8_t* target = wants_result ? codec.target(flight.range) : nullptr;
  const size_t result = codec.result_bytes(flight.range);
  const auto reached = target != nullptr ? link.queue_pairs()->target_of(target, result) : std::nullopt;
  if (!reached) return;
  wire::write_target(*reached, flight.frame + wire::kExactHeaderBytes - wire::kTargetBytes);
  flight.has_target = true;
}

// A repeat names no target, because the first result may be there already. Its header lies in front of the first
// packet's, which a card may still read. [RDMA-8]
const uint8_t* ExactFormat::without_target(const InFlight& flight) const {
  uint8_t* const head = flight.frame - wire::kTargetBytes - wire::kExactHeaderBytes;
  wire::ExactHeader header = wire::read_exact_header(flight.frame - wire::kTargetBytes);
  header.flags = static_cast<uint8_t>((header.flags & ~wire::kFlagTarget) | wire::kFlagRepeat);
  wire::seal_exact(header, session_.checksum_rule(), head, flight.sent_bytes);
  return head;
}

// [RDMA-6]
TxFrame ExactFormat::frame_of(const InFlight& flight, bool is_repeat) const {
  TxFrame frame = Format::frame_of(flight, is_repeat);
  const bool names_target = flight.has_target && !is_repeat;
  if (flight.has_target) frame.data = names_target ? flight.frame - wire::kTargetBytes : without_target(flight);
  if (names_target) frame.size += wire::kTargetBytes;
  if (flight.elements == nullptr && names_target == flight.has_target) return frame;  // The frame is contiguous.
  const auto rest = static_cast<uint32_t>(flight.sent_bytes);
  frame.size -= rest;
  frame.rest = flight.elements != nullptr ? flight.elements : flight.frame + wire::kExactHeaderBytes;
  frame.rest_size = rest;
  return frame;
}

std::vector<uint8_t> ExactFormat::frame_of_zeros(size_t slot, uint32_t seq, size_t bytes) const {  // [PATH-5]
  std::vector<uint8_t> frame(wire::kExactHeaderBytes + bytes);
  auto header = header_of<wire::ExactHeader>(wire::Kind::kExactContribution, slot, seq);
  header.type = static_cast<uint8_t>(ElementType::kUInt8);
  header.operation = static_cast<uint8_t>(ReduceOp::kSum);
  header.divisor = 1;
  wire::seal_exact(header, session_.checksum_rule(), frame.data(), bytes);
  return frame;
}

void ExactFormat::seal(InFlight& flight, uint8_t flags, const Transport& link) const {
  const Collective& collective = flight.task->collective();
  const ExactCodec& codec = exact(*flight.task).codec;
  flight.call = call_of(flight, 0);  // [ERES-1]
  auto header = header_of<wire::ExactHeader>(wire::Kind::kExactContribution, flight.slot, flight.seq);
  header.flags = flags;
  header.type = static_cast<uint8_t>(collective.type);
  header.operation = static_cast<uint8_t>(codec.operation());
  header.divisor = codec.divisor();
  header.call = flight.call;
  if (flight.has_target) header.flags |= wire::kFlagTarget;
  uint8_t* const head = flight.frame - (flight.has_target ? wire::kTargetBytes : 0);
  if (link.is_direct()) return wire::write_exact_header(header, head);
  wire::seal_exact(header, session_.checksum_rule(), head, flight.sent_bytes, flight.elements);
}

// The checksum covers job and epoch.
void ExactFormat::readdress(const InFlight& flight) const {
  wire::ExactHeader header = wire::read_exact_header(flight.frame);
  header.job = session_.job;
  header.epoch = session_.epoch;
  wire::seal_exact(header, session_.checksum_rule(), flight.frame, flight.sent_bytes);
}

Format::Parsed ExactFormat::parse(const RxFrame& frame, ResultView* result) const {
  wire::ExactPacket packet;
  if (wire::parse_exact(frame.data, frame.size, wire::Kind::kExactResult, &packet) != wire::ParseError::kNone ||
      packet.room > session_.payload_bytes || packet.header.worker != kAllWorkers) {  // [EXACT-14]
    return Parsed::kMalformed;
  }
  const wire::ExactHeader& header = packet.header;
  if (header.job != session_.job || header.epoch != session_.epoch) return Parsed::kForeign;
  const bool is_intact = frame.is_direct || wire::exact_intact(frame.data, frame.size, session_.checksum_rule());
  if (!is_intact) return Parsed::kDamaged;  // [EXACT-15, ERES-2]
  *result = {header.slot,
             header.seq,
             header.flags,
             header.call,
             packet.elements,
             packet.bytes,
             packet.count * result_bytes(packet.operation, packet.type),
             packet.packed};
  return Parsed::kResult;
}

Format::Verdict ExactFormat::judge(const InFlight& flight, const ResultView& result) const {
  const bool disagree = (result.flags & wire::kFlagDisagree) != 0 || result.check != flight.call;
  if (disagree) return Verdict::kDisagrees;  // [ERES-3]
  // [ERES-2]
  const bool is_whole = result.whole_bytes == (is_in_target(flight, result) ? 0 : flight.result_bytes);
  const bool is_of_type = !result.packed || result.packed->blocks.elements == flight.range.count;
  return is_whole && is_of_type ? Verdict::kHolds : Verdict::kMalformed;
}

void ExactFormat::decode(Task& task, const InFlight& flight, const ResultView& result) {
  if (is_in_target(flight, result)) counters_.bytes_written_in_place.add(flight.result_bytes);
  if (flight.stage != Stage::kData) return;
  const ExactCodec& codec = exact(task).codec;
  const wire::PackedPayload* packed = result.packed ? &*result.packed : nullptr;
  if (result.bytes > 0) codec.decode({result.payload, packed}, flight.range);
  codec.report_written(flight.range);
  if (task.collective().operands() != nullptr) counters_.elements_summed_by_switch.add(flight.range.count);
}

std::string ExactFormat::disagreement() const {
  return "not all of the " + std::to_string(session_.workers) + " contributions to it belong to that call";
}

}  // namespace switchml
