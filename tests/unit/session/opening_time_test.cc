#include "session/opening_time.h"

#include <gtest/gtest.h>

#include <thread>

namespace switchml {
namespace {

TEST(OpeningTime, AWaitForRanksIsNoneOfTheSearch) {
  OpeningTime time(seconds(10), monotonic_now() + seconds(100));
  const Time before = time.stage_end(1);
  const Time half = time.stage_end(0.5);
  EXPECT_EQ(before - half, seconds(5));
  EXPECT_EQ(time.awaiting([] {
    std::this_thread::sleep_for(milliseconds(20));
    return 7;
  }),
            7);
  EXPECT_GE(time.stage_end(1) - before, milliseconds(20));
}

TEST(OpeningTime, TheSearchEndsWithTheGroupsTime) {
  const Time deadline = monotonic_now() + seconds(1);
  const OpeningTime time(seconds(10), deadline);
  EXPECT_EQ(time.stage_end(1), deadline);
  EXPECT_LT(time.stage_end(0.5), deadline);
  EXPECT_EQ(time.deadline(), deadline);
}

TEST(OpeningTime, WhoGathersEndsALittleBeforeTheOthers) {
  const Time now = monotonic_now();
  for (const Duration timeout : {Duration(seconds(1)), Duration(std::chrono::hours(1))}) {
    const OpeningTime time(seconds(10), now + timeout);
    EXPECT_LT(time.gather_end(), now + timeout);
    EXPECT_GE(time.gather_end(), now + timeout - std::min<Duration>(timeout / 10, milliseconds(500)));
  }
}

TEST(OpeningTime, TheTimeMayBeOverOrEndless) {
  const Time now = monotonic_now();
  EXPECT_LE(OpeningTime(seconds(10), now - seconds(1)).gather_end(), now);
  const OpeningTime endless(seconds(10), kNever);
  EXPECT_GT(endless.gather_end(), now + std::chrono::hours(24 * 365));
  EXPECT_LE(endless.stage_end(1), monotonic_now() + seconds(10));
}

}  // namespace
}  // namespace switchml
