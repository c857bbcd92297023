#include "engine/native_codec.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "in_place.h"

namespace switchml::testing {
namespace {

TEST(NativeCodec, ElementsTravelAsTheyLieInMemory) {
  std::vector<uint16_t> tensor(100);
  std::iota(tensor.begin(), tensor.end(), uint16_t{0x7f00});  // infinities and NaNs of bfloat16 among them
  const Collective c = in_place(ReduceOp::kSum, ElementType::kBFloat16, tensor);
  std::vector<uint8_t> chunk(40, 0xee);
  ASSERT_EQ(NativeCodec(c, 0, 2).encode({30, 15}, chunk.data()), 30U);
  EXPECT_EQ(std::memcmp(chunk.data(), tensor.data() + 30, 30), 0);
  EXPECT_EQ(chunk[30], 0xee);
  EXPECT_EQ(NativeCodec(c, 0, 2).encode({30, 0}, chunk.data()), 0U);
}

TEST(NativeCodec, OnlyASumOfFloatsIsDivided) {
  std::vector<double> floats(1);
  std::vector<int64_t> integers(1);
  const auto divisor = [](Collective c) {
    c.divisor = 128;
    return NativeCodec(c, 0, 2).divisor();
  };
  EXPECT_EQ(divisor(in_place(ReduceOp::kSum, ElementType::kFloat64, floats)), 128);
  EXPECT_EQ(divisor(in_place(ReduceOp::kMax, ElementType::kFloat64, floats)), 1);
  EXPECT_EQ(divisor(in_place(ReduceOp::kProduct, ElementType::kFloat64, floats)), 1);
  EXPECT_EQ(divisor(in_place(ReduceOp::kSum, ElementType::kInt64, integers)), 1);
}

// Rounded to their type, and not divided: the aggregator does that, once.
TEST(NativeCodec, AHostSendsWhatItsRanksMakeTogether) {
  const std::array<std::vector<float>, 3> ranks = {{{9, 1e8F, 1, 3}, {9, 1, 0x1p-30F, 3}, {9, -1e8F, 0, 3}}};
  Collective c;
  c.count = 4;
  c.divisor = 6;
  for (const auto& rank : ranks) c.inputs.push_back(rank.data());
  const auto sent = [&] {
    std::vector<float> chunk(3);
    EXPECT_EQ(NativeCodec(c, 0, 2).encode({1, 3}, reinterpret_cast<uint8_t*>(chunk.data())), 12U);
    return chunk;
  };
  EXPECT_EQ(sent(), (std::vector<float>{1, 1, 9}));
  c.op = ReduceOp::kMin;
  EXPECT_EQ(sent(), (std::vector<float>{-1e8F, 0, 3}));
  c.op = ReduceOp::kProduct;
  EXPECT_EQ(sent(), (std::vector<float>{-1e16F, 0, 27}));
}

// The sum of three is beyond float16, the mean of all is not.
TEST(NativeCodec, AMeanOfFloat16IsDividedBeforeTheSumOfAHostIsRounded) {
  const uint16_t value = 0x7753;  // 30000 as float16
  Collective c;
  c.type = ElementType::kFloat16;
  c.count = 1;
  c.divisor = 6;
  c.inputs = {&value, &value, &value};
  uint16_t sent = 0;
  ASSERT_EQ(NativeCodec(c, 0, 2).encode({0, 1}, reinterpret_cast<uint8_t*>(&sent)), 2U);
  EXPECT_EQ(sent, 0x7353);  // 15000
  EXPECT_EQ(NativeCodec(c, 0, 2).divisor(), 1);
  std::vector<uint16_t> alone(1);
  c = in_place(ReduceOp::kSum, ElementType::kFloat16, alone);
  c.divisor = 6;
  EXPECT_EQ(NativeCodec(c, 0, 2).divisor(), 6);
}

TEST(NativeCodec, WritesWhatIsAskedFor) {
  std::vector<int32_t> input(100), output(22, -1);
  Collective c = in_place(ReduceOp::kMax, ElementType::kInt32, input);
  c.output = output.data() + 1;
  c.output_begin = 40;
  c.output_end = 60;
  std::vector<int32_t> chunk(30);
  for (const size_t first : {0, 30, 60, 90}) {  // before it and its begin, its end, behind it
    const size_t count = std::min<size_t>(30, 100 - first);
    std::iota(chunk.begin(), chunk.end(), static_cast<int32_t>(first));
    NativeCodec(c, 0, 2).decode(reinterpret_cast<const uint8_t*>(chunk.data()), {first, count});
  }
  EXPECT_EQ(output.front(), -1);
  EXPECT_EQ(output.back(), -1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(output[static_cast<size_t>(i) + 1], 40 + i);
}

}  // namespace
}  // namespace switchml::testing
