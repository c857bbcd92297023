#include "timer/receive_coalescing.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

const Time kBegin{seconds(1000)};

/// A packet that found no queue, and then one every millisecond whose round trip takes `rtt`, until some of them were
/// sent after it. Returns when the last one came.
Time flow(ReceiveCoalescing& coalescing, Duration shortest, Duration rtt, Time begin = kBegin) {
  coalescing.sample(shortest, begin);
  Time now = begin;
  while (now < begin + rtt + milliseconds(2)) coalescing.sample(rtt, now += milliseconds(1));
  return now;
}

TEST(ReceiveCoalescing, BeforeTheFirstRoundTripNothingWaits) {
  EXPECT_EQ(ReceiveCoalescing().pause(kBegin), Duration(0));
}

TEST(ReceiveCoalescing, AShareOfTheTimeInQueues) {
  ReceiveCoalescing coalescing;
  const Time now = flow(coalescing, milliseconds(2), milliseconds(6));
  EXPECT_EQ(coalescing.shortest(), milliseconds(2));
  EXPECT_EQ(coalescing.pause(now), milliseconds(1));
  ReceiveCoalescing empty;
  EXPECT_EQ(empty.pause(flow(empty, milliseconds(2), milliseconds(2))), Duration(0));
}

TEST(ReceiveCoalescing, NeitherShortNorLong) {
  const Duration least = milliseconds(1) + 4 * ReceiveCoalescing::kLeastPause;
  ReceiveCoalescing brief;
  EXPECT_EQ(brief.pause(flow(brief, milliseconds(1), least - Duration(1))), Duration(0));
  ReceiveCoalescing fitting;
  EXPECT_EQ(fitting.pause(flow(fitting, milliseconds(1), least)), ReceiveCoalescing::kLeastPause);
  ReceiveCoalescing endless;
  EXPECT_EQ(endless.pause(flow(endless, milliseconds(1), seconds(10))), ReceiveCoalescing::kMostPause);
}

TEST(ReceiveCoalescing, RoundTripsAreSmoothed) {
  ReceiveCoalescing coalescing;
  Time now = flow(coalescing, milliseconds(2), milliseconds(6));
  for (int i = 0; i < 40; ++i) coalescing.sample(milliseconds(6), now += milliseconds(1));
  coalescing.sample(milliseconds(6 + 4 * ReceiveCoalescing::kSmoothing), now);
  EXPECT_EQ(coalescing.pause(now), milliseconds(2));
}

// What waits for a rank that is late does not stand in a queue.
TEST(ReceiveCoalescing, WaitingForALateRankIsNoQueue) {
  ReceiveCoalescing coalescing;
  Time now = flow(coalescing, milliseconds(1), milliseconds(5));
  EXPECT_EQ(coalescing.pause(now), milliseconds(1));
  const Time sent = now;
  now += milliseconds(1) + ReceiveCoalescing::kSilence + Duration(1);
  for (int i = 0; i < 100; ++i) coalescing.sample((now += microseconds(10)) - sent, now);
  EXPECT_EQ(coalescing.pause(now), milliseconds(1));
  now = flow(coalescing, milliseconds(9), milliseconds(9), now);
  EXPECT_GT(coalescing.pause(now), milliseconds(1));
}

// A pause is no silence.
TEST(ReceiveCoalescing, ItsOwnPausesCountAsQueues) {
  ReceiveCoalescing coalescing;
  Time now = flow(coalescing, milliseconds(1), milliseconds(61));
  const Duration pause = coalescing.pause(now);
  ASSERT_EQ(pause, milliseconds(15));
  now += pause + ReceiveCoalescing::kSilence;
  for (int i = 0; i < 100; ++i) coalescing.sample(milliseconds(41), now);
  EXPECT_LT(coalescing.pause(now), milliseconds(11));
}

TEST(ReceiveCoalescing, APauseThatWasNotMadeDoesNotExcuseSilence) {
  ReceiveCoalescing coalescing;
  Time now = flow(coalescing, milliseconds(1), milliseconds(61));
  ASSERT_EQ(coalescing.pause(now), milliseconds(15));
  coalescing.forget_pause();
  now += milliseconds(15) + ReceiveCoalescing::kSilence;
  for (int i = 0; i < 100; ++i) coalescing.sample(milliseconds(41), now);
  EXPECT_EQ(coalescing.pause(now), milliseconds(15));
}

// A queue in front of a processor is no queue in front of a link.
TEST(ReceiveCoalescing, RestsWhereEverythingHadCome) {
  ReceiveCoalescing coalescing;
  Time now = flow(coalescing, milliseconds(1), milliseconds(9));
  coalescing.report(50, 100, now);
  EXPECT_GT(coalescing.pause(now), Duration(0));
  Duration rest = ReceiveCoalescing::kFirstRest;
  for (int i = 0; i < 12; ++i) {
    coalescing.report(51, 100, now);
    EXPECT_EQ(coalescing.pause(now + rest - Duration(1)), Duration(0));
    EXPECT_GT(coalescing.pause(now + rest), Duration(0));
    now += rest;
    rest = std::min(2 * rest, ReceiveCoalescing::kLongestRest);
  }
  EXPECT_EQ(rest, ReceiveCoalescing::kLongestRest);
  for (int i = 0; i < ReceiveCoalescing::kGoodInARow; ++i) coalescing.report(0, 100, now);
  coalescing.report(100, 100, now);
  EXPECT_EQ(coalescing.pause(now + ReceiveCoalescing::kFirstRest - Duration(1)), Duration(0));
  EXPECT_GT(coalescing.pause(now + ReceiveCoalescing::kFirstRest), Duration(0));
}

// A path that has become longer is not taken for a queue for ever.
TEST(ReceiveCoalescing, ForgetsTheShortestInTime) {
  ReceiveCoalescing coalescing;
  coalescing.sample(milliseconds(1), kBegin);
  coalescing.sample(milliseconds(10), kBegin + ReceiveCoalescing::kWindow);
  EXPECT_EQ(coalescing.shortest(), milliseconds(1));
  coalescing.sample(milliseconds(12), kBegin + 2 * ReceiveCoalescing::kWindow);
  EXPECT_EQ(coalescing.shortest(), milliseconds(10));
  // After a long silence nothing is known of the old path.
  coalescing.sample(milliseconds(20), kBegin + 5 * ReceiveCoalescing::kWindow);
  EXPECT_EQ(coalescing.shortest(), milliseconds(20));
}

TEST(ReceiveCoalescing, AClockThatSeemsToRunBackwardsCountsAsZero) {
  ReceiveCoalescing coalescing;
  coalescing.sample(-milliseconds(1), kBegin);
  EXPECT_EQ(coalescing.shortest(), Duration(0));
}

}  // namespace
}  // namespace switchml
