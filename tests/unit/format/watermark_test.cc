#include "format/watermark.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(ResultWatermark, TellsWhenSoManyMoreAreThere) {
  ResultWatermark result;
  std::vector<size_t> heard;
  result.tell(10, [&] { heard.push_back(result.elements()); });
  result.written(0, 9);
  result.written(20, 30);
  EXPECT_TRUE(heard.empty());
  result.written(9, 20);
  result.written(30, 39);
  result.written(39, 45);
  EXPECT_EQ(heard, (std::vector<size_t>{30, 45}));
}

}  // namespace
}  // namespace switchml
