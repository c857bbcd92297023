#include "shm/reducer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "quant/kernels.h"

namespace switchml::shm {

namespace {

constexpr size_t kBlock = kMaxBlockElements;

/// The same elements of every rank.
struct Block {
  std::array<const void*, kMaxWorkers> sources;
  size_t ranks;
  size_t elements;
};

Block block_at(const uint8_t* const* frames, int ranks, size_t first_byte, size_t elements) {
  Block block;
  block.ranks = static_cast<size_t>(ranks);
  block.elements = elements;
  for (size_t rank = 0; rank < block.ranks; ++rank) block.sources[rank] = frames[rank] + first_byte;
  return block;
}

bool sums_floats(const Reduction& reduction) { return reduction.op == ReduceOp::kSum && is_floating(reduction.type); }

void sum_int64(const Block& block, uint8_t* out) {
  std::array<uint64_t, kBlock> sums{};
  for (size_t rank = 0; rank < block.ranks; ++rank) {
    const auto* from = static_cast<const uint8_t*>(block.sources[rank]);
    for (size_t i = 0; i < block.elements; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      sums[i] += value;
    }
  }
  std::memcpy(out, sums.data(), block.elements * sizeof(uint64_t));
}

/// By way of words, one per element: minima, maxima, and sums of integers.
void reduce_words(const Reduction& reduction, const Block& block, uint8_t* out) {
  const quant::Kernels& kernels = quant::kernels();
  const bool minimum = reduction.op == ReduceOp::kMin;
  const bool floats = is_floating(reduction.type);
  const auto row = static_cast<size_t>(floats ? quant::float_row(reduction.type) : quant::integer_row(reduction.type));
  const auto encode = floats ? kernels.order[row] : kernels.widen[row];
  const auto decode = floats ? kernels.unorder[row] : kernels.narrow[row];
  std::array<uint8_t, kBlock * kWordBytes> words;
  alignas(64) std::array<int32_t, kBlock> total;
  for (size_t rank = 0; rank < block.ranks; ++rank) {
    encode(block.sources[rank], words.data(), block.elements, minimum);
    const auto combine = rank == 0 ? kernels.store : reduction.op == ReduceOp::kSum ? kernels.add : kernels.max;
    combine(total.data(), words.data(), block.elements);
  }
  kernels.load(total.data(), words.data(), block.elements);
  decode(words.data(), out, block.elements, minimum);
}

/// What goes past the caches is made here first, in the first cache, and then written by whole lines. Of any type a
/// whole number of blocks.
constexpr size_t kStagedBytes = 16 * 1024;
using Staged = std::array<uint8_t, kStagedBytes>;

/// Elements begin ... end of all, to `to`.
void reduce_elements(const Reduction& reduction, const uint8_t* const* frames, int ranks, size_t begin, size_t end,
                     uint8_t* to) {
  const size_t size = element_bytes(reduction.type);
  if (sums_floats(reduction)) {
    const Block all = block_at(frames, ranks, begin * size, end - begin);
    const auto row = static_cast<size_t>(quant::float_row(reduction.type));
    return quant::kernels().exact_sum[row](all.sources.data(), all.ranks, to, all.elements, reduction.divisor);
  }
  for (size_t first = begin; first < end; first += kBlock) {
    const Block block = block_at(frames, ranks, first * size, std::min(kBlock, end - first));
    uint8_t* out = to + (first - begin) * size;
    if (reduction.type == ElementType::kInt64) {
      sum_int64(block, out);
    } else {
      reduce_words(reduction, block, out);
    }
  }
}

}  // namespace

void fill_frame(const void* from, size_t bytes, uint8_t* frame, Stores stores) {
  if (bytes == 0) return;
  if (stores == Stores::kPastCaches) return quant::kernels().stream(from, frame, bytes);
  std::memcpy(frame, from, bytes);
}

void reduce_chunk(const Reduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores) {
  SWITCHML_ASSERT(ranks >= 1 && ranks <= kMaxWorkers && switch_can(reduction.op, reduction.type));
  if (stores == Stores::kCached) return reduce_elements(reduction, frames, ranks, 0, n, out);
  const size_t size = element_bytes(reduction.type);
  alignas(64) Staged staged;
  const size_t most = staged.size() / size;
  for (size_t first = 0; first < n; first += most) {
    const size_t end = std::min(n, first + most);
    reduce_elements(reduction, frames, ranks, first, end, staged.data());
    quant::kernels().stream(staged.data(), out + first * size, (end - first) * size);
  }
}

}  // namespace switchml::shm
