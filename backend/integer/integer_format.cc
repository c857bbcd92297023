#include "integer/integer_format.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "integer/integer_codec.h"
#include "wire/packet.h"

namespace switchml {

namespace {

// Superblocks with exponents at a time, known or being agreed on. Those of 16-bit types are shorter, so there may be
// more of them.
constexpr size_t kWideSuperblocks = 8;
constexpr size_t kSuperblocks = kWideSuperblocks * (kMaxBlockElements / kMaxNarrowBlockElements);

// A shard without elements has no superblock, so no exponents.
bool uses_exponents(const Collective& collective, ElementRange part) {
  return sums_floats(collective.op, collective.type) && part.count > 0;  // [CALL-2, CALL-3]
}

// Whether none of n result words is below this worker's own: a maximum never is.
bool nowhere_below(const uint8_t* result, const uint8_t* own, size_t n) {
  bool below = false;
  for (size_t i = 0; i < n; ++i) {
    const auto theirs = static_cast<int32_t>(wire::detail::load<uint32_t>(result + i * kWordBytes));
    const auto mine = static_cast<int32_t>(wire::detail::load<uint32_t>(own + i * kWordBytes));
    below |= theirs < mine;  // [MAX-1]
  }
  return !below;
}

uint8_t* words_of(const InFlight& flight) { return flight.frame + wire::kHeaderBytes; }

}  // namespace

class IntegerTask final : public Task {
 public:
  IntegerTask(uint64_t serial_number, std::shared_ptr<SharedCollective> collective_state, const ChunkPlan& plan_in,
              const SessionParameters& session)
      : Task(serial_number, std::move(collective_state), plan_in.total_chunks() - plan_in.superblocks(), session),
        plan(plan_in),
        codec(collective(), plan, session.contributing_ranks(), session.significant_bits) {}

  bool all_calls_opened() const { return next_call == plan.superblocks(); }
  bool all_data_opened() const { return next_superblock == plan.superblocks(); }

  const ChunkPlan plan;
  const IntegerCodec codec;
  size_t next_call = 0;        // The next call chunk: number of its superblock.
  size_t next_superblock = 0;  // The next data chunk: number of its superblock.
  size_t next_chunk = 0;       // The next data chunk: number in its superblock.

 private:
  bool all_opened() const override { return all_calls_opened() && all_data_opened(); }
};

namespace {
IntegerTask& integer(Task& task) { return static_cast<IntegerTask&>(task); }
}  // namespace

IntegerFormat::IntegerFormat(const SessionParameters& session, WorkerCounters& counters)
    : Format(session, counters), witness_(session.secret[0], session.secret[1], session.payload_bytes / kWordBytes) {
  const size_t payload = session.payload_bytes;
  size_t blocks = 0;
  size_t elements = 0;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    blocks = std::max(blocks, ChunkPlan::superblock_blocks_for(type, payload));
    elements = std::max(elements, ChunkPlan::superblock_elements_for(type, payload));
  }
  const LaneSlots slots = session.lanes_per_shard();
  const size_t few = std::min(elements, static_cast<size_t>(slots.data) * (payload / kWordBytes));
  rings_.emplace_back(kSuperblocks, blocks, kWideSuperblocks * (slots.has_bulk() ? few : elements));
  if (slots.has_bulk()) rings_.emplace_back(kSuperblocks, blocks, kWideSuperblocks * elements);
}

std::vector<LaneShape> IntegerFormat::lanes() const {  // [LANE-1]
  const LaneSlots slots = session_.lanes_per_shard();
  std::vector<LaneShape> all = {{Task::Stream::kShort, false, slots.calls}, {Task::Stream::kShort, true, slots.data}};
  if (slots.has_bulk()) {
    all.push_back({Task::Stream::kBulk, false, slots.bulk_calls});
    all.push_back({Task::Stream::kBulk, true, slots.bulk_data});
  }
  return all;
}

size_t IntegerFormat::memory_bytes() const {
  size_t bytes = 0;
  for (const SuperblockRing& ring : rings_) bytes += ring.memory_bytes();
  return bytes;
}

std::unique_ptr<Task> IntegerFormat::begin(uint64_t serial, std::shared_ptr<SharedCollective> collective,
                                           ElementRange part, size_t chunk_bytes) {
  SWITCHML_ASSERT(chunk_bytes == session_.payload_bytes);  // The superblock buffers have this size.
  const Collective& call = collective->collective();
  const ChunkPlan plan(call.type, uses_exponents(call, part), part, chunk_bytes);
  // Blocks are the same for all payloads and numbers of shards.
  SWITCHML_ASSERT(!plan.with_exponents() || plan.superblock(0).begin % plan.block_elements() == 0);
  return std::make_unique<IntegerTask>(serial, std::move(collective), plan, session_);
}

