// Cuts a tensor into chunks: pure arithmetic. A chunk is what one packet carries. Block and chunk boundaries are
// a function of the element type, the count and the session's payload alone, never of timing or path, so that every
// rank, run and data plane quantizes the same blocks. A block may lie in two chunks; but a *span*, the fewest chunks in
// a row that hold whole blocks, may not: superblocks, and the parts of shards, are made of spans.
//
// Sums of floats go in superblocks. A superblock is up to kMaxSuperblockBlocks blocks; the exponents of all its blocks
// travel in one chunk of the call lane, ahead of its data [CALL-5, CALL-6]. They decide how wide its elements are, and
// so which chunks of data it has (integer/width.h); those of this plan, of a word for each element, carry the counts of
// its non-finite elements. Everything else has one superblock that
// covers the whole tensor, and a call chunk without words [CALL-3]. So has everything in an exact session. Its chunks
// hold elements and not words: there are neither blocks nor calls ahead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"
#include "base/reduce_op.h"

namespace switchml {

/// Elements [begin, begin + count) of a collective.
struct ElementRange {
  size_t begin = 0;
  size_t count = 0;
};

class ChunkPlan {
 public:
  /// `payload_bytes` as granted; `with_exponents`: a sum of floats, as integers. `part` is this shard's range of the
  /// tensor. `exact`: chunks of elements; never together with exponents.
  ChunkPlan(ElementType type, bool with_exponents, ElementRange part, size_t payload_bytes, bool exact = false);

  /// Chunks that are sent in the call lane: one per superblock, at least one.
  size_t superblocks() const { return superblocks_; }
  bool with_exponents() const { return with_exponents_; }
  size_t block_elements() const { return block_elements_; }
  size_t elements_per_chunk() const { return elements_per_chunk_; }
  size_t words_per_element() const { return words_per_element_; }

  ElementRange superblock(size_t g) const;
  size_t blocks_of_superblock(size_t g) const;
  size_t flags_of_superblock(size_t g) const;
  /// Words of superblock g's call chunk: two for each block, and flags; or 0.
  size_t call_words(size_t g) const;

  size_t chunks_of_superblock(size_t g) const;
  /// Chunk c of superblock g, 0 <= c < chunks_of_superblock(g).
  ElementRange chunk(size_t g, size_t c) const;
  size_t total_chunks() const;

  /// Blocks and elements of a whole superblock of a sum of floats, and elements of a block.
  static size_t superblock_blocks_for(ElementType type, size_t payload_bytes);
  static size_t superblock_elements_for(ElementType type, size_t payload_bytes);
  static size_t block_elements_for(ElementType type, size_t payload_bytes);

 private:
  bool with_exponents_;
  ElementRange part_;
  size_t block_elements_;
  size_t words_per_element_;
  size_t elements_per_chunk_;
  size_t superblock_elements_;
  size_t superblocks_;
};

/// Shard `shard` of `shards` takes this part of a tensor of `count` elements: whole spans, spread evenly.
ElementRange shard_part(size_t count, size_t elements_per_span, int shard, int shards);

/// Bytes of terms, or of results where these are longer, in the longest chunk if its result does not travel. [NSUM-4]
size_t most_chunk_bytes(ElementType type, size_t payload_bytes, ReduceOp op);
/// Elements that one chunk carries. `op`, of an exact one: contribution and result both fit the payload.
size_t elements_per_chunk(ElementType type, size_t payload_bytes, bool exact = false, ReduceOp op = ReduceOp::kSum);
/// Elements of a span: of one chunk, where no blocks are needed or none would lie in two.
size_t elements_per_span(ElementType type, size_t payload_bytes, bool exact = false, ReduceOp op = ReduceOp::kSum);

}  // namespace switchml
