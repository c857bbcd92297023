#include "engine/spin_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace switchml {
namespace {

constexpr auto kNeverStop = [] { return false; };

TEST(SpinWait, WithoutTimeItDoesNotEvenLook) {
  SpinWait spin{Duration(0)};
  int looks = 0;
  EXPECT_FALSE(spin([&] { return ++looks > 0; }, kNeverStop));
  EXPECT_EQ(looks, 0);
}

TEST(SpinWait, FindsWhatComes) {
  SpinWait spin(seconds(20));
  int looks = 0;
  EXPECT_TRUE(spin([&] { return ++looks == 100; }, kNeverStop));
  EXPECT_EQ(looks, 100);
  std::atomic<bool> there{false};
  std::thread other([&] { there = true; });
  SpinWait another(seconds(20));
  const bool found = another([&] { return there.load(); }, kNeverStop);
  other.join();
  EXPECT_TRUE(found);
}

TEST(SpinWait, EndsWithItsTime) {
  SpinWait spin(milliseconds(2));
  const Time begin = monotonic_now();
  int looks = 0;
  EXPECT_FALSE(spin([&] { return ++looks < 0; }, kNeverStop));
  EXPECT_GE(monotonic_now() - begin, milliseconds(2));
  EXPECT_GT(looks, 0);
}

TEST(SpinWait, EndsWhenItIsTold) {
  SpinWait spin(seconds(20));
  int looks = 0;
  const Time begin = monotonic_now();
  EXPECT_FALSE(spin([&] { return ++looks < 0; }, [&] { return looks > 50; }));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
}

TEST(SpinWait, StopsLookingWhereItNeverPays) {
  SpinWait spin(microseconds(10));
  long looks = 0;
  int quiet = 0;
  for (int i = 0; i < 10000 && quiet == 0; ++i) {
    const long before = looks;
    spin([&] { return ++looks < 0; }, kNeverStop);
    quiet += looks == before ? 1 : 0;
  }
  EXPECT_EQ(quiet, 1);
}

}  // namespace
}  // namespace switchml
