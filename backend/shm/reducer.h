// A chunk of every rank's tensor, into a frame and reduced out of the frames (exact/reduction.h), in the caches or past
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exact/reduction.h"

namespace switchml::shm {

/// How frames and results are written: for readers that share a cache with the writer, or for those that do not. What
/// is written is the same, and there for others once the writer has said so by a release.
enum class Stores : uint32_t { kCached, kNonTemporal };

/// Where elements [begin, end) of a result go. Without initialisers: of each chunk there is room for every rank's.
struct Target {
  uint8_t* to;
  size_t begin;
  size_t end;
  Stores stores;
};

/// Copies so many bytes into a frame. Thread-safe, as is all here.
void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores);
/// reduce() of elements [first, end) of each rank to each of `targets`; one of these may be where a rank's elements
/// are.
void reduce_chunk(const ElementReduction& reduction, const uint8_t* const* inputs, int ranks, size_t first, size_t end,
                  const Target* targets, size_t count);

}  // namespace switchml::shm
