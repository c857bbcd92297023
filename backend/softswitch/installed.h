// A session that a controller installs in a switch: grants, joins and the end are decided elsewhere. It has one switch,
// or a tree of switches (docs/protocol.md, Trees).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "slots/worker_set.h"
#include "socket/endpoint.h"

namespace switchml::softswitch {

/// The parent to which a leaf sends its aggregates.
struct Uplink {
  uint8_t worker = 0;  // The leaf's number at its parent. [TREE-5]
  Endpoint parent;     // Results come from there.
};

struct InstalledSession {
  uint8_t job = 0;     // 1 to 255.
  uint32_t epoch = 0;  // Not 0.
  int shards = 1;
  int slots = 0;  // All shards' together: a multiple of the shards.
  size_t payload_bytes = 0;
  WorkerSet members;  // Workers, or switches under the smallest rank beneath them. All must contribute to a use.
  std::optional<Uplink> uplink;  // None: this switch answers its members itself.
  bool exact = false;
  uint64_t session_key = 0;  // Key of an exact session's checksums.
};

}  // namespace switchml::softswitch
