// A chunk of every rank's tensor, into a frame and reduced out of the frames (quant/reduction.h), in the caches or past
// them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/reduction.h"

namespace switchml::shm {

using quant::Reduction;

/// How frames and results are written: for readers that share a cache with the writer, or for those that do not. What
/// is written is the same, and there for others once the writer has said so by a release.
enum class Stores : uint32_t { kCached, kPastCaches };

/// Copies so many bytes into a frame. Thread-safe, as is all here.
void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores = Stores::kCached);
/// quant::reduce() of frames to `out`; all 64-byte aligned and apart.
void reduce_chunk(const Reduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores = Stores::kCached);

}  // namespace switchml::shm
