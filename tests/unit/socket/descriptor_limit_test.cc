#include "socket/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace switchml {
namespace {

/// The soft limit is 64 meanwhile.
class DescriptorLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit low{64, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  static size_t soft() {
    rlimit now{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    return now.rlim_cur;
  }
  rlimit before_{};
};

TEST_F(DescriptorLimit, IsRaisedToWhatIsWanted) {
  EXPECT_EQ(allow_descriptors(200), 200U);
  EXPECT_EQ(soft(), 200U);
}

TEST_F(DescriptorLimit, IsNeverLowered) {
  EXPECT_EQ(allow_descriptors(10), 64U);
  EXPECT_EQ(soft(), 64U);
}

TEST_F(DescriptorLimit, EndsAtTheHardOne) {
  if (before_.rlim_max == RLIM_INFINITY) GTEST_SKIP() << "there is no hard limit";
  EXPECT_EQ(allow_descriptors(before_.rlim_max + 1), before_.rlim_max);
  EXPECT_EQ(soft(), before_.rlim_max);
}

}  // namespace
}  // namespace switchml
