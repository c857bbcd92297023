// An engine whose switch is memory that all ranks of a group share: they are on one host.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "shm/board.h"
#include "shm/segment.h"

namespace switchml::shm {

struct MemoryEngineOptions {
  std::shared_ptr<const Segment> segment;  // holds one board, of this shape
  BoardShape shape;
  int rank = 0;
  /// Told once when the engine gives up (timeout, mismatch, a rank that left), from its thread.
  std::function<void(const Status&)> on_failure;
};

/// Starts its thread. There is no switch that could be lost: suspend() and what follows it must not be called.
std::unique_ptr<Engine> start_memory_engine(const MemoryEngineOptions& options);

}  // namespace switchml::shm
