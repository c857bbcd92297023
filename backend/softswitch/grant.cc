#include "softswitch/grant.h"

#include <algorithm>

#include "softswitch/slot_store.h"
#include "wire/payload_size.h"

namespace switchml::softswitch {

namespace {

// A kernel accounts a queued datagram with about twice its bytes.
constexpr size_t kQueueOverhead = 2;

size_t slots_that_queue(size_t receive_buffer_bytes, size_t workers, size_t payload) {
  if (receive_buffer_bytes == 0) return kMaxSlots;
  return receive_buffer_bytes / (workers * kQueueOverhead * (payload + wire::kHeaderBytes));
}

}  // namespace

size_t preset_slots(size_t payload_bytes) {
  constexpr size_t kWindowBytes = 1 << 20;
  return std::clamp<size_t>(kWindowBytes / payload_bytes, 16, 128);
}

Grant grant(const wire::Open& asked, const GrantLimits& limits) {
  Grant out;
  const auto refuse = [&out](wire::ReplyStatus status) {
    out.status = status;
    return out;
  };
  if (asked.workers == 0 || asked.shards == 0 || asked.shards > kMaxShards || asked.slots > kMaxSlots) {
    return refuse(wire::ReplyStatus::kBadRequest);
  }
  if (asked.workers > kMaxWorkers) return refuse(wire::ReplyStatus::kTooManyWorkers);
  out.payload_bytes = wire::allowed_payload(std::min<size_t>(asked.payload, limits.max_payload_bytes));
  if (out.payload_bytes == 0) return refuse(wire::ReplyStatus::kPayloadUnsupported);

  const size_t least = size_t{asked.shards} * kLeastSlotsPerShard;
  const size_t fit = limits.free_slot_memory_bytes / SlotStore::slot_bytes(out.payload_bytes);
  if (fit < least) return refuse(wire::ReplyStatus::kNoSlots);
  const size_t queue = slots_that_queue(limits.receive_buffer_bytes, asked.workers, out.payload_bytes);
  size_t slots = asked.slots == 0 ? preset_slots(out.payload_bytes) : asked.slots;
  slots = std::max(std::min({slots, queue, fit}), least);
  out.slots = static_cast<int>(slots / asked.shards * asked.shards);
  return out;
}

}  // namespace switchml::softswitch
