#include "timer/moderation.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

const Time kBegin{seconds(1000)};

/// A packet that found no queue, and then one every millisecond whose round trip takes `rtt`, until some of them were
/// sent after it. Returns when the last one came.
Time flow(Moderation& moderation, Duration shortest, Duration rtt, Time begin = kBegin) {
  moderation.sample(shortest, begin);
  Time now = begin;
  while (now < begin + rtt + milliseconds(2)) moderation.sample(rtt, now += milliseconds(1));
  return now;
}

TEST(Moderation, BeforeTheFirstRoundTripNothingWaits) { EXPECT_EQ(Moderation().pause(kBegin), Duration(0)); }

TEST(Moderation, AShareOfTheTimeInQueues) {
  Moderation moderation;
  const Time now = flow(moderation, milliseconds(2), milliseconds(6));
  EXPECT_EQ(moderation.shortest(), milliseconds(2));
  EXPECT_EQ(moderation.pause(now), milliseconds(1));
  Moderation empty;
  EXPECT_EQ(empty.pause(flow(empty, milliseconds(2), milliseconds(2))), Duration(0));
}

TEST(Moderation, NeitherShortNorLong) {
  const Duration least = milliseconds(1) + 4 * Moderation::kLeastPause;
  Moderation brief;
  EXPECT_EQ(brief.pause(flow(brief, milliseconds(1), least - Duration(1))), Duration(0));
  Moderation fitting;
  EXPECT_EQ(fitting.pause(flow(fitting, milliseconds(1), least)), Moderation::kLeastPause);
  Moderation endless;
  EXPECT_EQ(endless.pause(flow(endless, milliseconds(1), seconds(10))), Moderation::kMostPause);
}

TEST(Moderation, RoundTripsAreSmoothed) {
  Moderation moderation;
  Time now = flow(moderation, milliseconds(2), milliseconds(6));
  for (int i = 0; i < 40; ++i) moderation.sample(milliseconds(6), now += milliseconds(1));
  moderation.sample(milliseconds(6 + 4 * Moderation::kSmoothing), now);
  EXPECT_EQ(moderation.pause(now), milliseconds(2));
}

// What waits for a rank that is late does not stand in a queue.
TEST(Moderation, WaitingForALateRankIsNoQueue) {
  Moderation moderation;
  Time now = flow(moderation, milliseconds(1), milliseconds(5));
  EXPECT_EQ(moderation.pause(now), milliseconds(1));
  const Time sent = now;
  now += milliseconds(1) + Moderation::kSilence + Duration(1);
  for (int i = 0; i < 100; ++i) moderation.sample((now += microseconds(10)) - sent, now);
  EXPECT_EQ(moderation.pause(now), milliseconds(1));
  now = flow(moderation, milliseconds(9), milliseconds(9), now);
  EXPECT_GT(moderation.pause(now), milliseconds(1));
}

// A pause is no silence.
TEST(Moderation, ItsOwnPausesCountAsQueues) {
  Moderation moderation;
  Time now = flow(moderation, milliseconds(1), milliseconds(61));
  const Duration pause = moderation.pause(now);
  ASSERT_EQ(pause, milliseconds(15));
  now += pause + Moderation::kSilence;
  for (int i = 0; i < 100; ++i) moderation.sample(milliseconds(41), now);
  EXPECT_LT(moderation.pause(now), milliseconds(11));
}

TEST(Moderation, APauseThatWasNotMadeDoesNotExcuseSilence) {
  Moderation moderation;
  Time now = flow(moderation, milliseconds(1), milliseconds(61));
  ASSERT_EQ(moderation.pause(now), milliseconds(15));
  moderation.forget_pause();
  now += milliseconds(15) + Moderation::kSilence;
  for (int i = 0; i < 100; ++i) moderation.sample(milliseconds(41), now);
  EXPECT_EQ(moderation.pause(now), milliseconds(15));
}

// A queue in front of a processor is no queue in front of a link.
TEST(Moderation, RestsWhereEverythingHadCome) {
  Moderation moderation;
  Time now = flow(moderation, milliseconds(1), milliseconds(9));
  moderation.report(50, 100, now);
  EXPECT_GT(moderation.pause(now), Duration(0));
  Duration rest = Moderation::kFirstRest;
  for (int i = 0; i < 12; ++i) {
    moderation.report(51, 100, now);
    EXPECT_EQ(moderation.pause(now + rest - Duration(1)), Duration(0));
    EXPECT_GT(moderation.pause(now + rest), Duration(0));
    now += rest;
    rest = std::min(2 * rest, Moderation::kLongestRest);
  }
  EXPECT_EQ(rest, Moderation::kLongestRest);
  for (int i = 0; i < Moderation::kGoodInARow; ++i) moderation.report(0, 100, now);
  moderation.report(100, 100, now);
  EXPECT_EQ(moderation.pause(now + Moderation::kFirstRest - Duration(1)), Duration(0));
  EXPECT_GT(moderation.pause(now + Moderation::kFirstRest), Duration(0));
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
