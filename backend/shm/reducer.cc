#include "shm/reducer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"
#include "quant/nonfinite.h"

namespace switchml::shm {

namespace {

constexpr size_t kBlock = kMaxBlockElements;

/// The same block of every rank.
struct Block {
  std::array<const void*, kMaxWorkers> sources;
  size_t ranks;
  size_t elements;
};

Block block_at(const ChunkFrame* frames, int ranks, size_t first_byte, size_t elements) {
  Block block;
  block.ranks = static_cast<size_t>(ranks);
  block.elements = elements;
  for (size_t rank = 0; rank < block.ranks; ++rank) block.sources[rank] = frames[rank].elements + first_byte;
  return block;
}

bool sums_floats(const Reduction& reduction) { return reduction.op == ReduceOp::kSum && is_floating(reduction.type); }

// ---- sums of floats ----

void write_nonfinite(const Block& block, ElementType type, uint8_t* out) {
  const quant::Kernels& kernels = quant::kernels();
  const auto row = static_cast<size_t>(quant::float_row(type));
  std::array<uint8_t, kBlock * kWordBytes> words;
  alignas(64) std::array<int32_t, kBlock> counts{};
  for (size_t rank = 0; rank < block.ranks; ++rank) {
    kernels.classify[row](block.sources[rank], words.data(), block.elements);
    kernels.add(counts.data(), words.data(), block.elements);
  }
  std::array<uint8_t, kBlock> specials;
  for (size_t i = 0; i < block.elements; ++i) {
    specials[i] = static_cast<uint8_t>(quant::special_of(static_cast<uint32_t>(counts[i])));
  }
  quant::write_specials(type, out, specials.data(), block.elements);
}

void sum_floats(const Reduction& reduction, const Block& block, int bits, const ChunkFrame* frames, size_t number,
                uint8_t* out) {
  const quant::Kernels& kernels = quant::kernels();
  const auto row = static_cast<size_t>(quant::float_row(reduction.type));
  quant::BlockRange all;
  for (size_t rank = 0; rank < block.ranks; ++rank) {
    const quant::BlockRange one = frames[rank].ranges[number];
    all.max_exponent = std::max(all.max_exponent, one.max_exponent);
    all.has_nonfinite = all.has_nonfinite || one.has_nonfinite;
  }
  kernels.sum[row](block.sources.data(), block.ranks, out, block.elements,
                   quant::quantize_scale(all.max_exponent, bits), quant::dequantize_scale(all.max_exponent, bits),
                   reduction.divisor);
  if (all.has_nonfinite) write_nonfinite(block, reduction.type, out);
}

// ---- everything else ----

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

void copy_blocks(const Reduction& reduction, const uint8_t* from, size_t n, uint8_t* to, quant::BlockRange* ranges) {
  const auto copy = quant::kernels().copy[static_cast<size_t>(quant::float_row(reduction.type))];
  const size_t size = element_bytes(reduction.type);
  for (size_t first = 0; first < n; first += kBlock) {
    ranges[first / kBlock] = copy(from + first * size, to + first * size, std::min(kBlock, n - first));
  }
}

/// Elements begin ... end of all, of which the first is a block's first, to `to`.
void reduce_blocks(const Reduction& reduction, const ChunkFrame* frames, int ranks, size_t begin, size_t end,
                   uint8_t* to) {
  const size_t size = element_bytes(reduction.type);
  const int bits = quant::magnitude_bits(ranks);
  for (size_t first = begin; first < end; first += kBlock) {
    const Block block = block_at(frames, ranks, first * size, std::min(kBlock, end - first));
    uint8_t* out = to + (first - begin) * size;
    if (sums_floats(reduction)) {
      sum_floats(reduction, block, bits, frames, first / kBlock, out);
    } else if (reduction.type == ElementType::kInt64) {
      sum_int64(block, out);
    } else {
      reduce_words(reduction, block, out);
    }
  }
}

}  // namespace

void fill_frame(const Reduction& reduction, const void* from, size_t n, const ChunkFrame& frame, Stores stores) {
  const size_t size = element_bytes(reduction.type);
  const auto* bytes = static_cast<const uint8_t*>(from);
  if (n == 0) return;
  if (!sums_floats(reduction)) {
    if (stores == Stores::kPastCaches) return quant::kernels().stream(bytes, frame.elements, n * size);
    std::memcpy(frame.elements, bytes, n * size);
    return;
  }
  if (stores == Stores::kCached) return copy_blocks(reduction, bytes, n, frame.elements, frame.ranges);
  alignas(64) Staged staged;
  const size_t most = staged.size() / size;
  for (size_t first = 0; first < n; first += most) {
    const size_t elements = std::min(most, n - first);
    copy_blocks(reduction, bytes + first * size, elements, staged.data(), frame.ranges + first / kBlock);
    quant::kernels().stream(staged.data(), frame.elements + first * size, elements * size);
  }
}

void reduce_chunk(const Reduction& reduction, const ChunkFrame* frames, int ranks, size_t n, uint8_t* out,
                  Stores stores) {
  SWITCHML_ASSERT(ranks >= 1 && ranks <= kMaxWorkers && switch_can(reduction.op, reduction.type));
  if (stores == Stores::kCached) return reduce_blocks(reduction, frames, ranks, 0, n, out);
  const size_t size = element_bytes(reduction.type);
  alignas(64) Staged staged;
  const size_t most = staged.size() / size;
  for (size_t first = 0; first < n; first += most) {
    const size_t end = std::min(n, first + most);
    reduce_blocks(reduction, frames, ranks, first, end, staged.data());
    quant::kernels().stream(staged.data(), out + first * size, (end - first) * size);
  }
}

}  // namespace switchml::shm
