#include "base/random.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace switchml {
namespace {

TEST(Random, NeverRepeatsAndEveryBitVaries) {
  std::set<uint64_t> seen;
  uint64_t zeros = 0;
  uint64_t ones = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bits = random_bits();
    seen.insert(bits);
    ones |= bits;
    zeros |= ~bits;
  }
  EXPECT_EQ(seen.size(), 1000U);  // by chance otherwise: 1 in 10^13
  EXPECT_EQ(ones, ~uint64_t{0});
  EXPECT_EQ(zeros, ~uint64_t{0});
}

// Ranks are often forked from one process: a generator with a state would give both the same secrets.
TEST(Random, AForkedProcessGetsOthers) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const uint64_t bits = random_bits();
    _exit(write(ends[1], &bits, sizeof bits) == static_cast<ssize_t>(sizeof bits) ? 0 : 1);
  }
  uint64_t theirs = 0;
  const bool read_all = read(ends[0], &theirs, sizeof theirs) == static_cast<ssize_t>(sizeof theirs);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(read_all);
  EXPECT_EQ(status, 0);
  EXPECT_NE(theirs, random_bits());
}

}  // namespace
}  // namespace switchml
