// The sum (or minimum, or maximum) of a chunk of every rank's tensor, from the elements themselves: what quantizing
// each, adding integers and dequantizing the sum would give, bit for bit, in one pass over memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"
#include "engine/engine.h"
#include "quant/kernels.h"

namespace switchml::shm {

/// How a chunk is reduced.
struct Reduction {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  float divisor = 1.0F;  // of sums of floats
};

/// A rank's chunk: its elements, and for sums of floats what each block of kMaxBlockElements of them contains.
struct ChunkFrame {
  uint8_t* elements = nullptr;
  quant::BlockRange* ranges = nullptr;
};
/// Ranges of a chunk of any type that has so many bytes.
constexpr size_t ranges_of(size_t chunk_bytes) { return chunk_bytes / 2 / kMaxBlockElements + 1; }

/// How frames and results are written: for readers that share a cache with the writer, or for those that do not. What
/// is written is the same, and there for others once the writer has said so by a release.
enum class Stores : uint32_t { kCached, kPastCaches };

/// Copies n elements into a frame. Precondition for all here: switch_can(op, type). Thread-safe.
void fill_frame(const Reduction& reduction, const void* from, size_t n, const ChunkFrame& frame,
                Stores stores = Stores::kCached);
/// `frames` of `ranks` ranks, n elements each, to `out`; all 64-byte aligned and apart. 1 <= ranks <= kMaxWorkers.
void reduce_chunk(const Reduction& reduction, const ChunkFrame* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores = Stores::kCached);

}  // namespace switchml::shm
