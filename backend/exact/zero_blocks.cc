#include "exact/zero_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/limits.h"

namespace switchml {

namespace {

using wire::Blocks;
using wire::BlockSet;

constexpr size_t kMaxElementBytes = 8;
alignas(64) constexpr std::array<uint8_t, Blocks::kElements * kMaxElementBytes> kZeros{};

bool is_worth(size_t packed_bytes, size_t bytes) { return packed_bytes <= bytes - bytes / 8; }

bool all_zero(const uint8_t* at, size_t bytes) {
  constexpr size_t kStep = 64;
  size_t i = 0;
  for (; i + kStep <= bytes; i += kStep) {
    std::array<uint64_t, kStep / sizeof(uint64_t)> words;
    std::memcpy(words.data(), at + i, kStep);
    uint64_t any = 0;
    for (const uint64_t word : words) any |= word;
    if (any != 0) return false;
  }
  uint8_t any = 0;
  for (; i < bytes; ++i) any |= at[i];
  return any == 0;
}

size_t bytes_of(const Blocks& blocks, size_t block, size_t element_bytes) {
  return (blocks.begin(block + 1) - blocks.begin(block)) * element_bytes;
}

// Some blocks all over the chunk tell dense data, which is to cost next to nothing: most chunks have it, or none do.
bool looks_dense(const uint8_t* elements, const Blocks& blocks, size_t element_bytes) {
  constexpr size_t kLooks = 4, kBytes = 64;
  const size_t count = blocks.count();
  for (size_t look = 0; look < kLooks; ++look) {
    const size_t block = look * count / kLooks;
    const size_t length = std::min(kBytes, bytes_of(blocks, block, element_bytes));
    if (all_zero(elements + blocks.begin(block) * element_bytes, length)) return false;
  }
  return true;
}

// ---- reductions ----

/// Which zeros stand for the blocks that are left out.
enum class Zeros : uint8_t {
  kNone,    // They change nothing.
  kOne,     // One block of them, however many are left out: -0 and +0 make +0.
  kOfEach,  // All of them: it is computed in the order of the ranks. [OP-5]
};

Zeros zeros_of(ReduceOp op) {
  if (op == ReduceOp::kProduct) return Zeros::kOfEach;
  return op == ReduceOp::kOr || op == ReduceOp::kXor ? Zeros::kNone : Zeros::kOne;
}

/// The chunks from one block on.
class Cursor {
 public:
  Cursor(const ElementReduction& reduction, const ChunkView* inputs, int ranks, const Blocks& blocks)
      : reduction_(reduction), inputs_(inputs), ranks_(static_cast<size_t>(ranks)), blocks_(blocks) {
    for (size_t rank = 0; rank < ranks_; ++rank) at_[rank] = inputs[rank].elements;
  }

  /// Reduces the next blocks that the same chunks have; returns the bytes of the result. Where no chunk has
  /// them that is zeros, which are written if `writes_zeros`.
  size_t reduce_run(bool writes_zeros, uint8_t* out) {
    const size_t end = end_of_run();
    const size_t elements = blocks_.begin(end) - blocks_.begin(block_);
    const size_t bytes = elements * element_bytes(reduction_.type);
    std::array<const uint8_t*, kMaxWorkers> sources;
    const size_t count = sources_of(&sources, bytes);
    block_ = end;
    if (count > 0) {
      reduce(reduction_, sources.data(), static_cast<int>(count), elements, out);
    } else if (writes_zeros) {
      std::memset(out, 0, bytes);
    }
    return count > 0 || writes_zeros ? bytes : 0;
  }
  bool at_end() const { return block_ == blocks_.count(); }

 private:
  bool has(size_t rank, size_t block) const {
    return inputs_[rank].packed == nullptr || inputs_[rank].packed->present.test(block);
  }
  // What needs zeros goes block by block: there are no more zeros in one piece.
  size_t end_of_run() const {
    size_t end = block_ + 1;
    bool any = false, all = true;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      any |= has(rank, block_);
      all &= has(rank, block_);
    }
    if (any && !all && zeros_of(reduction_.op) != Zeros::kNone) return end;
    const auto alike = [this](size_t block) {
      for (size_t rank = 0; rank < ranks_; ++rank) {
        if (has(rank, block) != has(rank, block_)) return false;
      }
      return true;
    };
    while (end < blocks_.count() && alike(end)) ++end;
    return end;
  }
  /// The memory of the run of `bytes` bytes, zeros as needed; none where no chunk has it.
  size_t sources_of(std::array<const uint8_t*, kMaxWorkers>* sources, size_t bytes) {
    const Zeros zeros = zeros_of(reduction_.op);
    size_t count = 0, present = 0;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      if (has(rank, block_)) {
        (*sources)[count++] = at_[rank];
        at_[rank] += bytes;
        ++present;
      } else if (zeros == Zeros::kOfEach) {
        (*sources)[count++] = kZeros.data();
      }
    }
    if (present == 0) return 0;
    if (present < ranks_ && zeros == Zeros::kOne) (*sources)[count++] = kZeros.data();
    return count;
  }

