#include "transport/receive_buffers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace switchml {
namespace {

TEST(ReceiveBufferPool, GivesUpToTheMostAndTheLastOneBackFirst) {
  ReceiveBufferPool pool(100, 2);
  EXPECT_EQ(pool.memory_bytes(), 0U) << "none was needed yet";
  ReceiveBuffer* const a = pool.take();
  ReceiveBuffer* const b = pool.take();
  EXPECT_EQ(pool.memory_bytes(), 200U);
  ASSERT_TRUE(a != nullptr && b != nullptr && a->data != b->data);
  EXPECT_EQ(pool.take(), nullptr);
  pool.give_back(a);
  pool.give_back(b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  EXPECT_EQ(pool.take(), nullptr);
}

TEST(ReceiveBufferPool, WhatIsLentRestsUntilRelease) {
  ReceiveBufferPool pool(100, 2);
  ReceiveBuffer* const a = pool.take();
  pool.lend(a);
  pool.give_back(a);
  ReceiveBuffer* const b = pool.take();
  EXPECT_NE(b, a);
  EXPECT_EQ(pool.take(), nullptr);
  pool.release();
  EXPECT_EQ(pool.take(), a);
  // What was lent before the release does not rest after it.
  pool.lend(b);
  pool.release();
  pool.give_back(b);
  EXPECT_EQ(pool.take(), b);
}

bool has_pages(const ReceiveBuffer* buffer) {
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(buffer->data, 1, &resident), 0);
  return (resident & 1) != 0;
}

TEST(ReceiveBufferPool, WhatACrowdNeededGoesBackToTheSystem) {
  constexpr size_t kBytes = 10000;
  constexpr size_t kCrowd = 20;
  ReceiveBufferPool pool(kBytes, kCrowd);
  std::vector<ReceiveBuffer*> crowd;
  for (size_t i = 0; i < kCrowd; ++i) {
    crowd.push_back(pool.take());
    crowd.back()->data[0] = crowd.back()->data[kBytes - 1] = 7;
  }
  pool.trim();
  EXPECT_FALSE(pool.can_trim()) << "all are in use";
  for (ReceiveBuffer* const buffer : crowd) pool.give_back(buffer);
  EXPECT_TRUE(pool.can_trim());
  pool.trim();
  EXPECT_EQ(pool.memory_bytes(), kCrowd * kBytes) << "they were needed since the last time";
  pool.trim();
  EXPECT_EQ(pool.memory_bytes(), ReceiveBufferPool::kKept * kBytes);
  EXPECT_FALSE(pool.can_trim());
  size_t with_pages = 0;
  for (const ReceiveBuffer* const buffer : crowd) with_pages += has_pages(buffer) ? 1 : 0;
  EXPECT_EQ(with_pages, ReceiveBufferPool::kKept);
  // They can be used again, the ones that have pages first.
  for (size_t i = 0; i < kCrowd; ++i) {
    ReceiveBuffer* const buffer = pool.take();
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(has_pages(buffer), i < ReceiveBufferPool::kKept);
    buffer->data[kBytes - 1] = 8;
    EXPECT_EQ(pool.memory_bytes(), std::max(i + 1, ReceiveBufferPool::kKept) * kBytes);
  }
  EXPECT_EQ(pool.take(), nullptr);
}

TEST(ReceiveBufferPool, WhatIsNeededFromTimeToTimeStays) {
  ReceiveBufferPool pool(10000, 20);
  for (int round = 0; round < 5; ++round) {
    std::vector<ReceiveBuffer*> burst;
    for (int i = 0; i < 20; ++i) burst.push_back(pool.take());
    for (ReceiveBuffer* const buffer : burst) pool.give_back(buffer);
    pool.trim();
    EXPECT_EQ(pool.memory_bytes(), 20 * 10000U);
  }
}

}  // namespace
}  // namespace switchml
