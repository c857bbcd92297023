#include "c10d/timeout_extensions.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

using std::chrono::milliseconds;

TEST(TimeoutExtensions, AddUp) {
  TimeoutExtensions extensions;
  EXPECT_EQ(extensions.total(), milliseconds(0));
  extensions.add(milliseconds(100));
  extensions.add(milliseconds(20));
  EXPECT_EQ(extensions.total(), milliseconds(120));
}

TEST(TimeoutExtensions, EndWithTheFirstCallAfterThem) {
  TimeoutExtensions extensions;
  EXPECT_EQ(extensions.take_up(), 0U);
  extensions.add(milliseconds(100));
  const uint64_t first = extensions.take_up();
  EXPECT_NE(first, 0U);
  EXPECT_EQ(extensions.take_up(), 0U) << "a second call ends nothing";
  EXPECT_EQ(extensions.total(), milliseconds(100));
  extensions.release(first);
  EXPECT_EQ(extensions.total(), milliseconds(0));
  EXPECT_EQ(extensions.take_up(), 0U);
}

TEST(TimeoutExtensions, EachEndsByItself) {
  TimeoutExtensions extensions;
  extensions.add(milliseconds(1));
  const uint64_t first = extensions.take_up();
  extensions.add(milliseconds(10));
  extensions.add(milliseconds(100));
  const uint64_t second = extensions.take_up();
  EXPECT_NE(first, second);
  extensions.release(second);
  EXPECT_EQ(extensions.total(), milliseconds(1));
  extensions.release(first);
  EXPECT_EQ(extensions.total(), milliseconds(0));
}

}  // namespace
}  // namespace switchml
