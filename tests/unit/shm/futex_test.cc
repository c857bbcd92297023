#include "shm/futex.h"

#include <gtest/gtest.h>

#include <thread>

namespace switchml::shm {
namespace {

TEST(Futex, AWordThatHasChangedIsNotWaitedFor) {
  const std::atomic<uint32_t> word{1};
  const Time begin = monotonic_now();
  futex_wait(word, 0, seconds(20));
  EXPECT_LT(monotonic_now() - begin, seconds(10));
}

TEST(Futex, TimeEndsAWait) {
  const std::atomic<uint32_t> word{0};
  const Time begin = monotonic_now();
  futex_wait(word, 0, milliseconds(20));
  EXPECT_GE(monotonic_now() - begin, milliseconds(15));
  futex_wait(word, 0, Duration(-5));
}

TEST(Futex, AWakeEndsAWait) {
  std::atomic<uint32_t> word{0};
  std::thread sleeper([&] {
    while (word.load() == 0) futex_wait(word, 0, seconds(20));
  });
  std::this_thread::sleep_for(milliseconds(20));
  word = 1;
  const Time begin = monotonic_now();
  futex_wake(word);
  sleeper.join();
  EXPECT_LT(monotonic_now() - begin, seconds(10));
}

}  // namespace
}  // namespace switchml::shm
