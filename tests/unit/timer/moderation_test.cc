#include "timer/moderation.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

const Time kBegin{seconds(1000)};

TEST(Moderation, BeforeTheFirstRoundTripNothingWaits) {
  EXPECT_EQ(Moderation().pause(seconds(1), kBegin), Duration(0));
}

TEST(Moderation, AShareOfTheTimeInQueues) {
  Moderation moderation;
  moderation.sample(milliseconds(5), kBegin);
  moderation.sample(milliseconds(2), kBegin);
  moderation.sample(milliseconds(9), kBegin);
  EXPECT_EQ(moderation.shortest(), milliseconds(2));
  EXPECT_EQ(moderation.pause(milliseconds(6), kBegin), milliseconds(1));
  EXPECT_EQ(moderation.pause(milliseconds(2), kBegin), Duration(0));
  EXPECT_EQ(moderation.pause(milliseconds(1), kBegin), Duration(0));
}

TEST(Moderation, NeitherShortNorLong) {
  Moderation moderation;
  moderation.sample(milliseconds(1), kBegin);
  EXPECT_EQ(moderation.pause(milliseconds(1) + 4 * Moderation::kLeastPause - Duration(1), kBegin), Duration(0));
  EXPECT_EQ(moderation.pause(milliseconds(1) + 4 * Moderation::kLeastPause, kBegin), Moderation::kLeastPause);
  EXPECT_EQ(moderation.pause(seconds(10), kBegin), Moderation::kMostPause);
}

// A queue in front of a processor is no queue in front of a link.
TEST(Moderation, RestsWhereEverythingHadCome) {
  Moderation moderation;
  moderation.sample(milliseconds(1), kBegin);
  const Duration rtt = milliseconds(9);
  moderation.report(50, 100, kBegin);
  EXPECT_GT(moderation.pause(rtt, kBegin), Duration(0));
  Time now = kBegin;
  Duration rest = Moderation::kFirstRest;
  for (int i = 0; i < 12; ++i) {
    moderation.report(51, 100, now);
    EXPECT_EQ(moderation.pause(rtt, now + rest - Duration(1)), Duration(0));
    EXPECT_GT(moderation.pause(rtt, now + rest), Duration(0));
    now += rest;
    rest = std::min(2 * rest, Moderation::kLongestRest);
  }
  EXPECT_EQ(rest, Moderation::kLongestRest);
  for (int i = 0; i < Moderation::kGoodInARow; ++i) moderation.report(0, 100, now);
  moderation.report(100, 100, now);
  EXPECT_EQ(moderation.pause(rtt, now + Moderation::kFirstRest - Duration(1)), Duration(0));
  EXPECT_GT(moderation.pause(rtt, now + Moderation::kFirstRest), Duration(0));
}

// A path that has become longer is not taken for a queue for ever.
TEST(Moderation, ForgetsTheShortestInTime) {
  Moderation moderation;
  moderation.sample(milliseconds(1), kBegin);
  moderation.sample(milliseconds(10), kBegin + Moderation::kWindow);
  EXPECT_EQ(moderation.shortest(), milliseconds(1));
  moderation.sample(milliseconds(12), kBegin + 2 * Moderation::kWindow);
  EXPECT_EQ(moderation.shortest(), milliseconds(10));
  // After a long silence nothing is known of the old path.
  moderation.sample(milliseconds(20), kBegin + 5 * Moderation::kWindow);
  EXPECT_EQ(moderation.shortest(), milliseconds(20));
}

TEST(Moderation, AClockThatSeemsToRunBackwardsCountsAsZero) {
  Moderation moderation;
  moderation.sample(-milliseconds(1), kBegin);
  EXPECT_EQ(moderation.shortest(), Duration(0));
}

}  // namespace
}  // namespace switchml
