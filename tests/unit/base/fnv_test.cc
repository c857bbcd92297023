#include "base/fnv.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace switchml {
namespace {

TEST(Fnv1a, GivesThePublishedValues) {  // [WIT-9]
  EXPECT_EQ(fnv1a(nullptr, 0), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a", 1), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("b", 1), 0xaf63df4c8601f1a5U);
  EXPECT_EQ(fnv1a("foobar", 6), 0x85944171f73967e8U);
}

TEST(Fnv1a, RunsOverParts) {
  const std::string text = "all_reduce of something";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint64_t head = fnv1a(text.data(), cut);
    EXPECT_EQ(fnv1a(text.data() + cut, text.size() - cut, head), fnv1a(text.data(), text.size())) << "cut at " << cut;
  }
}

TEST(Fnv1a, TakesBytesAsUnsigned) {
  const std::vector<uint8_t> high = {0x80, 0xff};
  EXPECT_EQ(fnv1a(high.data(), 1), (kFnv1aStart ^ 0x80U) * 0x100000001b3U);
  EXPECT_EQ(fnv1a(high.data(), 2), (fnv1a(high.data(), 1) ^ 0xffU) * 0x100000001b3U);
}

TEST(Fnv1a, EveryBitOfEveryByteCounts) {
  std::vector<uint8_t> bytes(16, 0x5a);
  const uint64_t plain = fnv1a(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
    EXPECT_NE(fnv1a(bytes.data(), bytes.size()), plain) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1U << (bit % 8));
  }
}

}  // namespace
}  // namespace switchml
