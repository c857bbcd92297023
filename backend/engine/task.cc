#include "engine/task.h"

#include "base/assert.h"
#include "base/fnv.h"

namespace switchml {

namespace {

// A shard without elements has no superblock whose exponents could be agreed on.
bool uses_exponents(const Collective& collective, ElementRange part) {
  return sums_floats(collective.op, collective.type) && part.count > 0;  // [CALL-2, CALL-3]
}

Task::Stream stream_of(const Collective& collective, const ChunkPlan& plan, const LaneSlots& lanes) {
  if (!lanes.has_bulk()) return Task::Stream::kShort;
  const bool fits = plan.total_chunks() - plan.superblocks() <= static_cast<size_t>(lanes.data);
  SWITCHML_ASSERT(fits || collective.stream != StreamChoice::kShort);
  // [LANE-5, LANE-6, NLANE-3]
  return fits && collective.stream != StreamChoice::kBulk ? Task::Stream::kShort : Task::Stream::kBulk;
}

// Hash of title, tag and divisor, and of the number of the call where all have one order.
uint64_t covered_by_witness(const Collective& collective, uint64_t serial) {
  const uint64_t agreed = agreement_hash(collective);
  return collective.stream == StreamChoice::kByLength ? fnv1a(&serial, sizeof serial, agreed) : agreed;  // [WIT-8]
}

}  // namespace

void SharedCollective::finish(const Status& status) {
  if (!status.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (first_error_.ok()) first_error_ = status;
  }
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const auto done = std::move(collective_.done);
  if (done) done(first_error_);
}

Task::Task(uint64_t serial_number, std::shared_ptr<SharedCollective> collective_state, ElementRange part,
           const SessionParameters& session, size_t chunk_bytes)
    : serial(serial_number),
      shared(std::move(collective_state)),
      plan(collective().type, !session.native && uses_exponents(collective(), part), part, chunk_bytes, session.native),
      codec(collective(), plan, session.contributing_ranks()),
      native_codec(collective(), session.worker, session.workers, session.tree),
      stream(stream_of(collective(), plan, session.lanes_per_shard())),
      announced(is_bulk() && collective().stream == StreamChoice::kBulk),  // [NLANE-6]
      covered(covered_by_witness(collective(), serial)) {
  // Blocks are the same ones whatever the payload and the number of shards.
  SWITCHML_ASSERT(!plan.with_exponents() || plan.superblock(0).begin % plan.block_elements() == 0);
  SWITCHML_ASSERT(session.native || chunk_bytes == session.payload_bytes);  // which superblock buffers are made for
  if (!session.native) return;
  const bool has_chunks = plan.chunks_of_superblock(0) > 0;
  next_call = plan.superblocks();
  next_superblock = has_chunks ? 0 : plan.superblocks();
  announced = announced || (has_chunks && !is_bulk());
}

std::string Task::describe() const { return switchml::describe(collective()); }

}  // namespace switchml
