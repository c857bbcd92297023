// What a session is granted of what it asks for: pure arithmetic.
#pragma once

#include <cstddef>

#include "wire/packet.h"

namespace switchml::softswitch {

/// Slots of a job that leaves the number to the switch: a window of about 1 MiB per worker, 16 to 128 slots. More only
/// fills queues where all share a machine; a fast network with a long round trip wants more and says so.
size_t preset_slots(size_t payload_bytes);
/// Two lanes of an engine shard, two slots each, keep a shard busy while a result travels.
inline constexpr int kLeastSlotsPerShard = 4;

struct GrantLimits {
  size_t free_slot_memory_bytes = 0;
  size_t max_payload_bytes = 0;
  size_t receive_buffer_bytes = 0;  // 0: unbounded
};

struct Grant {
  wire::ReplyStatus status = wire::ReplyStatus::kOk;
  size_t payload_bytes = 0;
  int slots = 0;  // a multiple of the shards
};

/// Checks what is asked and cuts it down to the limits. Slots are refused for lack of memory only: a small receive
/// buffer costs losses, which are repaired, so it bounds the slots but leaves every shard its least number.
Grant grant(const wire::Open& asked, const GrantLimits& limits);

}  // namespace switchml::softswitch
