#include "exact/zero_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;
using wire::Blocks;

/// A chunk and what it is packed into; `packed` is empty where that is not worth it.
struct Chunk {
  Chunk(Bytes elements, const Blocks& blocks, size_t element_bytes) : whole(std::move(elements)), packed(whole.size()) {
    made = pack(whole.data(), blocks, element_bytes, packed.data());
    packed.resize(made.bytes);
    if (made.bytes == 0) return;
    const auto seen = wire::read_packed(packed.data(), packed.size(), element_bytes);
    EXPECT_TRUE(seen.has_value());
    if (seen) payload = *seen;
  }
  ChunkView view() const { return made.bytes > 0 ? ChunkView{payload.elements, &payload} : ChunkView{whole.data()}; }

  Bytes whole, packed;
  Packed made;
  wire::PackedPayload payload;
};

/// Bytes of which each block is zero with this chance.
Bytes sparse(const Blocks& blocks, size_t element_bytes, double zeros, std::mt19937_64& random) {
  Bytes bytes(blocks.elements * element_bytes);
  for (size_t block = 0; block < blocks.count(); ++block) {
    if (std::uniform_real_distribution<>()(random) < zeros) continue;
    for (size_t i = blocks.begin(block) * element_bytes; i < blocks.begin(block + 1) * element_bytes; ++i) {
      bytes[i] = static_cast<uint8_t>(random());
    }
  }
  return bytes;
}

Bytes copied(const ChunkView& view, ElementRange part, size_t element_bytes) {
  Bytes out(part.count * element_bytes, 0xee);
  view.copy(part, element_bytes, out.data());
  return out;
}

TEST(ZeroBlocks, AreLeftOutAndComeBack) {
  std::mt19937_64 random(1);
  for (const size_t size : {1, 2, 4, 8}) {
    for (const Blocks blocks : {Blocks{256, 256}, Blocks{1000, 3}, Blocks{2000, 256}, Blocks{4099, 77}}) {
      const Chunk chunk(sparse(blocks, size, 0.6, random), blocks, size);
      for (const size_t begin : {size_t{0}, size_t{1}, blocks.elements / 2}) {
        for (const size_t count : {size_t{0}, size_t{1}, (blocks.elements - begin) / 2, blocks.elements - begin}) {
          const auto from = chunk.whole.begin() + static_cast<long>(begin * size);
          EXPECT_EQ(copied(chunk.view(), {begin, count}, size), Bytes(from, from + static_cast<long>(count * size)));
        }
      }
    }
  }
}

TEST(ZeroBlocks, ArePackedWhereTheyLie) {
  std::mt19937_64 random(2);
  const Blocks blocks{3000, 9};
  Bytes elements = sparse(blocks, 4, 0.5, random);
  const Chunk apart(elements, blocks, 4);
  ASSERT_GT(apart.made.bytes, 0U);
  const Packed made = pack(elements.data(), blocks, 4, elements.data());
  elements.resize(made.bytes);
  EXPECT_EQ(elements, apart.packed);
}

TEST(ZeroBlocks, WithMinusZeroOrOneBitAreNone) {
  const Blocks blocks{512, 256};
  for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{1000}, size_t{1023}}) {
    Bytes elements(2048);
    elements[at] = 1;
    EXPECT_EQ(Chunk(elements, blocks, 4).made.left_out, 1U) << at;
  }
  std::vector<float> floats(512);
  floats[300] = -0.0F;
  Bytes elements(2048);
  std::memcpy(elements.data(), floats.data(), elements.size());
  EXPECT_EQ(Chunk(elements, blocks, 4).made.left_out, 1U);
}

TEST(ZeroBlocks, AreLeftOutFromAnEighthOn) {  // [ZERO-7]
  const auto made = [](size_t zeros, long from = 0) {
    const Blocks blocks{16 * 256, 256};
    Bytes elements(blocks.elements * 4, 1);
    std::fill_n(elements.begin() + from * 1024, zeros * 1024, uint8_t{0});
    const Bytes before = elements;
    const Packed packed = pack(elements.data(), blocks, 4, elements.data());
    EXPECT_TRUE(packed.bytes > 0 || elements == before);
    return packed;
  };
  EXPECT_EQ(made(0).bytes, 0U);
  EXPECT_EQ(made(2).bytes, 0U) << "an eighth, less the trailer";
  EXPECT_EQ(made(3).bytes, 13U * 1024 + 2 + 4);
  EXPECT_EQ(made(3).left_out, 3U);
  EXPECT_EQ(made(3, 3).left_out, 3U);
  EXPECT_EQ(made(3, 1).left_out, 0U) << "blocks 0, 4, 8 and 12 are none of them";
}

