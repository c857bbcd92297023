#include "slots/chunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/limits.h"

namespace switchml {
namespace {

const std::vector<size_t> kPayloads = {256, 512, 1024, 1152, 1280, 1408, 1920, 2048, 8192, 32768, 63 * 1024};

std::vector<size_t> counts(size_t payload) {
  const size_t words = payload / 4;
  const size_t superblock = ChunkPlan::superblock_elements_for(ElementType::kFloat32, payload);
  return {0,
          1,
          63,
          64,
          65,
          255,
          256,
          257,
          words - 1,
          words,
          words + 1,
          superblock - 1,
          superblock,
          superblock + 1,
          5 * superblock + 77};
}

// Every element is in exactly one chunk, in order; no chunk is larger than a payload; chunks stay inside their
// superblock.
TEST(ChunkPlan, ChunksPartitionTheTensor) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kInt64, ElementType::kInt8}) {
    for (const size_t payload : kPayloads) {
      for (const size_t count : counts(payload)) {
        const ChunkPlan plan(type, type == ElementType::kFloat32, {1000, count}, payload);
        size_t next = 1000;
        size_t chunks = plan.superblocks();
        for (size_t g = 0; g < plan.superblocks(); ++g) {
          ASSERT_EQ(plan.superblock(g).begin, next);
          for (size_t c = 0; c < plan.chunks_of_superblock(g); ++c, ++chunks) {
            const ElementRange range = plan.chunk(g, c);
            ASSERT_EQ(range.begin, next);
            ASSERT_GT(range.count, 0U);
            ASSERT_LE(range.count * plan.words_per_element() * 4, payload);
            next += range.count;
          }
          ASSERT_EQ(next, plan.superblock(g).begin + plan.superblock(g).count);
        }
        ASSERT_EQ(next, 1000 + count) << payload;
        ASSERT_EQ(chunks, plan.total_chunks());
      }
    }
  }
}

TEST(ChunkPlan, ExponentsOfAGroupFitOnePayload) {  // [CALL-2, CALL-5]
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const size_t payload : kPayloads) {
      for (const size_t count : counts(payload)) {
        const ChunkPlan plan(type, true, {0, count}, payload);
        for (size_t g = 0; g < plan.superblocks(); ++g) {
          ASSERT_LE(plan.call_words(g) * 4, payload);
          ASSERT_LE(plan.blocks_of_superblock(g), ChunkPlan::superblock_blocks_for(type, payload));
          ASSERT_GE(plan.flags_of_superblock(g) * kBlocksPerFlag, plan.blocks_of_superblock(g));
        }
      }
      ASSERT_LE(ChunkPlan::superblock_blocks_for(type, payload), kMaxSuperblockBlocks);
    }
  }
}

// From 1 KiB of payload on they are the same whatever the payload: so are the bits. Superblocks have whole ones, in
// whole chunks.
TEST(ChunkPlan, BlocksDependOnTheTensorAlone) {  // [CALL-4, CALL-5]
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    const size_t most = type == ElementType::kFloat32 ? 256 : 64;
    for (const size_t payload : kPayloads) {
      const ChunkPlan plan(type, true, {0, 1 << 20}, payload);
      EXPECT_EQ(plan.block_elements(), std::min(most, payload / 4));
      const size_t elements = ChunkPlan::superblock_elements_for(type, payload);
      EXPECT_EQ(elements, plan.superblock(0).count);
      EXPECT_EQ(elements % plan.block_elements(), 0U);
      EXPECT_EQ(elements % plan.elements_per_chunk(), 0U);
      EXPECT_EQ(elements % elements_per_span(type, payload), 0U);
    }
    EXPECT_EQ(ChunkPlan::superblock_blocks_for(type, 1024), 124U);
    EXPECT_EQ(ChunkPlan::superblock_blocks_for(type, 1408), 165U);  // of 170 that would fit, 15 spans
  }
}

TEST(ChunkPlan, ASpanIsTheFewestChunksWithWholeBlocks) {  // [SHARD-3]
  EXPECT_EQ(elements_per_span(ElementType::kFloat32, 256), 64U);
  EXPECT_EQ(elements_per_span(ElementType::kFloat32, 1024), 256U);
  EXPECT_EQ(elements_per_span(ElementType::kFloat32, 1408), 2816U);  // 8 chunks, 11 blocks
  EXPECT_EQ(elements_per_span(ElementType::kFloat32, 1280), 1280U);
  EXPECT_EQ(elements_per_span(ElementType::kBFloat16, 1280), 320U);
  EXPECT_EQ(elements_per_span(ElementType::kBFloat16, 1408), 704U);  // 2 chunks, 11 blocks
  EXPECT_EQ(elements_per_span(ElementType::kInt32, 1408), 352U);
  EXPECT_EQ(elements_per_span(ElementType::kInt64, 1408), 117U);
  EXPECT_EQ(elements_per_span(ElementType::kFloat32, 63 * 1024), 63U * 256U);
}

TEST(ChunkPlan, WithoutExponentsThereIsOneEmptyCallChunk) {  // [CALL-3]
  const ChunkPlan plan(ElementType::kInt32, false, {0, 1000000}, 1024);
  EXPECT_EQ(plan.superblocks(), 1U);
  EXPECT_EQ(plan.call_words(0), 0U);
  EXPECT_EQ(plan.chunks_of_superblock(0), (1000000U + 255) / 256);
}

