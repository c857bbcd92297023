// Zero blocks: what is made of chunks of which blocks are left out because all their bits are zero. A block with a -0
// or a NaN is not. Results have the very bits that they have where nothing is left out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exact/reduction.h"
#include "slots/chunk_plan.h"
#include "wire/blocks.h"

namespace switchml {

/// The payload that a chunk was packed into.
struct Packed {
  size_t bytes = 0;     // 0: it is not worth it.
  size_t left_out = 0;  // Blocks.
};

/// Packs a chunk without its blocks of zeros into `out`, if that saves an eighth of its bytes; else leaves `out` as it
/// is. `out` has room for the chunk, and may be where it lies. It looks at a block up to its first other element, and
/// at four blocks of a chunk before any: where each of them begins with one, the chunk is taken for dense.
Packed pack(const uint8_t* elements, const wire::Blocks& blocks, size_t element_bytes, uint8_t* out);

/// The elements of a chunk, all of them or packed.
struct ChunkView {
  const uint8_t* elements = nullptr;
  const wire::PackedPayload* packed = nullptr;  // Null: all elements are there.

  /// Copies elements `part` of the chunk, which have `element_bytes` each, zeros included.
  void copy(ElementRange part, size_t element_bytes, uint8_t* out) const;
};

/// As reduce(), of chunks of which blocks may be left out. `out` gets them all, or is packed; it has room for them all.
/// The result is packed if no chunk has a block, and that saves an eighth. Precondition: packed chunks are cut as
/// `blocks` says.
Packed reduce(const ElementReduction& reduction, const ChunkView* inputs, int ranks, const wire::Blocks& blocks,
              uint8_t* out);

}  // namespace switchml
