// The blocks of a chunk of an exact session, and packed payloads, which leave out the blocks of zeros. [ZERO-1]
// A packed payload is the elements of the blocks that are there, then a trailer: which ones they are, and how the chunk
// is cut into blocks. So elements are packed where they lie, and begin as aligned as others.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/limits.h"

namespace switchml::wire {

/// How a chunk is cut into blocks: where those of its tensor begin. So the first one may be shorter, like the last.
struct Blocks {
  static constexpr size_t kElements = 256;
  size_t elements = 0;  // 1 or more
  size_t first = 0;     // In the first block: 1 to 256, and no more than `elements`.

  /// Those of the elements from `begin` on of a tensor. Precondition: count > 0.
  static Blocks of(size_t begin, size_t count) { return {count, std::min(count, kElements - begin % kElements)}; }
  size_t count() const { return 1 + (elements - first + kElements - 1) / kElements; }
  /// The first element of a block; that of block count() is `elements`.
  size_t begin(size_t block) const { return block == 0 ? 0 : std::min(elements, first + (block - 1) * kElements); }
  /// The block that has an element.
  size_t at(size_t element) const { return element < first ? 0 : 1 + (element - first) / kElements; }
};

/// A set of blocks of one chunk.
class BlockSet {
 public:
  bool test(size_t block) const { return (words_[block / 64] >> (block % 64) & 1U) != 0; }
  void insert(size_t block) { words_[block / 64] |= uint64_t{1} << (block % 64); }
  BlockSet& operator|=(const BlockSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  /// Elements in those of the blocks that are in the set.
  size_t elements(const Blocks& blocks) const;

 private:
  std::array<uint64_t, 4> words_{};
};
static_assert(kMaxPayloadBytes / Blocks::kElements + 2 <= 256 && kMaxPayloadBytes <= UINT16_MAX);

/// A packed payload, viewed in place.
struct PackedPayload {
  Blocks blocks;
  BlockSet present;
  const uint8_t* elements = nullptr;  // Those of the blocks that are present.
};

/// Bytes of the trailer.
size_t trailer_bytes(const Blocks& blocks);
/// Writes the trailer and returns its length.
size_t write_trailer(const Blocks& blocks, const BlockSet& present, uint8_t* out);
/// The payload of `bytes` bytes, with `element_bytes` for each element; none where it is not well-formed. A chunk of
/// more than kMaxPayloadBytes is not.
std::optional<PackedPayload> read_packed(const uint8_t* payload, size_t bytes, size_t element_bytes);
/// The payload that ends at `end`. Precondition: read_packed() has taken it.
PackedPayload packed_before(const uint8_t* end, size_t element_bytes);

}  // namespace switchml::wire