TEST(ChunkPlan, AnEmptyTensorStillAnnouncesItself) {
  const ChunkPlan plan(ElementType::kFloat32, false, {0, 0}, 1024);
  EXPECT_EQ(plan.superblocks(), 1U);
  EXPECT_EQ(plan.chunks_of_superblock(0), 0U);
}

TEST(ChunkPlan, IndicesBeyond32BitsAreExact) {
  const size_t count = (size_t{1} << 33) + 5;
  const ChunkPlan plan(ElementType::kInt8, false, {0, count}, 1024);
  const size_t last = plan.chunks_of_superblock(0) - 1;
  EXPECT_EQ(plan.chunk(0, last).begin + plan.chunk(0, last).count, count);
}

// ---- exact ----

TEST(ExactChunkPlan, AChunkIsAPayloadOfElements) {  // [ELANE-2]
  EXPECT_EQ(elements_per_chunk(ElementType::kInt8, 1408, true), 1408U);
  EXPECT_EQ(elements_per_chunk(ElementType::kBFloat16, 1408, true), 704U);
  EXPECT_EQ(elements_per_chunk(ElementType::kFloat32, 1408, true), 352U);
  EXPECT_EQ(elements_per_chunk(ElementType::kInt64, 1408, true), 176U);
  EXPECT_EQ(elements_per_chunk(ElementType::kFloat64, 256, true), 32U);
  for (int type = 0; type < kElementTypes; ++type) {  // there are no blocks
    const auto element = static_cast<ElementType>(type);
    for (const size_t payload : kPayloads) {
      EXPECT_EQ(elements_per_span(element, payload, true), elements_per_chunk(element, payload, true));
    }
  }
}

TEST(ExactChunkPlan, AResultOfAChunkFitsThePayloadToo) {  // [NSUM-4]
  const auto elements = [](ElementType type, size_t payload) {
    return elements_per_chunk(type, payload, true, ReduceOp::kSumToFloat32);
  };
  EXPECT_EQ(elements(ElementType::kBFloat16, 1408), 352U);
  EXPECT_EQ(elements(ElementType::kFloat8E4M3, 1408), 352U);
  EXPECT_EQ(elements(ElementType::kScaledInt8, 1408), 5U);
  EXPECT_EQ(elements(ElementType::kScaledFloat8, kMinPayloadBytes), 1U);
}

TEST(ExactChunkPlan, OfResultsThatStayOnTheirHostTheTermsFillAPacket) {  // [NSUM-4]
  const auto elements = [](ElementType type, size_t payload) {
    const size_t bytes = most_chunk_bytes(type, payload, ReduceOp::kSumToFloat32);
    return elements_per_chunk(type, bytes, true, ReduceOp::kSumToFloat32);
  };
  EXPECT_EQ(elements(ElementType::kBFloat16, 1408), 704U);
  EXPECT_EQ(elements(ElementType::kFloat8E4M3, 1408), 1408U);
  EXPECT_EQ(elements(ElementType::kScaledInt8, 1408), 21U);
  EXPECT_EQ(elements(ElementType::kScaledFloat8, kMinPayloadBytes), 3U);
  EXPECT_EQ(elements(ElementType::kFloat8E5M2, 4096), 2048U) << "of results there are no more than 8192 bytes";
  EXPECT_EQ(elements(ElementType::kBFloat16, kMaxPayloadBytes), kMaxPayloadBytes / 4);
}

TEST(ExactChunkPlan, ChunksPartitionTheTensorAndAllButTheLastAreFull) {
  for (int type = 0; type < kElementTypes; ++type) {
    const auto element = static_cast<ElementType>(type);
    for (const size_t payload : kPayloads) {
      const size_t full = elements_per_chunk(element, payload, true);
      for (const size_t count : {size_t{0}, size_t{1}, full - 1, full, full + 1, 7 * full + 3}) {
        const ChunkPlan plan(element, false, {1000, count}, payload, true);
        ASSERT_EQ(plan.superblocks(), 1U);
        ASSERT_EQ(plan.chunks_of_superblock(0), (count + full - 1) / full);
        size_t next = 1000;
        for (size_t c = 0; c < plan.chunks_of_superblock(0); ++c) {
          const ElementRange range = plan.chunk(0, c);
          ASSERT_EQ(range.begin, next);
          ASSERT_TRUE(range.count == full || c + 1 == plan.chunks_of_superblock(0));
          ASSERT_LE(range.count * element_bytes(element), payload);
          next += range.count;
        }
        ASSERT_EQ(next, 1000 + count);
      }
    }
  }
}

TEST(ShardPart, ShardsPartitionTheTensorAtChunkBoundaries) {  // [SHARD-2]
  for (const size_t count : {size_t{0}, size_t{1}, size_t{256}, size_t{257}, size_t{10000}, (size_t{1} << 33) + 3}) {
    for (int shards = 1; shards <= kMaxShards; ++shards) {
      size_t next = 0;
      for (int s = 0; s < shards; ++s) {
        const ElementRange part = shard_part(count, 256, s, shards);
        ASSERT_EQ(part.begin, next);
        ASSERT_TRUE(part.begin % 256 == 0 || part.count == 0);
        next += part.count;
      }
      ASSERT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace switchml
