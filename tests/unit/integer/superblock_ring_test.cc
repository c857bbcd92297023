#include "integer/superblock_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace switchml {
namespace {

TEST(SuperblockRing, TakesUpToItsCapacityAndFindsByJobAndGroup) {
  SuperblockRing ring(2, 8, 128);
  Superblock* a = ring.take(5, 0, {0, 64});
  Superblock* b = ring.take(5, 1, {64, 10});
  EXPECT_FALSE(ring.has_room(1));
  EXPECT_EQ(ring.find(5, 0), a);
  EXPECT_EQ(ring.find(5, 1), b);
  EXPECT_EQ(ring.find(5, 2), nullptr);
  EXPECT_EQ(ring.find(6, 0), nullptr);
  EXPECT_EQ(b->range.count, 10U);
}

TEST(SuperblockRing, GivesBuffersBackInOrder) {
  SuperblockRing ring(2, 8, 128);
  Superblock* a = ring.take(1, 0, {});
  Superblock* b = ring.take(1, 1, {});
  ring.finish(b);
  EXPECT_FALSE(ring.has_room(1));  // the first is still in use
  ring.finish(a);
  EXPECT_TRUE(ring.has_room(1));
  EXPECT_EQ(ring.find(1, 1), nullptr);
}

// Superblocks of any size: each has its classes, which overlap no other's, until there is no room.
TEST(SuperblockRing, ClassesAreShared) {
  SuperblockRing ring(8, 8, 100);
  std::deque<Superblock*> used;
  size_t most = 0;
  uint32_t random = 1;
  for (size_t number = 0; number < 2000; ++number) {
    random = random * 1664525 + 1013904223;
    const size_t count = random >> 16 & 63;
    while (!ring.has_room(count)) {
      Superblock* first = used.front();
      for (size_t i = 0; i < first->range.count; ++i) ASSERT_EQ(first->classes[i], first->number % 251);
      used.pop_front();
      ring.finish(first);
    }
    used.push_back(ring.take(1, number, {0, count}));
    std::fill_n(used.back()->classes, count, static_cast<uint8_t>(number % 251));
    ASSERT_EQ(ring.find(1, number), used.back());
    ASSERT_EQ(ring.find(1, used.front()->number), used.front());
    ASSERT_EQ(ring.find(1, used.front()->number - 1), nullptr);
    most = std::max(most, used.size());
  }
  EXPECT_GE(most, 5U);
}

TEST(SuperblockRing, AReusedBufferStartsAfresh) {
  SuperblockRing ring(1, 8, 64);
  Superblock* a = ring.take(1, 0, {});
  a->ready = a->has_nonfinite = true;
  a->sent = a->done = a->nonfinite_done = a->nonfinite_sent = 7;
  ring.finish(a);
  Superblock* b = ring.take(2, 3, {});
  EXPECT_FALSE(b->ready || b->has_nonfinite);
  EXPECT_EQ(b->sent + b->done + b->nonfinite_done + b->nonfinite_sent, 0U);
  EXPECT_EQ(ring.memory_bytes(), 2 * 8U + 64U);
}

}  // namespace
}  // namespace switchml
