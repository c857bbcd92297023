#include "exact/exact_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/in_place.h"

namespace switchml::testing {
namespace {

/// Of what no block is left out.
size_t encode(const ExactCodec& codec, ElementRange range, uint8_t* out) {
  size_t left_out = 0;
  const size_t bytes = codec.encode(range, out, &left_out);
  EXPECT_EQ(left_out, 0U);
  return bytes;
}

TEST(ExactCodec, ElementsTravelAsTheyLieInMemory) {
  std::vector<uint16_t> tensor(100);
  std::iota(tensor.begin(), tensor.end(), uint16_t{0x7f00});  // infinities and NaNs of bfloat16 among them
  const Collective c = in_place(ReduceOp::kSum, ElementType::kBFloat16, tensor);
  std::vector<uint8_t> chunk(40, 0xee);
  ASSERT_EQ(encode(ExactCodec(c, 0, 2), {30, 15}, chunk.data()), 30U);
  EXPECT_EQ(std::memcmp(chunk.data(), tensor.data() + 30, 30), 0);
  EXPECT_EQ(chunk[30], 0xee);
  EXPECT_EQ(encode(ExactCodec(c, 0, 2), {30, 0}, chunk.data()), 0U);
}

TEST(ExactCodec, OnlyASumOfFloatsIsDivided) {
  std::vector<double> floats(1);
  std::vector<int64_t> integers(1);
  const auto divisor = [](Collective c) {
    c.operands()->divisor = 128;
    return ExactCodec(c, 0, 2).divisor();
  };
  EXPECT_EQ(divisor(in_place(ReduceOp::kSum, ElementType::kFloat64, floats)), 128);
  EXPECT_EQ(divisor(in_place(ReduceOp::kMax, ElementType::kFloat64, floats)), 1);
  EXPECT_EQ(divisor(in_place(ReduceOp::kProduct, ElementType::kFloat64, floats)), 1);
  EXPECT_EQ(divisor(in_place(ReduceOp::kSum, ElementType::kInt64, integers)), 1);
}

// Rounded to their type, and not divided: the aggregator does that, once.
TEST(ExactCodec, AHostSendsWhatItsRanksMakeTogether) {  // [ELANE-7]
  const std::array<std::vector<float>, 3> ranks = {{{9, 1e8F, 1, 3}, {9, 1, 0x1p-30F, 3}, {9, -1e8F, 0, 3}}};
  Collective c;
  c.count = 4;
  c.operands()->divisor = 6;
  for (const auto& rank : ranks) c.operands()->inputs.push_back(rank.data());
  const auto sent = [&] {
    std::vector<float> chunk(3);
    EXPECT_EQ(encode(ExactCodec(c, 0, 2), {1, 3}, reinterpret_cast<uint8_t*>(chunk.data())), 12U);
    return chunk;
  };
  EXPECT_EQ(sent(), (std::vector<float>{1, 1, 9}));
  c.op = ReduceOp::kMin;
  EXPECT_EQ(sent(), (std::vector<float>{-1e8F, 0, 3}));
  c.op = ReduceOp::kProduct;
  EXPECT_EQ(sent(), (std::vector<float>{-1e16F, 0, 27}));
}

// Blocks are the tensor's: those of elements 100 to 700 are of 156, 256 and 188, and the ranks have the second.
TEST(ExactCodec, AHostLeavesOutWhatIsZeroOnAllOfItsRanks) {  // [ZERO-1]
  std::array<std::vector<float>, 2> ranks = {std::vector<float>(1000), std::vector<float>(1000)};
  std::fill(ranks[0].begin() + 256, ranks[0].begin() + 512, 1.5F);
  ranks[1][300] = 1;
  Collective c;
  c.count = 1000;
  for (const auto& rank : ranks) c.operands()->inputs.push_back(rank.data());
  const ExactCodec codec(c, 0, 2);
  std::vector<uint8_t> chunk(2400);
  EXPECT_EQ(codec.pack({100, 600}, chunk.data()).bytes, 0U) << "it lies nowhere";
  size_t left_out = 0;
  ASSERT_EQ(codec.encode({100, 600}, chunk.data(), &left_out), 256U * 4 + 1 + 4);
  EXPECT_EQ(left_out, 2U);
  std::vector<float> sent(256);
  std::memcpy(sent.data(), chunk.data(), 1024);
  EXPECT_EQ(sent[0], 1.5F);
  EXPECT_EQ(sent[44], 2.5F);
  EXPECT_EQ(chunk[1024], 0b010);
}

// The sum of three is beyond float16, the mean of all is not. [ELANE-8]
TEST(ExactCodec, AMeanOfFloat16IsDividedBeforeTheSumOfAHostIsRounded) {
  const uint16_t value = 0x7753;  // 30000 as float16
  Collective c;
  c.type = ElementType::kFloat16;
  c.count = 1;
  c.operands()->divisor = 6;
  c.operands()->inputs = {&value, &value, &value};
  uint16_t sent = 0;
  ASSERT_EQ(encode(ExactCodec(c, 0, 2), {0, 1}, reinterpret_cast<uint8_t*>(&sent)), 2U);
  EXPECT_EQ(sent, 0x7353);  // 15000
  EXPECT_EQ(ExactCodec(c, 0, 2).divisor(), 1);
  std::vector<uint16_t> alone(1);
  c = in_place(ReduceOp::kSum, ElementType::kFloat16, alone);
  c.operands()->divisor = 6;
  EXPECT_EQ(ExactCodec(c, 0, 2).divisor(), 6);
}

// The header has no room for such a divisor. [ELANE-8, PART-3]
TEST(ExactCodec, AMeanOfManyRanksIsDividedByHostsOrWherePartialSumsMeet) {
  const float three = 3, five = 5;
  Collective c;
  c.count = 1;
  c.operands()->inputs = {&three, &five};
  for (const uint32_t divisor : {128U, 129U, 1024U}) {
    c.operands()->divisor = divisor;
    float sent = 0;
    ASSERT_EQ(encode(ExactCodec(c, 0, 2), {0, 1}, reinterpret_cast<uint8_t*>(&sent)), 4U);
    EXPECT_EQ(sent, divisor > 128 ? 8 / static_cast<float>(divisor) : 8.0F);
    EXPECT_EQ(ExactCodec(c, 0, 2).divisor(), divisor > 128 ? 1 : divisor);
    const ExactCodec partial(c, 0, 2, false, true, 512);
    std::array<uint8_t, 512> payload{};
    ASSERT_EQ(encode(partial, {0, 1}, payload.data()), 16U);
    EXPECT_EQ(partial.divisor(), divisor > 128 ? 1 : divisor);
    EXPECT_EQ(payload[6] | payload[7] << 8, divisor > 128 ? divisor : 0);
  }
  c.operands()->inputs.clear();
  c.count = 0;
  EXPECT_EQ(ExactCodec(c, 0, 2).divisor(), 1) << "an announcement";
}

TEST(ExactCodec, AMeanOfFloat16IsDividedByEachWorkerOfATree) {  // [ETREE-6]
  const uint16_t six = 0x4600, two = 0x4000;
  std::vector<uint16_t> tensor = {six};
  Collective c = in_place(ReduceOp::kSum, ElementType::kFloat16, tensor);
  c.operands()->divisor = 3;
  const ExactCodec codec(c, 0, 3, true);
  uint16_t sent = 0;
  EXPECT_EQ(codec.source({0, 1}), nullptr);
  ASSERT_EQ(encode(codec, {0, 1}, reinterpret_cast<uint8_t*>(&sent)), 2U);
  EXPECT_EQ(sent, two);
  EXPECT_EQ(codec.divisor(), 1);
  c.operands()->divisor = 1;
  EXPECT_EQ(encode(codec, {0, 1}, reinterpret_cast<uint8_t*>(&sent)), 2U);
  EXPECT_EQ(sent, six) << "a sum";
}

TEST(ExactCodec, SendsPartialSumsOfFloatsWhereTheyAreWanted) {  // [PART-1, PART-4]
  const std::vector<float> one = {1, 2, 3};
  std::vector<float> result(3);
  Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, result);
  c.operands()->inputs = {one.data(), one.data(), one.data()};
  c.operands()->divisor = 6;
  std::array<uint8_t, 512> sent{};
  const ExactCodec codec(c, 0, 2, true, true, sent.size());
  EXPECT_EQ(codec.operation(), ReduceOp::kPartialSum);
  EXPECT_EQ(codec.divisor(), 6) << "of float16 too";
  ASSERT_EQ(encode(codec, {1, 2}, sent.data()), 8U + 2 * sizeof(double));
  double sums[2];
  std::memcpy(sums, sent.data() + 8, sizeof sums);
  EXPECT_EQ(sums[0], 6);
  EXPECT_EQ(sums[1], 9);
  c.type = ElementType::kFloat16;
  EXPECT_EQ(ExactCodec(c, 0, 2, true, true, 512).divisor(), 6);
  c.operands()->inputs = {};
  EXPECT_EQ(ExactCodec(c, 0, 2, true, true, 512).source({0, 2}), nullptr) << "there is a head in front";
  c.type = ElementType::kInt32;
  EXPECT_EQ(ExactCodec(c, 0, 2, true, true, 512).operation(), ReduceOp::kSum);
  c.type = ElementType::kFloat32;
  c.op = ReduceOp::kMax;
  EXPECT_EQ(ExactCodec(c, 0, 2, true, true, 512).operation(), ReduceOp::kMax);
}

TEST(ExactCodec, WritesWhatIsAskedFor) {
  std::vector<int32_t> input(100), output(22, -1);
  Collective c = in_place(ReduceOp::kMax, ElementType::kInt32, input);
  c.operands()->output.data = output.data() + 1;
  c.operands()->output.begin = 40;
  c.operands()->output.end = 60;
  std::vector<int32_t> chunk(30);
  for (const size_t first : {0, 30, 60, 90}) {  // before it and its begin, its end, behind it
    const size_t count = std::min<size_t>(30, 100 - first);
    std::iota(chunk.begin(), chunk.end(), static_cast<int32_t>(first));
    ExactCodec(c, 0, 2).decode({reinterpret_cast<const uint8_t*>(chunk.data())}, {first, count});
  }
  EXPECT_EQ(output.front(), -1);
  EXPECT_EQ(output.back(), -1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(output[static_cast<size_t>(i) + 1], 40 + i);
}

// ---- narrow terms, and a result of float32 ----

struct NarrowSum {
  std::vector<uint16_t> input = std::vector<uint16_t>(100);
  std::vector<float> output = std::vector<float>(22, -1);
  Collective call;

  NarrowSum() {
    call.op = ReduceOp::kSumToFloat32;
    call.type = ElementType::kBFloat16;
    call.count = input.size();
    call.operands()->input = input.data();
    call.operands()->output = {output.data() + 1, 40, 60};
    call.operands()->divisor = 2;
  }
};

TEST(ExactCodec, ASumToFloat32SendsNarrowTermsAndTakesFloats) {  // [NSUM-1, NSUM-4]
  NarrowSum sum;
  const ExactCodec codec(sum.call, 0, 2);
  EXPECT_EQ(codec.bytes({30, 15}), 30U);
  EXPECT_EQ(codec.result_bytes({30, 15}), 60U);
  EXPECT_EQ(codec.divisor(), 2);
  std::vector<float> chunk(30);
  for (const size_t first : {0, 30, 60, 90}) {
    std::iota(chunk.begin(), chunk.end(), static_cast<float>(first));
    codec.decode({reinterpret_cast<const uint8_t*>(chunk.data())}, {first, std::min<size_t>(30, 100 - first)});
  }
  EXPECT_EQ(sum.output.front(), -1);
  EXPECT_EQ(sum.output.back(), -1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sum.output[static_cast<size_t>(i) + 1], static_cast<float>(40 + i));
}

TEST(ExactCodec, ItsTargetIsAmongFloatsAndItsSourceAmongTerms) {
  NarrowSum sum;
  const ExactCodec codec(sum.call, 0, 2);
  EXPECT_EQ(codec.target({45, 5}), reinterpret_cast<uint8_t*>(sum.output.data() + 6));
  EXPECT_EQ(codec.source({45, 5}), reinterpret_cast<uint8_t*>(sum.input.data() + 45));
}

// ---- what moves ----

// ---- in place ----

TEST(ExactCodec, ElementsAreTheTensorsUnlessAResultMayComeBeforeThem) {
  std::vector<int32_t> tensor(100), other(100);
  Collective c = in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  const auto source = [&](ElementRange range) { return ExactCodec(c, 0, 2).source(range); };
  const auto at = [](const int32_t* element) { return reinterpret_cast<const uint8_t*>(element); };
  EXPECT_EQ(source({30, 15}), at(&tensor[30]));
  EXPECT_EQ(source({30, 0}), nullptr);
  c.operands()->output.data = other.data();
  EXPECT_EQ(source({30, 15}), at(&tensor[30]));
  c.operands()->output.begin = 50;
  c.operands()->output.end = 75;
  c.operands()->output.data = &tensor[50];
  EXPECT_EQ(source({30, 15}), at(&tensor[30])) << "a part of the result, where it belongs";
  c.operands()->output.data = tensor.data();
  EXPECT_EQ(source({30, 15}), nullptr) << "elements 50 to 75 of the result, where 0 to 25 of the input are";
  c.operands()->output.data = tensor.data() - 25;
  EXPECT_EQ(source({30, 15}), at(&tensor[30])) << "right before it";
  c.operands()->output.data = tensor.data() + 100;
  EXPECT_EQ(source({30, 15}), at(&tensor[30])) << "right behind it";
  c.operands()->inputs = {tensor.data(), other.data()};
  EXPECT_EQ(source({30, 15}), nullptr) << "several ranks' have to be added first";
}

TEST(ExactCodec, TheTargetIsWhereAllOfAResultGoes) {
  std::vector<int16_t> tensor(100);
  Collective c = in_place(ReduceOp::kMax, ElementType::kInt16, tensor);
  const auto target = [&](ElementRange range) { return ExactCodec(c, 0, 2).target(range); };
  const auto at = [](int16_t* element) { return reinterpret_cast<uint8_t*>(element); };
  EXPECT_EQ(target({30, 15}), at(&tensor[30]));
  EXPECT_EQ(target({30, 0}), nullptr);
  c.operands()->output.begin = 40;
  c.operands()->output.end = 60;
  EXPECT_EQ(target({40, 20}), at(&tensor[0]));
  EXPECT_EQ(target({45, 10}), at(&tensor[5]));
  EXPECT_EQ(target({39, 2}), nullptr);
  EXPECT_EQ(target({59, 2}), nullptr);
  EXPECT_EQ(target({0, 10}), nullptr);
}

template <typename Kind>
Collective moved(Kind kind, size_t bytes) {
  Collective c;
  c.type = ElementType::kUInt8;
  c.kind = std::move(kind);
  c.count = bytes;
  return c;
}

/// What a worker sends of elements [begin, begin + count); the frame is full of old bytes.
std::vector<int> sent(const Collective& c, int worker, ElementRange range) {
  std::vector<uint8_t> chunk(range.count, 0xee);
  chunk.resize(encode(ExactCodec(c, worker, 3), range, chunk.data()));
  return {chunk.begin(), chunk.end()};
}

TEST(ExactCodec, TheRootOfABroadcastSendsAndTheOthersWant) {  // [MOVED-2]
  const std::vector<uint8_t> tensor = {1, 2, 3, 4, 5};
  std::vector<uint8_t> output(5);
  Collective c = moved(Broadcast{1, tensor.data(), nullptr}, 5);
  EXPECT_EQ(sent(c, 1, {2, 2}), (std::vector<int>{3, 4}));
  EXPECT_FALSE(ExactCodec(c, 1, 3).wants({2, 2}));
  c = moved(Broadcast{1, nullptr, output.data()}, 5);
  EXPECT_EQ(sent(c, 0, {2, 2}), std::vector<int>{});
  EXPECT_TRUE(ExactCodec(c, 0, 3).wants({2, 2}));
  ExactCodec(c, 0, 3).decode({tensor.data() + 2}, {2, 2});
  EXPECT_EQ(output, (std::vector<uint8_t>{0, 0, 3, 4, 0}));
}

TEST(ExactCodec, WhatMovesIsNotPacked) {  // [ZERO-7]
  std::vector<uint8_t> zeros(1000), chunk(1000);
  const Collective c = moved(Broadcast{1, zeros.data(), nullptr}, 1000);
  EXPECT_EQ(ExactCodec(c, 1, 2).pack({0, 1000}, chunk.data()).bytes, 0U);
}

// Pieces of 3: a chunk of 4 has some of two of them, and zeros where another's are.
TEST(ExactCodec, ABroadcastIsInPlaceAndNothingElseThatMoves) {
  std::vector<uint8_t> tensor(5);
  Collective c = moved(Broadcast{1, tensor.data(), nullptr}, 5);
  EXPECT_EQ(ExactCodec(c, 1, 2).source({1, 3}), &tensor[1]);
  EXPECT_EQ(ExactCodec(c, 0, 2).source({1, 3}), nullptr);
  c = moved(Broadcast{1, nullptr, tensor.data()}, 5);
  EXPECT_EQ(ExactCodec(c, 0, 2).target({1, 3}), &tensor[1]);
  for (const Collective& other : {moved(Gather{tensor.data(), {}}, 5), moved(Scatter{1, {}, tensor.data()}, 5)}) {
    c = other;
    EXPECT_EQ(ExactCodec(c, 1, 2).source({1, 3}), nullptr);
    EXPECT_EQ(ExactCodec(c, 1, 2).target({1, 3}), nullptr);
  }
}

TEST(ExactCodec, AGatheringTellsHowFarEachPieceIs) {
  std::vector<uint8_t> mine(10), all(30);
  ResultWatermark first, last;
  Collective c = moved(Gather{mine.data(), {}, {&first, nullptr, &last}}, 10);
  for (size_t i = 0; i < 3; ++i) c.gather()->receive_ranges.push_back({all.data() + 10 * i, 0, 10});
  const ExactCodec codec(c, 1, 3);
  codec.report_written({0, 7});
  EXPECT_EQ(first.elements(), 7U);
  codec.report_written({7, 15});
  EXPECT_EQ(first.elements(), 10U);
  EXPECT_EQ(last.elements(), 2U);
  codec.report_written({22, 8});
  EXPECT_EQ(last.elements(), 10U);
}

TEST(ExactCodec, AWorkerGathersItsPieceAmongZeros) {  // [MOVED-3, MOVED-6]
  const std::vector<uint8_t> tensor = {1, 2, 3};
  Collective c = moved(Gather{tensor.data(), {}}, 3);
  EXPECT_EQ(sent(c, 1, {0, 4}), (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(sent(c, 1, {4, 4}), (std::vector<int>{2, 3, 0, 0}));
  EXPECT_EQ(sent(c, 1, {3, 3}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(sent(c, 1, {8, 1}), std::vector<int>{});
  EXPECT_FALSE(ExactCodec(c, 1, 3).wants({0, 9}));

  std::vector<std::vector<uint8_t>> outputs(3, std::vector<uint8_t>(3));
  for (auto& output : outputs) c.gather()->receive_ranges.push_back({output.data(), 0, 3});
  EXPECT_TRUE(ExactCodec(c, 1, 3).wants({8, 1}));
  EXPECT_FALSE(ExactCodec(c, 1, 3).wants({4, 2})) << "it has that itself";
  EXPECT_EQ(sent(c, 1, {4, 2}), (std::vector<int>{2, 3}));
  EXPECT_EQ(outputs[1], (std::vector<uint8_t>{0, 2, 3}));
  const std::vector<uint8_t> result = {10, 11, 12, 20, 21, 22, 30, 31, 32};
  for (const size_t begin : {0, 4, 8}) {
    ExactCodec(c, 1, 3).decode({result.data() + begin}, {begin, std::min<size_t>(4, 9 - begin)});
  }
  EXPECT_EQ(outputs, (std::vector<std::vector<uint8_t>>{{10, 11, 12}, {20, 21, 22}, {30, 31, 32}}));
}

TEST(ExactCodec, TheRootScattersAndEachTakesItsOwn) {  // [MOVED-4]
  const std::vector<std::vector<uint8_t>> pieces = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  std::vector<uint8_t> output(3);
  Collective c = moved(Scatter{0, {}, output.data()}, 3);
  EXPECT_EQ(sent(c, 2, {0, 9}), std::vector<int>{});
  EXPECT_FALSE(ExactCodec(c, 2, 3).wants({0, 6}));
  EXPECT_TRUE(ExactCodec(c, 2, 3).wants({4, 4}));
  for (const auto& piece : pieces) std::get<Scatter>(c.kind).inputs.push_back(piece.data());
  EXPECT_EQ(sent(c, 0, {2, 5}), (std::vector<int>{3, 4, 5, 6, 7}));
  const std::vector<uint8_t> chunk = {6, 7, 8, 9};
  ExactCodec(c, 2, 3).decode({chunk.data()}, {5, 4});
  EXPECT_EQ(output, pieces[2]);
}

}  // namespace
}  // namespace switchml::testing
