// What a session is granted of what it asks for: pure arithmetic.
#pragma once

#include <cstddef>
#include <vector>

#include "base/limits.h"
#include "wire/packet.h"

namespace switchml::softswitch {

/// Slots of a job that leaves the number to the switch: a window of about 1 MiB per worker, 16 to 128 slots. More only
/// fills queues where all share a machine; a fast network with a long round trip wants more and says so.
size_t preset_slots(size_t payload_bytes);
/// Two lanes of an engine shard, two slots each, keep a shard busy while a result travels.
inline constexpr int kLeastSlotsPerShard = 4;

/// What one switch has for one session. The presets from `payloads` on are those of a switch in software; a chip has
/// fixed sizes, and its slots in pages.
struct GrantLimits {
  size_t free_slot_memory_bytes = 0;  // not asked where there are pages
  size_t max_payload_bytes = 0;
  size_t receive_buffer_bytes = 0;   // 0: unbounded
  std::vector<size_t> payloads{};    // the sizes that it takes, in bytes; none: every allowed size up to the largest
  bool whole_chunks = false;         // packets without words or with a whole payload only
  bool exact = false;                // it can keep contributions
  size_t members = 0;                // of this session at this switch, child switches included; 0: all workers
  size_t max_members = kMaxWorkers;  // that it can have
  size_t page_slots = 0;             // slots of a page; 0: slots come from memory
  size_t free_pages = 0;
  size_t max_slots = kMaxSlots;  // a quota
};

struct Grant {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  size_t refused_by = 0;  // unless kOk: the index of the switch whose limits forbid it
  size_t payload_bytes = 0;
  int slots = 0;  // a multiple of the shards; with pages and several shards each shard has whole pages
  bool whole_chunks = false;
  bool exact = false;  // asked for, and all switches can
};

/// Checks what is asked and cuts it down to the least of the switches' limits. Slots are refused for lack of memory,
/// pages or quota only: a small receive buffer costs losses, which are repaired, so it bounds the slots but leaves
/// every shard its least number. Precondition: at least one switch.
Grant grant(const wire::Open& asked, const std::vector<GrantLimits>& switches);

}  // namespace switchml::softswitch
