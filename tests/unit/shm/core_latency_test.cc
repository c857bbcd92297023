#include "shm/core_latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace switchml::shm {
namespace {

/// The smallest step that the clock is seen to make.
Duration step_of_clock() {
  Duration least = seconds(1);
  for (int i = 0; i < 1000; ++i) {
    const Time begin = monotonic_now();
    Duration step{};
    while (step == Duration(0)) step = monotonic_now() - begin;
    least = std::min(least, step);
  }
  return least;
}

// Lines that this core has long forgotten take longer than one that it has just read.
TEST(LatencyTimer, ALineFromMemoryTakesLongerThanOneInTheCache) {
  if (step_of_clock() > nanoseconds(60)) GTEST_SKIP() << "the clock is too coarse to tell";
  constexpr size_t kWords = size_t{1} << 23;  // 64 MiB
  const std::vector<std::atomic<uint64_t>> words(kWords);
  std::vector<Duration> first;
  std::vector<Duration> again;
  size_t at = 1;
  for (int i = 0; i < 1001; ++i) {
    at = (at * 2654435761U + 12345) % kWords;
    first.push_back(time_to_read(words[at]));
    again.push_back(time_to_read(words[at]));
  }
  const auto median = [](std::vector<Duration> of) {
    std::nth_element(of.begin(), of.begin() + 500, of.end());
    return of[500];
  };
  EXPECT_LT(median(again), microseconds(100));
  EXPECT_GT(median(first), median(again));
}

}  // namespace
}  // namespace switchml::shm
