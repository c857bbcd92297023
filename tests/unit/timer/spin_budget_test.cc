#include "timer/spin_budget.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

constexpr Duration kMost = microseconds(50);
constexpr int kTrial = SpinBudget::kTrial;

Time at(Duration d) { return Time(seconds(100)) + d; }

/// So many waits of which every `pays`-th pays (0: none).
void waits(SpinBudget* budget, int count, int pays, Time now, long preemptions = 0) {
  for (int i = 1; i <= count; ++i) budget->report(pays != 0 && i % pays == 0, preemptions, now);
}

TEST(SpinBudget, IsAllOrNothing) {
  SpinBudget none(Duration(0));
  EXPECT_EQ(none.allowance(at(Duration(0))), Duration(0));
  const SpinBudget some(kMost);
  EXPECT_EQ(some.allowance(at(Duration(0))), kMost);
}

TEST(SpinBudget, LastsAsLongAsOneWaitInFourPays) {
  SpinBudget budget(kMost);
  waits(&budget, 100 * kTrial, 4, at(Duration(0)));
  EXPECT_EQ(budget.allowance(at(Duration(0))), kMost);
}

TEST(SpinBudget, EndsWhereWaitsRarelyPay) {
  SpinBudget budget(kMost);
  waits(&budget, kTrial - 1, 5, at(Duration(0)));
  EXPECT_EQ(budget.allowance(at(Duration(0))), kMost) << "the trial is not over";
  waits(&budget, 1, 0, at(Duration(0)));
  EXPECT_EQ(budget.allowance(at(Duration(0))), Duration(0));
  EXPECT_EQ(budget.allowance(at(SpinBudget::kFirstPause - Duration(1))), Duration(0));
  EXPECT_EQ(budget.allowance(at(SpinBudget::kFirstPause)), kMost);
}

TEST(SpinBudget, IsAboutAsLongAsWaitsThatCouldHavePaid) {
  SpinBudget budget(microseconds(250));
  const auto length = [&] { return budget.allowance(at(Duration(0))); };
  EXPECT_EQ(length(), microseconds(250));
  budget.report_sleep(microseconds(251));
  EXPECT_EQ(length(), SpinBudget::kLeast) << "whoever waits so long had better sleep";
  budget.report_sleep(microseconds(100));
  EXPECT_EQ(length(), microseconds(150));
  budget.report_sleep(microseconds(60));
  EXPECT_EQ(length(), microseconds(150)) << "a shorter one fits in";
  budget.report_sleep(microseconds(240));
  EXPECT_EQ(length(), microseconds(250));
  SpinBudget little(microseconds(20));
  little.report_sleep(microseconds(300));
  EXPECT_EQ(little.allowance(at(Duration(0))), microseconds(20));
}

TEST(SpinBudget, PausesGrowUntilATrialSucceeds) {
  SpinBudget budget(kMost);
  Time now = at(Duration(0));
  Duration pause = SpinBudget::kFirstPause;
  for (int i = 0; i < 20; ++i) {
    waits(&budget, kTrial, 0, now);
    EXPECT_EQ(budget.allowance(now + pause - Duration(1)), Duration(0));
    now += pause;
    EXPECT_EQ(budget.allowance(now), kMost);
    pause = std::min<Duration>(2 * pause, SpinBudget::kLongestPause);
  }
  EXPECT_EQ(pause, SpinBudget::kLongestPause);
  waits(&budget, kTrial, 1, now);  // it pays again
  waits(&budget, kTrial, 0, now);
  EXPECT_EQ(budget.allowance(now + SpinBudget::kFirstPause), kMost);
}

TEST(SpinBudget, YieldsToWhoeverTakesTheProcessorAgainAndAgain) {
  SpinBudget budget(kMost);
  waits(&budget, 10, 1, at(Duration(0)), 7);  // what was before does not count
  EXPECT_EQ(budget.allowance(at(Duration(0))), kMost);
  waits(&budget, 1, 1, at(Duration(0)), 8);
  EXPECT_EQ(budget.allowance(at(Duration(0))), kMost) << "once is nothing";
  const Time second = at(SpinBudget::kApart - Duration(1));
  waits(&budget, 1, 1, second, 9);
  EXPECT_EQ(budget.allowance(second), Duration(0));
  const Time resumes = second + SpinBudget::kFirstPause;
  EXPECT_EQ(budget.allowance(resumes), kMost);
  waits(&budget, 1, 1, resumes, 30);
  EXPECT_EQ(budget.allowance(resumes), kMost) << "in the pause it did not busy-poll";
  waits(&budget, 1, 1, resumes, 31);
  EXPECT_EQ(budget.allowance(resumes), Duration(0));
}

TEST(SpinBudget, PreemptionsFarApartAreNothing) {
  SpinBudget budget(kMost);
  Time now = at(Duration(0));
  for (long preemptions = 0; preemptions < 100; ++preemptions, now += SpinBudget::kApart) {
    waits(&budget, 1, 1, now, preemptions);
    EXPECT_EQ(budget.allowance(now), kMost);
  }
}

TEST(SpinBudget, MayBeToldThatEachCounts) {
  SpinBudget budget(kMost, Duration::max());
  waits(&budget, 2, 1, at(Duration(0)), 7);
  EXPECT_EQ(budget.allowance(at(Duration(0))), kMost);
  waits(&budget, 1, 1, at(Duration(0)), 8);
  EXPECT_EQ(budget.allowance(at(Duration(0))), Duration(0));
}

// At worst, whatever happens, looking around takes this part of a processor in the long run.
TEST(SpinBudget, CostsLittleWhereItNeverPays) {
  SpinBudget budget(kMost);
  Duration spent(0);
  const Time end = at(seconds(60));
  for (Time now = at(Duration(0)); now < end;) {
    const Duration allowance = budget.allowance(now);
    spent += allowance;
    now += allowance + microseconds(100);  // and sleeps
    if (allowance != Duration(0)) budget.report(false, 0, now);
  }
  EXPECT_LT(to_seconds(spent) / 60, 0.003);
  EXPECT_GT(spent, Duration(0));
}

}  // namespace
}  // namespace switchml
