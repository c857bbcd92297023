#include "base/assert.h"

#include <gtest/gtest.h>

#include <csignal>

namespace switchml {
namespace {

TEST(Assert, TakesItsConditionOnceAndIsAnExpression) {
  int evaluated = 0;
  SWITCHML_ASSERT(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
  const int value = (SWITCHML_ASSERT(evaluated > 0), 7);
  EXPECT_EQ(value, 7);
}

TEST(AssertDeathTest, NamesConditionAndPlace) {
  EXPECT_DEATH(SWITCHML_ASSERT(1 + 1 == 3), "assertion failed: 1 \\+ 1 == 3 \\(.*assert_test.cc:[0-9]+\\)");
}

// Release builds define NDEBUG, which must make no difference: these tests run in both.
TEST(AssertDeathTest, Aborts) {
  EXPECT_EXIT(SWITCHML_ASSERT(false), ::testing::KilledBySignal(SIGABRT), "switchml: assertion failed: false");
}

}  // namespace
}  // namespace switchml