Format::Next IntegerFormat::next(Task& any, const LaneShape& lane) {
  IntegerTask& task = integer(any);
  const bool is_ours = task.stream == lane.stream;
  if (lane.has_elements) {
    if (!is_ours) return Next::kNothing;
    while (!task.all_data_opened() && task.plan.chunks_of_superblock(task.next_superblock) == 0) ++task.next_superblock;
    return task.all_data_opened() ? Next::kNothing : Next::kElements;
  }
  if (is_ours) return task.all_calls_opened() ? Next::kNothing : Next::kAnnouncement;
  return lane.stream == Task::Stream::kShort && !task.announced ? Next::kAnnouncement : Next::kNothing;
}

std::optional<Chunk> IntegerFormat::take(Task& any, const LaneShape& lane) {
  IntegerTask& task = integer(any);
  if (lane.has_elements) return take_data(task);
  if (task.stream == lane.stream) return take_call(task);
  task.announced = true;
  return Chunk{Stage::kAnnounced, 0, {}};  // Orders a collective of the bulk stream among the short stream's calls.
}

std::optional<Chunk> IntegerFormat::take_call(IntegerTask& task) {
  const size_t g = task.next_call;
  if (task.plan.with_exponents()) {
    const ElementRange all = task.plan.superblock(g);
    if (!task.collective().is_ready(all.begin + all.count)) return std::nullopt;
    SuperblockRing& ring = ring_of(task);
    if (!ring.has_room(all.count)) return std::nullopt;
    ring.take(task.serial, g, all);
  }
  if (!task.is_bulk()) task.announced = true;
  ++task.next_call;
  return Chunk{Stage::kCall, g, task.plan.superblock(g)};
}

std::optional<Chunk> IntegerFormat::take_data(IntegerTask& task) {
  const size_t g = task.next_superblock;
  if (task.plan.with_exponents()) return take_data_of_floats(task);
  const Chunk chunk{Stage::kData, g, task.plan.chunk(g, task.next_chunk)};
  if (!task.collective().is_ready(chunk.range.begin + chunk.range.count)) return std::nullopt;
  if (++task.next_chunk == task.plan.chunks_of_superblock(g)) {
    ++task.next_superblock;
    task.next_chunk = 0;
  }
  return chunk;
}

std::optional<Chunk> IntegerFormat::take_data_of_floats(IntegerTask& task) {
  const size_t g = task.next_superblock;
  Superblock* superblock = ring_of(task).find(task.serial, g);
  if (superblock == nullptr || !superblock->ready) return std::nullopt;  // Its exponents are not known yet. [CALL-8]
  if (superblock->has_nonfinite) {
    // The counts come first: the first sums overwrite an in-place input.
    const size_t chunks = task.plan.chunks_of_superblock(g);
    if (superblock->nonfinite_sent < chunks) {
      return Chunk{Stage::kNonfinite, g, task.plan.chunk(g, superblock->nonfinite_sent++)};  // [CALL-9]
    }
    if (superblock->nonfinite_done < chunks) return std::nullopt;  // [CALL-10]
  }
  // The call chunk has waited until all of the superblock was ready.
  const Chunk chunk{Stage::kData, g, task.codec.next_chunk(*superblock, session_.payload_bytes / kWordBytes)};
  superblock->sent += chunk.range.count;
  if (superblock->sent == superblock->range.count) ++task.next_superblock;
  return chunk;
}

void IntegerFormat::encode(InFlight& flight, Transport&) {
  const IntegerTask& task = integer(*flight.task);
  uint8_t* const words = words_of(flight);
  size_t n = 0;
  uint64_t exponents_hash = 0;
  switch (flight.stage) {
    case Stage::kAnnounced: break;                                                   // [LANE-7]
    case Stage::kCall: n = task.codec.encode_call(flight.superblock, words); break;  // [CALL-1]
    case Stage::kNonfinite: n = task.codec.encode_nonfinite(flight.range, words); break;
    case Stage::kData: {
      const Superblock* superblock =
          task.plan.with_exponents() ? ring_of(task).find(task.serial, flight.superblock) : nullptr;
      n = task.codec.encode_data(flight.range, superblock, words);
      exponents_hash = task.codec.exponents_hash(flight.range, superblock);
    }
  }
  seal(flight, task.codec.operation(flight.stage), n, exponents_hash);
}

std::vector<uint8_t> IntegerFormat::frame_of_zeros(size_t slot, uint32_t seq, size_t bytes) const {  // [PATH-5]
  std::vector<uint8_t> frame(wire::kHeaderBytes + bytes);
  auto header = header_of<wire::Header>(wire::Kind::kContribution, slot, seq);
  header.flags = static_cast<uint8_t>(wire::Operation::kSum);
  wire::write_header(header, frame.data());
  return frame;
}

