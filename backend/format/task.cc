#include "format/task.h"

#include "base/assert.h"
#include "base/fnv.h"

namespace switchml {

namespace {

Task::Stream stream_of(const Collective& collective, size_t chunks, const LaneSlots& lanes) {
  if (!lanes.has_bulk()) return Task::Stream::kShort;
  const bool fits = chunks <= static_cast<size_t>(lanes.data);
  SWITCHML_ASSERT(fits || collective.stream != StreamChoice::kShort);
  // [LANE-5, LANE-6, ELANE-3]
  return fits && collective.stream != StreamChoice::kBulk ? Task::Stream::kShort : Task::Stream::kBulk;
}

// Hash of title, tag, divisor, movement and root, and of the number of the call where all have one order.
uint64_t hash_of_call(const Collective& collective, uint64_t serial) {
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

Task::Task(uint64_t serial_number, std::shared_ptr<SharedCollective> collective_state, size_t chunks,
           const SessionParameters& session)
    : serial(serial_number),
      shared(std::move(collective_state)),
      stream(stream_of(collective(), chunks, session.lanes_per_shard())),
      agreed(hash_of_call(collective(), serial)),
      announced(is_bulk() && collective().stream == StreamChoice::kBulk) {}  // [ELANE-6]

}  // namespace switchml