// ---- reductions ----

struct Kind {
  ElementType type;
  ReduceOp op;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (int type = 0; type < kElementTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) {
      const Kind kind{static_cast<ElementType>(type), static_cast<ReduceOp>(op)};
      if (kind.op == ReduceOp::kBarrier || !may_be_packed(kind.op)) continue;
      if (exact_can(kind.op, kind.type)) all.push_back(kind);
    }
  }
  return all;
}

/// The bytes of the result, blocks that are left out included, of the chunks; and whether it was packed.
Bytes reduced(const ElementReduction& reduction, const std::vector<ChunkView>& views, const Blocks& blocks,
              bool* is_packed) {
  const size_t size = element_bytes(reduction.type);
  Bytes out(blocks.elements * size, 0xee);
  const Packed made = reduce(reduction, views.data(), static_cast<int>(views.size()), blocks, out.data());
  *is_packed = made.bytes > 0;
  if (!*is_packed) return out;
  const auto seen = wire::read_packed(out.data(), made.bytes, size);
  EXPECT_TRUE(seen.has_value());
  return seen ? copied({seen->elements, &*seen}, {0, blocks.elements}, size) : Bytes();
}

// Any bits: NaNs, infinities, -0 and bools that are neither 0 nor 1 among them.
TEST(ZeroBlocks, ReduceToTheBitsOfWholeChunks) {  // [ZERO-5]
  std::mt19937_64 random(3);
  int packed = 0, whole = 0;
  for (const Kind& kind : kinds()) {
    const size_t size = element_bytes(kind.type);
    for (const int ranks : {1, 2, 3, 5}) {
      for (const double zeros : {0.0, 0.5, 0.9, 1.0}) {
        const Blocks blocks = Blocks::of(random() % 256, 300 + random() % 2000);
        std::vector<Chunk> chunks;
        for (int rank = 0; rank < ranks; ++rank) {  // The first one may be whole.
          const double chance = rank == 0 && random() % 4 == 0 ? 0 : zeros;
          chunks.emplace_back(sparse(blocks, size, chance, random), blocks, size);
        }
        std::vector<ChunkView> views;
        std::vector<const uint8_t*> inputs;
        for (const Chunk& chunk : chunks) {
          views.push_back(chunk.view());
          inputs.push_back(chunk.whole.data());
        }
        const uint32_t divisor = sums_floats(kind.op, kind.type) ? 3 : 1;
        const ElementReduction reduction{kind.op, kind.type, divisor};
        Bytes expected(blocks.elements * size);
        reduce(reduction, inputs.data(), ranks, blocks.elements, expected.data());
        bool is_packed = false;
        EXPECT_EQ(reduced(reduction, views, blocks, &is_packed), expected)
            << "type " << static_cast<int>(kind.type) << ", operation " << static_cast<int>(kind.op) << ", " << ranks
            << " ranks";
        ++(is_packed ? packed : whole);
      }
    }
  }
  EXPECT_GT(packed, 50);
  EXPECT_GT(whole, 50);
}

// All of one worker is -0, the other has left it out: their sum is +0. [OP-3]
TEST(ZeroBlocks, MakePlusZeroOfMinusZero) {
  const Blocks blocks{512, 256};
  const std::vector<float> minus(512, -0.0F);
  Bytes elements(2048);
  std::memcpy(elements.data(), minus.data(), elements.size());
  const Chunk one(elements, blocks, 4), other(Bytes(2048), blocks, 4);
  ASSERT_EQ(one.made.bytes, 0U);
  ASSERT_EQ(other.made.left_out, 2U);
  bool is_packed = true;
  EXPECT_EQ(reduced({}, {one.view(), other.view()}, blocks, &is_packed), Bytes(2048));
  EXPECT_FALSE(is_packed) << "no block is left out by both";
  EXPECT_EQ(reduced({}, {one.view()}, blocks, &is_packed), elements);
}

}  // namespace
}  // namespace switchml
