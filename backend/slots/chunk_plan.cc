#include "slots/chunk_plan.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "base/limits.h"
#include "wire/packet.h"

namespace switchml {

namespace {

size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace

size_t elements_per_chunk(ElementType type, size_t payload_bytes, bool exact, ReduceOp op) {
  if (exact) return payload_bytes / payload_bytes_of_element(op, type);  // [ELANE-2, NSUM-4]
  return payload_bytes / kWordBytes / element_words(type);
}

size_t most_chunk_bytes(ElementType type, size_t payload_bytes, ReduceOp op) {
  const size_t results = std::max(payload_bytes, wire::kMostOfShortPayloads) / result_bytes(op, type);
  return std::min(payload_bytes / element_bytes(type), results) * payload_bytes_of_element(op, type);
}

size_t elements_per_span(ElementType type, size_t payload_bytes, bool exact, ReduceOp op) {
  const size_t chunk = elements_per_chunk(type, payload_bytes, exact, op);
  // [SHARD-3]
  return is_floating(type) && !exact ? std::lcm(chunk, ChunkPlan::block_elements_for(type, payload_bytes)) : chunk;
}

size_t ChunkPlan::block_elements_for(ElementType type, size_t payload_bytes) {
  const size_t most = element_bytes(type) == 2 ? kMaxNarrowBlockElements : kMaxBlockElements;
  return std::min(payload_bytes / kWordBytes, most);  // [CALL-4]
}

size_t ChunkPlan::superblock_blocks_for(ElementType type, size_t payload_bytes) {  // [CALL-5]
  const size_t words = payload_bytes / kWordBytes;
  // 2 * blocks + ceil(blocks / kBlocksPerFlag) words must fit one payload.
  const size_t fitting = words * kBlocksPerFlag / (2 * kBlocksPerFlag + 1);
  const size_t blocks_per_span = elements_per_span(type, payload_bytes) / block_elements_for(type, payload_bytes);
  return std::max<size_t>(1, std::min(fitting, kMaxSuperblockBlocks) / blocks_per_span) * blocks_per_span;
}

size_t ChunkPlan::superblock_elements_for(ElementType type, size_t payload_bytes) {
  return superblock_blocks_for(type, payload_bytes) * block_elements_for(type, payload_bytes);
}

ChunkPlan::ChunkPlan(ElementType type, bool with_exponents, ElementRange part, size_t payload_bytes, bool exact)
    : with_exponents_(with_exponents),
      part_(part),
      block_elements_(block_elements_for(type, payload_bytes)),
      words_per_element_(element_words(type)),
      elements_per_chunk_(switchml::elements_per_chunk(type, payload_bytes, exact)),
      superblock_elements_(with_exponents ? superblock_elements_for(type, payload_bytes)
                                          : std::max<size_t>(part.count, 1)),
      superblocks_(std::max<size_t>(1, divide_up(part.count, superblock_elements_))) {  // [CALL-1]
  SWITCHML_ASSERT(payload_bytes >= kMinPayloadBytes && payload_bytes <= kMaxPayloadBytes);
  SWITCHML_ASSERT(!(with_exponents && exact));
  SWITCHML_ASSERT(!with_exponents || superblock_elements_ % elements_per_span(type, payload_bytes) == 0);
}

ElementRange ChunkPlan::superblock(size_t g) const {
  const size_t begin = g * superblock_elements_;
  return {part_.begin + begin, std::min(superblock_elements_, part_.count - std::min(begin, part_.count))};
}

size_t ChunkPlan::blocks_of_superblock(size_t g) const { return divide_up(superblock(g).count, block_elements_); }

size_t ChunkPlan::flags_of_superblock(size_t g) const { return divide_up(blocks_of_superblock(g), kBlocksPerFlag); }

// [CALL-2, CALL-3]
size_t ChunkPlan::call_words(size_t g) const {
  return with_exponents_ ? 2 * blocks_of_superblock(g) + flags_of_superblock(g) : 0;
}

size_t ChunkPlan::chunks_of_superblock(size_t g) const { return divide_up(superblock(g).count, elements_per_chunk_); }

ElementRange ChunkPlan::chunk(size_t g, size_t c) const {
  const ElementRange range = superblock(g);
  const size_t begin = c * elements_per_chunk_;
  SWITCHML_ASSERT(begin < range.count);
  return {range.begin + begin, std::min(elements_per_chunk_, range.count - begin)};
}

size_t ChunkPlan::total_chunks() const {
  // Superblock sizes are whole chunks, so no chunk straddles a superblock.
  return superblocks_ + divide_up(part_.count, elements_per_chunk_);
}

ElementRange shard_part(size_t count, size_t elements_per_span, int shard, int shards) {  // [SHARD-2]
  const size_t spans = divide_up(count, elements_per_span);
  const size_t n = static_cast<size_t>(shards);
  const size_t s = static_cast<size_t>(shard);
  const size_t begin = std::min(count, spans * s / n * elements_per_span);
  const size_t end = std::min(count, spans * (s + 1) / n * elements_per_span);
  return {begin, end - begin};
}

}  // namespace switchml
