#include "softswitch/grant.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "base/payload_size.h"
#include "slots/slot_store.h"

namespace switchml::softswitch {

namespace {

// A kernel accounts a queued datagram with about twice its bytes.
constexpr size_t kQueueOverhead = 2;
constexpr size_t kStreamOverhead = 8;  // A frame's prefix.

size_t slots_that_queue(const GrantLimits& limits, const wire::Open& asked, size_t payload) {
  if ((asked.flags & (wire::kOpenStream | wire::kOpenRdma)) != 0) {  // [OPEN-6]
    return asked.shards * (kStreamQueueBytes / (payload + wire::kExactHeaderBytes + kStreamOverhead));
  }
  if (limits.receive_buffer_bytes == 0) return kMaxSlots;
  const size_t members = limits.members == 0 ? asked.workers : limits.members;
  return limits.receive_buffer_bytes / (members * kQueueOverhead * (payload + wire::kExactHeaderBytes));
}

/// `kept`: contributions that each slot keeps.
size_t slots_that_fit(const GrantLimits& limits, size_t payload, size_t kept) {
  const size_t fit = limits.page_slots != 0 ? limits.free_pages * limits.page_slots
                                            : limits.free_slot_memory_bytes / SlotStore::slot_bytes(payload, kept);
  return std::min(fit, limits.max_slots);
}

bool takes(const GrantLimits& limits, size_t payload) {
  if (limits.payloads.empty()) return payload <= limits.max_payload_bytes;
  return std::find(limits.payloads.begin(), limits.payloads.end(), payload) != limits.payloads.end();
}

/// Slots are granted in multiples of this. A page has one multicast group, so it belongs to one shard.
size_t slot_unit(size_t shards, const std::vector<GrantLimits>& switches) {
  if (shards == 1) return 1;
  size_t unit = 1;
  for (const GrantLimits& limits : switches) unit = std::lcm(unit, std::max<size_t>(limits.page_slots, 1));
  return shards * unit;
}

Grant refuse(wire::ReplyStatus status, size_t by) {
  Grant out;
  out.status = status;
  out.refused_by = by;
  return out;
}

/// The largest size up to `asked` that all switches take; else 0, and `by` is the first switch that takes none.
size_t common_payload(size_t asked, const std::vector<GrantLimits>& switches, size_t* by) {  // [OPEN-4]
  std::vector<size_t> sizes;
  for (size_t size = allowed_payload(asked); size != 0; size = allowed_payload(size - 1)) {
    sizes.push_back(size);
  }
  for (size_t i = 0; i < switches.size(); ++i) {
    *by = i;
    sizes.erase(std::remove_if(sizes.begin(), sizes.end(), [&](size_t s) { return !takes(switches[i], s); }),
                sizes.end());
    if (sizes.empty()) return 0;
  }
  return sizes.front();
}

}  // namespace

size_t preset_slots(size_t payload_bytes) {
  constexpr size_t kWindowBytes = 1 << 20;
  return std::clamp<size_t>(kWindowBytes / payload_bytes, 16, 128);
}

Grant grant(const wire::Open& asked, const std::vector<GrantLimits>& switches) {
  Grant out;
  if (asked.workers == 0 || asked.shards == 0 || asked.shards > kMaxShards || asked.slots > kMaxSlots) {  // [OPEN-3]
    return refuse(wire::ReplyStatus::kBadRequest, 0);
  }
  if (asked.workers > kMaxWorkers) return refuse(wire::ReplyStatus::kTooManyWorkers, 0);  // [OPEN-3]
  for (size_t i = 0; i < switches.size(); ++i) {
    const size_t members = switches[i].members == 0 ? asked.workers : switches[i].members;
    if (members > switches[i].max_members) return refuse(wire::ReplyStatus::kTooManyWorkers, i);
    out.whole_chunks |= switches[i].whole_chunks;
  }
  out.exact =
      (asked.flags & wire::kOpenExact) != 0 &&
      std::all_of(switches.begin(), switches.end(), [](const auto& limits) { return limits.exact; });  // [EXACT-2]
  size_t by = 0;
  out.payload_bytes = common_payload(asked.payload, switches, &by);
  if (out.payload_bytes == 0) return refuse(wire::ReplyStatus::kPayloadUnsupported, by);

  const size_t unit = slot_unit(asked.shards, switches);
  SWITCHML_ASSERT(unit > 0);
  const size_t least = (size_t{asked.shards} * kLeastSlotsPerShard + unit - 1) / unit * unit;  // [OPEN-4]
  size_t slots = asked.slots == 0 ? preset_slots(out.payload_bytes) : asked.slots;             // [OPEN-3]
  for (size_t i = 0; i < switches.size(); ++i) {
    const size_t fit = slots_that_fit(switches[i], out.payload_bytes, out.exact ? asked.workers : 0);
    if (std::min<size_t>(fit, kMaxSlots) < least) return refuse(wire::ReplyStatus::kNoSlots, i);
    slots = std::min({slots, fit, slots_that_queue(switches[i], asked, out.payload_bytes)});  // [OPEN-6]
  }
  out.slots = static_cast<int>(std::max(slots / unit * unit, least));
  return out;
}

}  // namespace switchml::softswitch
