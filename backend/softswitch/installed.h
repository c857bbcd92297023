// A session as a controller hands it to a switch: who grants, joins and ends it decides elsewhere. Alone, or as a part
// of a tree of switches (docs/protocol.md, Trees).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slots/worker_set.h"
#include "socket/endpoint.h"

namespace switchml::softswitch {

/// Where a leaf hands its aggregates to, and as whom.
struct Uplink {
  uint8_t worker = 0;  // the leaf's number at its parent [TREE-5]
  Endpoint parent;     // also where results come from
};

struct InstalledSession {
  uint8_t job = 0;     // 1 to 255
  uint32_t epoch = 0;  // not 0
  int shards = 1;
  int slots = 0;  // of all shards together: a multiple of the shards
  size_t payload_bytes = 0;
  WorkerSet members;  // whose contributions complete a use: workers, or switches under the smallest rank beneath them
  std::optional<Uplink> uplink;  // none: this switch answers its members itself
  bool exact = false;
  uint64_t session_key = 0;  // of an exact session's checksums
};

}  // namespace switchml::softswitch
