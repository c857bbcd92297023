#include "shm/line_timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace switchml::shm {
namespace {

// Lines of memory that this core has long forgotten take longer than one that it has just read, whatever the machine.
TEST(LineTimer, ALineFromMemoryTakesLongerThanOneInTheCache) {
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
  EXPECT_GE(median(again), Duration(0)) << "of a coarse clock it may be 0";
  EXPECT_LT(median(again), microseconds(100));
  EXPECT_GT(median(first), median(again));
}

}  // namespace
}  // namespace switchml::shm
