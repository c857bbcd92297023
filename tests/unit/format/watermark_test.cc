#include "format/watermark.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(ResultWatermark, IsBeforeTheFirstGap) {
  ResultWatermark result;
  EXPECT_EQ(result.elements(), 0U);
  result.written(10, 20);
  result.written(30, 40);
  EXPECT_EQ(result.elements(), 0U);
  result.written(0, 10);
  EXPECT_EQ(result.elements(), 20U);
  result.written(15, 25);
  EXPECT_EQ(result.elements(), 25U);
  result.written(25, 30);
  EXPECT_EQ(result.elements(), 40U);
  result.written(3, 7);
  EXPECT_EQ(result.elements(), 40U) << "it never falls";
}

}  // namespace
}  // namespace switchml
