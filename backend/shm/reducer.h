// The sum (or minimum, or maximum) of a chunk of every rank's tensor, from the elements themselves, in one pass over
// memory. A sum of floats is the exact sum, rounded once (quant/exact_sum.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"
#include "engine/engine.h"

namespace switchml::shm {

/// How a chunk is reduced.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  uint32_t divisor = 1;  // of sums of floats; 1 ... kMaxWorkers
};

/// How frames and results are written: for readers that share a cache with the writer, or for those that do not. What
/// is written is the same, and there for others once the writer has said so by a release.
enum class Stores : uint32_t { kCached, kPastCaches };

/// Copies so many bytes into a frame. Thread-safe, as is all here.
void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores = Stores::kCached);
/// `frames` of `ranks` ranks, n elements each, to `out`; all 64-byte aligned and apart. 1 <= ranks <= kMaxWorkers.
/// Precondition: memory_can(op, type). A product of floats is computed in float64, in the order of the ranks, and
/// rounded once; integers wrap around.
void reduce_chunk(const Reduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores = Stores::kCached);

}  // namespace switchml::shm
