#include "tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/limits.h"
#include "integer/block_exponent.h"

namespace switchml::accuracy {
namespace {

using Sizes = std::vector<int>;

Tensors tensors(const std::vector<float>& values, int workers) {
  return {ElementType::kFloat32, reinterpret_cast<const uint8_t*>(values.data()), workers,
          values.size() / static_cast<size_t>(workers)};
}

TEST(AccuracyTree, NodesAreAsEvenAsTheyCanBe) {
  EXPECT_EQ(split(8, 1), Sizes({1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(split(8, 3), Sizes({4, 4}));
  EXPECT_EQ(split(8, 2), Sizes({2, 3, 3}));
  EXPECT_EQ(split(1024, 2), Sizes(32, 32));
  EXPECT_EQ(split(1, 4), Sizes({1}));
  for (int workers = 1; workers <= 1024; ++workers) {
    for (int levels = 1; levels <= 4; ++levels) {
      const Sizes below = split(workers, levels);
      EXPECT_EQ(std::accumulate(below.begin(), below.end(), 0), workers);
      EXPECT_GE(below.front(), 1);
      EXPECT_LE(*std::max_element(below.begin(), below.end()), *std::min_element(below.begin(), below.end()) + 1);
    }
  }
}

TEST(AccuracyTree, IntegersOfAllWorkersFit32Bits) {
  for (int workers = 1; workers <= 4096; ++workers) {
    const int bits = magnitude_bits(workers);
    if (workers <= kMaxWorkers) {
      EXPECT_EQ(bits, magnitude_bits(workers)) << workers;
    }
    const int64_t largest = bits >= 24 ? (int64_t{1} << bits) - 1 : int64_t{1} << bits;
    EXPECT_LT(workers * largest, int64_t{1} << 31) << workers;
  }
  EXPECT_EQ(magnitude_bits(129), 23);
  EXPECT_EQ(magnitude_bits(256), 22);
  EXPECT_EQ(magnitude_bits(1024), 20);
}

// 2^24 + 1 is no float32: 1 is lost where it meets 2^24 alone, not where it meets another 1 first.
TEST(AccuracyTree, EveryLevelRoundsOnce) {
  const std::vector<float> values = {0x1p24F, 1.0F, 1.0F, 0.0F};
  float sum = 0;
  auto* out = reinterpret_cast<uint8_t*>(&sum);
  ASSERT_TRUE(exact_sum(tensors(values, 4), 1, out).ok());
  EXPECT_EQ(sum, 0x1p24F + 2);
  ASSERT_TRUE(exact_sum(tensors(values, 4), 2, out).ok());
  EXPECT_EQ(sum, 0x1p24F);
  chain_sum(tensors(values, 4), out);
  EXPECT_EQ(sum, 0x1p24F);
}

TEST(AccuracyTree, ANodeTakesAsManyChildrenAsASessionTakesWorkers) {
  const std::vector<float> values(kMaxWorkers + 1, 1.0F);
  float sum = 0;
  auto* out = reinterpret_cast<uint8_t*>(&sum);
  const Status status = exact_sum(tensors(values, kMaxWorkers + 1), 1, out);
  EXPECT_EQ(status.message(), "a node with 129 children: allowed are up to 128; use more levels");
  ASSERT_TRUE(exact_sum(tensors(values, kMaxWorkers + 1), 2, out).ok());
  EXPECT_EQ(sum, 129.0F);
}

TEST(AccuracyTree, IntegersAreTheSameInEveryTree) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(37 * 300);
  for (float& value : values) value = normal(random);
  std::vector<float> flat(300);
  const IntegerSum once = integer_sum(tensors(values, 37), 1, reinterpret_cast<uint8_t*>(flat.data()));
  for (int levels = 2; levels <= 4; ++levels) {
    std::vector<float> deep(300);
    const IntegerSum again = integer_sum(tensors(values, 37), levels, reinterpret_cast<uint8_t*>(deep.data()));
    EXPECT_EQ(again.words, once.words);
    EXPECT_EQ(again.lost, once.lost);
    EXPECT_EQ(deep, flat);
  }
}

TEST(AccuracyTree, WhatIsFarBelowTheBlocksLargestIsLostAndCounted) {
  const std::vector<float> values = {1.0F, 1e-12F, 0.0F, 1.0F, -1e-12F, -0.0F};
  std::vector<float> sum(3);
  const IntegerSum found = integer_sum(tensors(values, 2), 1, reinterpret_cast<uint8_t*>(sum.data()));
  EXPECT_EQ(found.lost, 2U);
  EXPECT_EQ(sum, std::vector<float>({2.0F, 0.0F, 0.0F}));
}

}  // namespace
}  // namespace switchml::accuracy