  const ElementReduction& reduction_;
  const ChunkView* inputs_;
  size_t ranks_;
  const Blocks& blocks_;
  size_t block_ = 0;
  std::array<const uint8_t*, kMaxWorkers> at_;  // Of each chunk: its next block that is there.
};

/// Which blocks any chunk has. Precondition: all are packed.
BlockSet union_of(const ChunkView* inputs, int ranks) {
  BlockSet present = inputs[0].packed->present;
  for (int rank = 1; rank < ranks; ++rank) present |= inputs[rank].packed->present;
  return present;
}

}  // namespace

Packed pack(const uint8_t* elements, const Blocks& blocks, size_t element_bytes, uint8_t* out) {
  if (looks_dense(elements, blocks, element_bytes)) return {};
  const size_t count = blocks.count(), bytes = blocks.elements * element_bytes;
  const size_t trailer = wire::trailer_bytes(blocks);
  BlockSet present;
  size_t packed = trailer, left_out = 0;
  for (size_t block = 0; block < count; ++block) {
    const size_t length = bytes_of(blocks, block, element_bytes);
    if (all_zero(elements + blocks.begin(block) * element_bytes, length)) {
      ++left_out;
      continue;
    }
    present.insert(block);
    packed += length;
    if (!is_worth(packed, bytes)) return {};
  }
  if (!is_worth(packed, bytes)) return {};
  for (size_t block = 0; block < count; ++block) {
    if (!present.test(block)) continue;
    const size_t length = bytes_of(blocks, block, element_bytes);
    std::memmove(out, elements + blocks.begin(block) * element_bytes, length);
    out += length;
  }
  wire::write_trailer(blocks, present, out);
  return {packed, left_out};
}

void ChunkView::copy(ElementRange part, size_t element_bytes, uint8_t* out) const {
  if (packed == nullptr) {
    std::memcpy(out, elements + part.begin * element_bytes, part.count * element_bytes);
    return;
  }
  const Blocks& blocks = packed->blocks;
  const size_t part_end = part.begin + part.count;
  const uint8_t* next = packed->elements;
  for (size_t block = 0; block < blocks.count() && blocks.begin(block) < part_end; ++block) {
    const bool is_present = packed->present.test(block);
    const size_t block_begin = blocks.begin(block), block_end = blocks.begin(block + 1);
    const size_t begin = std::max(part.begin, block_begin), end = std::min(part_end, block_end);
    if (begin < end) {
      uint8_t* const to = out + (begin - part.begin) * element_bytes;
      const size_t bytes = (end - begin) * element_bytes;
      if (is_present) {
        std::memcpy(to, next + (begin - block_begin) * element_bytes, bytes);
      } else {
        std::memset(to, 0, bytes);
      }
    }
    if (is_present) next += (block_end - block_begin) * element_bytes;
  }
}

Packed reduce(const ElementReduction& reduction, const ChunkView* inputs, int ranks, const Blocks& blocks,
              uint8_t* out) {
  const size_t size = element_bytes(reduction.type);
  const size_t bytes = blocks.elements * size;
  Packed packed;
  BlockSet present;
  const bool all_packed =
      std::all_of(inputs, inputs + ranks, [](const ChunkView& chunk) { return chunk.packed != nullptr; });
  if (all_packed) {
    present = union_of(inputs, ranks);
    packed.bytes = present.elements(blocks) * size + wire::trailer_bytes(blocks);
  }
  const bool packs = all_packed && is_worth(packed.bytes, bytes);
  for (Cursor cursor(reduction, inputs, ranks, blocks); !cursor.at_end();) out += cursor.reduce_run(!packs, out);
  if (!packs) return {};
  wire::write_trailer(blocks, present, out);
  return packed;
}

}  // namespace switchml
