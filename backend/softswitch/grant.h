// The grant that answers an open: pure arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "base/limits.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// Slots of a job that leaves the number to the switch: a window of about 1 MiB per worker, 16 to 128 slots. On one
/// machine more only fill queues; a fast network with a long round trip asks for more.
size_t preset_slots(size_t payload_bytes);
/// Two lanes of an engine shard, two slots each, keep a shard busy while a result travels.
inline constexpr int kLeastSlotsPerShard = 4;

/// The limits of one switch for one session. The presets from `payloads` on fit a switch in software; a chip has fixed
/// sizes, and its slots in pages.
struct GrantLimits {
  size_t free_slot_memory_bytes = 0;  // Unused if there are pages.
  size_t max_payload_bytes = 0;
  size_t receive_buffer_bytes = 0;   // 0: unbounded.
  std::vector<size_t> payloads{};    // Supported sizes in bytes; empty: every allowed size up to the largest.
  bool whole_chunks = false;         // Packets have no words or a whole payload.
  bool exact = false;                // The switch can keep contributions.
  size_t members = 0;                // Members at this switch, child switches included; 0: all workers.
  size_t max_members = kMaxWorkers;  // Most members at this switch.
  size_t page_slots = 0;             // Slots of a page; 0: slots come from memory.
  size_t free_pages = 0;
  size_t max_slots = kMaxSlots;  // A quota.
};

struct Grant {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  size_t refused_by = 0;  // Unless kOk: the index of the switch with the limit that forbids it.
  size_t payload_bytes = 0;
  int slots = 0;  // A multiple of the shards; with pages and several shards each shard has whole pages.
  bool whole_chunks = false;
  bool exact = false;  // Asked for, and supported by all switches.
};

/// Checks the open and cuts it down to the least of the switches' limits. Slots are refused for lack of memory, pages
/// or quota only: a small receive buffer costs losses, which are repaired, so it bounds the slots but leaves every
/// shard its least number. Precondition: at least one switch.
Grant grant(const wire::Open& asked, const std::vector<GrantLimits>& switches);

}  // namespace switchml::softswitch
