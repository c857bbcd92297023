#include "wire/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace switchml::wire {
namespace {

using Bytes = std::vector<uint8_t>;

/// A packed payload of these blocks of a chunk of int16, whose elements are all 7.
Bytes packed(const Blocks& blocks, const std::vector<size_t>& which) {
  BlockSet present;
  for (const size_t block : which) present.insert(block);
  Bytes payload(present.elements(blocks) * 2 + trailer_bytes(blocks), 7);
  write_trailer(blocks, present, payload.data() + present.elements(blocks) * 2);
  return payload;
}

/// A copy that ends where the payload does, so that a sanitizer sees a read beyond it.
std::optional<PackedPayload> read(const Bytes& payload, size_t element_bytes = 2) {
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[payload.size()]);
  std::copy(payload.begin(), payload.end(), copy.get());
  return read_packed(copy.get(), payload.size(), element_bytes);
}

TEST(Blocks, BeginWhereThoseOfTheTensorDo) {  // [ZERO-1]
  const Blocks cut = Blocks::of(352, 704);    // elements 352 to 1056: blocks end at 512, 768, 1024
  EXPECT_EQ(cut.first, 160U);
  ASSERT_EQ(cut.count(), 4U);
  std::vector<size_t> begins;
  for (size_t block = 0; block <= 4; ++block) begins.push_back(cut.begin(block));
  EXPECT_EQ(begins, (std::vector<size_t>{0, 160, 416, 672, 704}));
  EXPECT_EQ(Blocks::of(256, 256).count(), 1U);
  EXPECT_EQ(Blocks::of(0, 257).count(), 2U);
  EXPECT_EQ(Blocks::of(255, 2).count(), 2U);
  EXPECT_EQ(Blocks::of(3, 5).first, 5U) << "no more than there are";
  EXPECT_EQ(Blocks::of(1, kMaxPayloadBytes).count(), 253U) << "the most";
}

TEST(PackedPayload, IsReadAsItWasWritten) {  // [ZERO-2]
  const Blocks cut{600, 100};                // blocks of 100, 256 and 244
  const Bytes payload = packed(cut, {0, 2});
  EXPECT_EQ(payload.size(), 2U * (100 + 244) + 1 + 4);
  EXPECT_EQ(Bytes(payload.end() - 5, payload.end()), (Bytes{0b101, 600 & 0xff, 600 >> 8, 100, 0}));
  const auto seen = read_packed(payload.data(), payload.size(), 2);
  ASSERT_TRUE(seen.has_value());
  EXPECT_EQ(seen->blocks.elements, 600U);
  EXPECT_EQ(seen->blocks.first, 100U);
  EXPECT_TRUE(seen->present.test(0) && !seen->present.test(1) && seen->present.test(2));
  EXPECT_EQ(seen->elements, payload.data());
  const PackedPayload again = packed_before(payload.data() + payload.size(), 2);
  EXPECT_EQ(again.elements, payload.data());
  EXPECT_EQ(again.present.elements(again.blocks), 344U);
}

TEST(PackedPayload, MayBeATrailerAlone) {
  const Bytes payload = packed({600, 100}, {});
  EXPECT_EQ(payload.size(), 5U);
  EXPECT_TRUE(read(payload).has_value());
}

TEST(PackedPayload, OfAnotherLengthIsNone) {  // [ZERO-3]
  const Bytes payload = packed({600, 100}, {1});
  ASSERT_TRUE(read(payload).has_value());
  for (size_t cut = 1; cut <= payload.size(); ++cut) {
    EXPECT_FALSE(read({payload.begin() + static_cast<long>(cut), payload.end()}).has_value()) << cut;
  }
  Bytes longer = payload;
  longer.insert(longer.begin(), 2, 7);
  EXPECT_FALSE(read(longer).has_value());
  EXPECT_FALSE(read(payload, 4).has_value()) << "elements of another size";
}

TEST(PackedPayload, WithNumbersThatDoNotFitIsNone) {  // [ZERO-3]
  const Blocks cut{600, 100};
  const auto with = [&](size_t from_end, int byte) {
    Bytes payload = packed(cut, {});
    payload[payload.size() - from_end] = static_cast<uint8_t>(byte);
    return read(payload).has_value();
  };
  EXPECT_TRUE(with(2, 100));
  EXPECT_FALSE(with(2, 0)) << "the first block has none";
  EXPECT_FALSE(with(1, 1)) << "it has 356";
  EXPECT_FALSE(with(3, 0)) << "the chunk has fewer than its first block";
  EXPECT_FALSE(with(5, 0b1000)) << "a block behind the last one";
  EXPECT_FALSE(read({0, 0, 0, 0, 0}).has_value());
  EXPECT_TRUE(read(packed({kMaxPayloadBytes / 2, 1}, {})).has_value());
  EXPECT_FALSE(read(packed({kMaxPayloadBytes / 2 + 1, 1}, {})).has_value()) << "a chunk larger than any";
}

}  // namespace
}  // namespace switchml::wire
