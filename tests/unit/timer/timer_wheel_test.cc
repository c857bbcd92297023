#include "timer/timer_wheel.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace switchml {
namespace {

constexpr Duration kTick = milliseconds(1);

Time at(int64_t us) { return Time(microseconds(us)); }

std::vector<int> sweep(TimerWheel& wheel, Time now) {
  std::vector<int> fired;
  wheel.sweep(now, [&](int id) { fired.push_back(id); });
  return fired;
}

TEST(TimerWheel, FiresNotBeforeItsDeadlineAndOnce) {
  TimerWheel wheel(4, kTick, 8, at(0));
  wheel.arm(2, at(3500));
  EXPECT_TRUE(sweep(wheel, at(3499)).empty());
  EXPECT_TRUE(wheel.armed(2));
  EXPECT_EQ(sweep(wheel, at(3500)), std::vector<int>{2});
  EXPECT_FALSE(wheel.armed(2));
  EXPECT_TRUE(sweep(wheel, at(100000)).empty());
}

TEST(TimerWheel, ADeadlineInThePastFiresAtTheNextSweep) {
  TimerWheel wheel(1, kTick, 8, at(50000));
  wheel.arm(0, at(10));
  EXPECT_EQ(sweep(wheel, at(50000)), std::vector<int>{0});
}

TEST(TimerWheel, CancelAndMove) {
  TimerWheel wheel(2, kTick, 8, at(0));
  wheel.arm(0, at(1000));
  wheel.arm(1, at(1000));
  wheel.cancel(0);
  wheel.arm(1, at(5000));
  EXPECT_TRUE(sweep(wheel, at(4000)).empty());
  EXPECT_EQ(sweep(wheel, at(5000)), std::vector<int>{1});
  EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, TimersBeyondOneTurnWaitForTheirs) {
  TimerWheel wheel(2, kTick, 8, at(0));
  wheel.arm(0, at(20000));  // two and a half turns
  wheel.arm(1, at(4000));   // the same bucket
  EXPECT_EQ(sweep(wheel, at(4000)), std::vector<int>{1});
  for (int64_t t = 4000; t < 20000; t += 700) EXPECT_TRUE(sweep(wheel, at(t)).empty()) << t;
  EXPECT_EQ(sweep(wheel, at(20000)), std::vector<int>{0});
}

TEST(TimerWheel, CallbacksMayArmAndCancelOthers) {
  TimerWheel wheel(3, kTick, 8, at(0));
  for (int id = 0; id < 3; ++id) wheel.arm(id, at(1000));
  std::vector<int> fired;
  wheel.sweep(at(2000), [&](int id) {
    fired.push_back(id);
    for (int other = 0; other < 3; ++other) wheel.cancel(other);
    wheel.arm(id, at(9000));
  });
  EXPECT_EQ(fired.size(), 1U);
  EXPECT_EQ(sweep(wheel, at(9000)), fired);
}

TEST(TimerWheel, NextDeadlineIsNeverLate) {
  TimerWheel wheel(2, kTick, 8, at(0));
  EXPECT_EQ(wheel.next_deadline(), kNever);
  wheel.arm(0, at(12000));  // a later turn, in the bucket of tick 4
  wheel.arm(1, at(5200));
  EXPECT_LE(wheel.next_deadline(), at(5200));
  wheel.cancel(1);
  EXPECT_LE(wheel.next_deadline(), at(12000));
}

// Against a map of deadlines: what fires, and when.
TEST(TimerWheel, AgreesWithAnObviousModel) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    TimerWheel wheel(16, kTick, 16, at(0));
    std::map<int, Time> model;
    Time now = at(0);
    for (int step = 0; step < 2000; ++step) {
      const int id = static_cast<int>(random() % 16);
      if (random() % 3 != 0) {
        const Time deadline = now + microseconds(random() % 40000);
        wheel.arm(id, deadline);
        model[id] = deadline;
      } else {
        wheel.cancel(id);
        model.erase(id);
      }
      now += microseconds(random() % 3000);
      Time earliest = kNever;
      for (const auto& [unused, deadline] : model) earliest = std::min(earliest, deadline);
      ASSERT_LE(wheel.next_deadline(), earliest);
      std::vector<int> fired = sweep(wheel, now);
      std::vector<int> expected;
      for (const auto& [timer, deadline] : model) {
        if (deadline <= now) expected.push_back(timer);
      }
      for (const int timer : expected) model.erase(timer);
      std::sort(fired.begin(), fired.end());
      ASSERT_EQ(fired, expected) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace switchml
