#include "timer/rtt_estimator.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(RttEstimator, BeginsAtFourTimesTheMinimum) {
  EXPECT_EQ(RttEstimator(milliseconds(5), milliseconds(200)).rto(), milliseconds(20));
  EXPECT_EQ(RttEstimator(milliseconds(5), milliseconds(12)).rto(), milliseconds(12));
}

// RFC 6298 (and never below twice SRTT) worked by hand: first sample R: SRTT = R, RTTVAR = R/2, RTO = R + 4 * R/2 = 3R.
TEST(RttEstimator, FollowsTheRfc) {
  RttEstimator rtt(microseconds(1), seconds(10));
  rtt.sample(milliseconds(8));
  EXPECT_EQ(rtt.srtt(), milliseconds(8));
  EXPECT_EQ(rtt.rto(), milliseconds(24));
  // R' = 16: RTTVAR = 3/4 * 4 + 1/4 * |8 - 16| = 5, SRTT = 7/8 * 8 + 1/8 * 16 = 9, RTO = 9 + 20.
  rtt.sample(milliseconds(16));
  EXPECT_EQ(rtt.srtt(), milliseconds(9));
  EXPECT_EQ(rtt.rto(), milliseconds(29));
}

TEST(RttEstimator, StaysWithinItsBounds) {
  RttEstimator rtt(milliseconds(5), milliseconds(50));
  rtt.sample(microseconds(10));
  EXPECT_EQ(rtt.rto(), milliseconds(5));
  rtt.sample(seconds(3));
  EXPECT_EQ(rtt.rto(), milliseconds(50));
  rtt.sample(-seconds(3));
  EXPECT_LE(rtt.rto(), milliseconds(50));
}

TEST(RttEstimator, BacksOffByDoublingUpToTheMaximum) {
  RttEstimator rtt(milliseconds(5), milliseconds(70));
  rtt.sample(microseconds(10));
  EXPECT_EQ(rtt.backed_off(0), milliseconds(5));
  EXPECT_EQ(rtt.backed_off(3), milliseconds(40));
  EXPECT_EQ(rtt.backed_off(4), milliseconds(70));
  EXPECT_EQ(rtt.backed_off(1000), milliseconds(70));
}

// However steady they are: not so far that a hiccup fires it.
TEST(RttEstimator, SteadyRoundTripsBringTheTimeoutDownToTwoOfThem) {
  RttEstimator rtt(microseconds(100), seconds(1));
  rtt.sample(milliseconds(100));
  for (int i = 0; i < 200; ++i) rtt.sample(milliseconds(1));
  EXPECT_GE(rtt.rto(), milliseconds(2));
  EXPECT_LT(rtt.rto(), milliseconds(3));
}

}  // namespace
}  // namespace switchml
