// Tensors of all workers of a cluster, and what their sums must be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cluster.h"
#include "in_place.h"
#include "integer/block_exponent.h"

namespace switchml::testing {

template <typename T>
using Tensors = std::vector<std::vector<T>>;

inline Tensors<float> random_floats(int workers, size_t count, uint32_t seed, float spread = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  Tensors<float> tensors(static_cast<size_t>(workers), std::vector<float>(count));
  for (auto& tensor : tensors) {
    for (float& x : tensor) x = normal(random);
  }
  return tensors;
}

// In-place all-reduce of all workers' tensors; all must succeed.
template <typename T>
void all_reduce(Cluster& cluster, ReduceOp op, ElementType type, Tensors<T>& tensors, uint32_t divisor = 1) {
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (size_t w = 0; w < tensors.size(); ++w) {
    Collective c = in_place(op, type, tensors[w]);
    c.operands()->divisor = divisor;
    outcomes.push_back(cluster.submit(static_cast<int>(w), c));
  }
  ASSERT_TRUE(cluster.run());
  for (const auto& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    ASSERT_TRUE(outcome->front().ok()) << outcome->front().to_string();
  }
}

// The bound that block floating point promises: n/2 units of the block's quantum, plus the result's own rounding.
inline void expect_sums(const Tensors<float>& inputs, const std::vector<float>& result, size_t block,
                        uint32_t divisor = 1) {
  const int n = static_cast<int>(inputs.size());
  const int bits = magnitude_bits(n, 32, 24);
  for (size_t begin = 0; begin < result.size(); begin += block) {
    const size_t end = std::min(begin + block, result.size());
    double largest = 0;
    for (const auto& input : inputs) {
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(static_cast<double>(input[i])));
    }
    const double quantum = std::ldexp(1.0, std::max(std::ilogb(largest) + 1, -125) - bits);
    for (size_t i = begin; i < end; ++i) {
      double sum = 0;
      for (const auto& input : inputs) sum += input[i];
      const double bound = (n / 2.0 * quantum + std::fabs(sum) * 1.2e-7) / divisor + 1e-45;
      ASSERT_NEAR(result[i], sum / divisor, bound) << "element " << i;
    }
  }
}

}  // namespace switchml::testing
