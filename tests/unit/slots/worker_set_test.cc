#include "slots/worker_set.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(Bitmap, EveryWorkerGoesInOnce) {
  WorkerSet set;
  for (int worker = 0; worker < kMaxWorkers; ++worker) {
    EXPECT_FALSE(set.test(worker));
    EXPECT_TRUE(set.insert(worker));
    EXPECT_TRUE(set.test(worker));
    EXPECT_FALSE(set.insert(worker));
    EXPECT_EQ(set.count(), worker + 1);
    EXPECT_TRUE(set == WorkerSet::first(worker + 1));
  }
}

TEST(Bitmap, TheHalvesMeetAt64) {
  WorkerSet set;
  set.insert(63);
  set.insert(64);
  EXPECT_EQ(set.low, uint64_t{1} << 63);
  EXPECT_EQ(set.high, 1U);
  EXPECT_TRUE(WorkerSet::first(0) == WorkerSet{});
}

TEST(Bitmap, TheHighest) {
  WorkerSet set;
  EXPECT_EQ(set.highest(), -1);
  for (const int worker : {0, 5, 63, 64, 127}) {
    set.insert(worker);
    EXPECT_EQ(set.highest(), worker);
  }
}

}  // namespace
}  // namespace switchml
