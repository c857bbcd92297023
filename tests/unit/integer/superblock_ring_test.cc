#include "integer/superblock_ring.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(SuperblockRing, TakesUpToItsCapacityAndFindsByJobAndGroup) {
  SuperblockRing ring(2, 8, 64);
  Superblock* a = ring.take(5, 0, {0, 64});
  Superblock* b = ring.take(5, 1, {64, 10});
  EXPECT_TRUE(ring.full());
  EXPECT_EQ(ring.find(5, 0), a);
  EXPECT_EQ(ring.find(5, 1), b);
  EXPECT_EQ(ring.find(6, 0), nullptr);
  EXPECT_EQ(b->range.count, 10U);
}

TEST(SuperblockRing, GivesBuffersBackInOrder) {
  SuperblockRing ring(2, 8, 64);
  Superblock* a = ring.take(1, 0, {});
  Superblock* b = ring.take(1, 1, {});
  ring.finish(b);
  EXPECT_TRUE(ring.full());  // the first is still in use
  ring.finish(a);
  EXPECT_FALSE(ring.full());
  EXPECT_EQ(ring.find(1, 1), nullptr);
}

TEST(SuperblockRing, AReusedBufferStartsAfresh) {
  SuperblockRing ring(1, 8, 64);
  Superblock* a = ring.take(1, 0, {});
  a->ready = a->has_nonfinite = true;
  a->chunks_done = a->nonfinite_done = a->nonfinite_sent = 7;
  ring.finish(a);
  Superblock* b = ring.take(2, 3, {});
  EXPECT_FALSE(b->ready || b->has_nonfinite);
  EXPECT_EQ(b->chunks_done + b->nonfinite_done + b->nonfinite_sent, 0U);
  EXPECT_EQ(ring.memory_bytes(), 8U + 64U);
}

}  // namespace
}  // namespace switchml
