#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace switchml {
namespace {

TEST(Clock, NeverGoesBack) {
  Time last = monotonic_now();
  for (int i = 0; i < 100000; ++i) {
    const Time now = monotonic_now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, CountsNanosecondsOfRealTime) {
  const Time begin = monotonic_now();
  std::this_thread::sleep_for(milliseconds(20));
  const Duration passed = monotonic_now() - begin;
  EXPECT_GE(passed, milliseconds(20));
  EXPECT_LT(passed, seconds(10));
}

TEST(Clock, NeverIsLaterThanNow) { EXPECT_GT(kNever, monotonic_now() + std::chrono::hours(24 * 365 * 100)); }

TEST(Clock, PrintsSeconds) {
  EXPECT_DOUBLE_EQ(to_seconds(milliseconds(1500)), 1.5);
  EXPECT_DOUBLE_EQ(to_seconds(nanoseconds(1)), 1e-9);
}

}  // namespace
}  // namespace switchml