// Writes header and witness of the words that are already in the frame.
void IntegerFormat::seal(InFlight& flight, wire::Operation operation, size_t words, uint64_t exponents_hash) const {
  const size_t bytes = words * kWordBytes;
  SWITCHML_ASSERT(bytes <= session_.payload_bytes);
  flight.call = call_of(flight, exponents_hash);
  flight.meaning_bytes = bytes;
  flight.sent_bytes = words > 0 && session_.whole_chunks ? session_.payload_bytes : bytes;  // [LEN-4]
  flight.result_bytes = flight.sent_bytes;
  std::memset(words_of(flight) + bytes, 0, flight.sent_bytes - bytes);
  if (flight.stage == Stage::kCall) witness_.guard(words_of(flight), words, flight.call);  // [CALL-7]
  auto header = header_of<wire::Header>(wire::Kind::kContribution, flight.slot, flight.seq);
  header.flags = static_cast<uint8_t>(operation);
  const bool summed = operation == wire::Operation::kSum;
  // [WIT-3, WIT-4]
  header.witness = witness_.contribution(session_.worker, flight.call, words_of(flight), summed ? words : 0);
  wire::write_header(header, flight.frame);
}

// The witness covers the words, the position in the stream and the call, none of which change.
void IntegerFormat::readdress(const InFlight& flight) const {
  wire::Header header = wire::read_header(flight.frame);
  header.job = session_.job;
  header.epoch = session_.epoch;
  wire::write_header(header, flight.frame);
}

Format::Parsed IntegerFormat::parse(const RxFrame& frame, ResultView* result) const {
  wire::DataPacket packet;
  if (wire::parse_data(frame.data, frame.size, wire::Kind::kResult, &packet) != wire::ParseError::kNone ||
      packet.words * kWordBytes > session_.payload_bytes || packet.header.worker != kAllWorkers) {  // [PKT-7]
    return Parsed::kMalformed;
  }
  const wire::Header& header = packet.header;
  if (header.job != session_.job || header.epoch != session_.epoch) return Parsed::kForeign;  // [SLOT-14]
  *result = {header.slot, header.seq, header.flags, header.witness, packet.payload, packet.words * kWordBytes};
  return Parsed::kResult;
}

Format::Verdict IntegerFormat::judge(const InFlight& flight, const ResultView& result) const {
  const IntegerTask& task = integer(*flight.task);
  const wire::Operation operation = task.codec.operation(flight.stage);
  const auto said = static_cast<wire::Operation>(result.flags & wire::kOperationMask);
  if (result.bytes != flight.result_bytes || said != operation) return Verdict::kDamaged;  // [WIT-6]
  const bool summed = operation == wire::Operation::kSum;
  const size_t words = flight.meaning_bytes / kWordBytes;
  if (!witness_.check(result.check, session_.workers, flight.call, result.payload, summed ? words : 0))  // [WIT-5]
    return Verdict::kDamaged;
  if (summed) return Verdict::kHolds;
  if (!nowhere_below(result.payload, words_of(flight), words)) return Verdict::kDamaged;
  const bool holds =
      flight.stage != Stage::kCall || (witness_.intact(result.payload, words, flight.call) &&
                                       task.codec.plausible_call(flight.superblock, result.payload, words));  // [MAX-3]
  return holds ? Verdict::kHolds : Verdict::kDamaged;
}

void IntegerFormat::decode(Task& any, const InFlight& flight, const ResultView& result) {
  IntegerTask& task = integer(any);
  Superblock* superblock = task.plan.with_exponents() ? ring_of(task).find(task.serial, flight.superblock) : nullptr;
  switch (flight.stage) {
    case Stage::kAnnounced: break;
    case Stage::kCall:
      if (superblock == nullptr) break;
      task.codec.decode_call(result.payload, flight.meaning_bytes / kWordBytes, superblock);
      if (superblock->has_nonfinite) counters_.nonfinite_superblocks.add(1);
      break;
    case Stage::kNonfinite:
      SWITCHML_ASSERT(superblock != nullptr);  // Only sums of floats have non-finite chunks.
      task.codec.decode_nonfinite(result.payload, flight.range, superblock);
      ++superblock->nonfinite_done;
      break;
    case Stage::kData:
      task.codec.decode_data(result.payload, flight.range, superblock);
      task.collective().report_written(flight.range.begin, flight.range.begin + flight.range.count);
      counters_.elements_summed_by_switch.add(flight.range.count);
      if (superblock == nullptr) break;
      superblock->done += flight.range.count;
      if (superblock->done == superblock->range.count) ring_of(task).finish(superblock);
      break;
  }
}

std::string IntegerFormat::disagreement() const {
  return "the switch's result is not the sum of " + std::to_string(session_.workers) + " contributions to that call";
}

}  // namespace switchml
