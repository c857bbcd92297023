// An engine over memory, as its switch, that all ranks of a host share. Where the group has several hosts, the ranks of
// each speak to a switch as one worker.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "messages/messages.h"
#include "shm/arena.h"
#include "shm/board.h"
#include "shm/host_map.h"
#include "shm/local_rank.h"
#include "shm/segment.h"

namespace switchml::shm {

struct MemoryEngineOptions {
  std::shared_ptr<const Segment> segment;  // holds a board of this shape, and what is behind it
  BoardShape shape;
  int rank = 0;  // among those of the board
  /// Told once when the engine gives up (timeout, mismatch, a rank that left), from its thread.
  std::function<void(const Status&)> on_failure;
  /// This rank's in the segment, or null; not with owners.
  std::shared_ptr<Arena> arena = nullptr;
  /// This rank's, or null: they fail with the engine, and the engine with them. The engine closes them.
  std::shared_ptr<Messages> messages = nullptr;
  Duration spin{};  // EngineOptions::spin
  SlowWarning slow{};
};

/// How the ranks of a host reach the others.
struct HostUplinkOptions {
  EngineOptions engine;  // options of the session of hosts; its callbacks and first_shard are overwritten
  std::vector<std::unique_ptr<Transport>> transports;  // owners of chunks: one for each session, joined as shard number
                                                       // `rank`; else none
  std::optional<HostMap> host_map;                     // always
};

/// Starts its thread. `uplink`: for a board with owners.
std::unique_ptr<Engine> start_memory_engine(const MemoryEngineOptions& options, HostUplinkOptions uplink = {});

}  // namespace switchml::shm
