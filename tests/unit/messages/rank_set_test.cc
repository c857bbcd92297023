#include "messages/rank_set.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>
#include <utility>

namespace switchml {
namespace {

void expect_same(const RankSet& set, const std::bitset<kMaxRanks>& expected) {
  ASSERT_EQ(set.any(), expected.any());
  for (size_t rank = 0; rank < kMaxRanks; ++rank) ASSERT_EQ(set[rank], expected[rank]) << rank;
}

TEST(RankSet, IsASetOfBits) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    RankSet set, other;
    std::bitset<kMaxRanks> bits, others;
    for (int step = 0; step < 60; ++step) {
      const size_t rank = random() % kMaxRanks, known = random() % 4 * 300;
      switch (random() % 6) {
        case 0: set.set(rank), bits.set(rank); break;
        case 1: set.set(known), bits.set(known); break;
        case 2: set.reset(known), bits.reset(known); break;
        case 3: other.set(rank), others.set(rank); break;
        case 4: set |= other, bits |= others; break;
        default: other = std::exchange(set, {}), others = std::exchange(bits, {});
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(set, bits));
      ASSERT_NO_FATAL_FAILURE(expect_same(other, others));
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(RankSet(set), bits));
    set = *&set;
    ASSERT_NO_FATAL_FAILURE(expect_same(set, bits));
  }
}

TEST(RankSet, TakesWordsAtATime) {
  RankSet set;
  set.add(3, 0);
  EXPECT_FALSE(set.any());
  set.add(15, uint64_t{1} << 63 | 1);
  EXPECT_TRUE(set[960] && set[1023] && !set[961] && !set[63]);
}

}  // namespace
}  // namespace switchml
