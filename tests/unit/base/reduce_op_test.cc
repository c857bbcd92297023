#include "base/reduce_op.h"

#include <gtest/gtest.h>

#include <iterator>

namespace switchml {
namespace {

TEST(ReduceOp, HasAName) {
  EXPECT_STREQ(to_string(ReduceOp::kSum), "SUM");
  EXPECT_STREQ(to_string(ReduceOp::kMin), "MIN");
  EXPECT_STREQ(to_string(ReduceOp::kMax), "MAX");
  EXPECT_STREQ(to_string(ReduceOp::kBarrier), "BARRIER");
  EXPECT_STREQ(to_string(ReduceOp::kProduct), "PRODUCT");
  EXPECT_STREQ(to_string(ReduceOp::kAnd), "BAND");
  EXPECT_STREQ(to_string(ReduceOp::kOr), "BOR");
  EXPECT_STREQ(to_string(ReduceOp::kXor), "BXOR");
  EXPECT_STREQ(to_string(ReduceOp::kSumToFloat32), "SUM to float32");
  EXPECT_STREQ(to_string(static_cast<ReduceOp>(200)), "?");
}

TEST(ReduceOp, NumbersThatPeersRelyOn) {
  const ReduceOp in_order[] = {ReduceOp::kSum,     ReduceOp::kMin,     ReduceOp::kMax,
                               ReduceOp::kBarrier, ReduceOp::kProduct, ReduceOp::kAnd,
                               ReduceOp::kOr,      ReduceOp::kXor,     ReduceOp::kSumToFloat32};
  EXPECT_EQ(std::size(in_order), static_cast<size_t>(kReduceOps));
  for (size_t i = 0; i < std::size(in_order); ++i) {
    EXPECT_EQ(static_cast<size_t>(in_order[i]), i);
    EXPECT_EQ(is_bitwise(in_order[i]), i >= 5 && i <= 7);
  }
}

constexpr ReduceOp kBitwise[] = {ReduceOp::kAnd, ReduceOp::kOr, ReduceOp::kXor};

TEST(ReduceOp, WhatASwitchThatAddsIntegersCan) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    const bool fits = t <= static_cast<int>(ElementType::kInt64);
    EXPECT_FALSE(integer_can(ReduceOp::kSumToFloat32, type)) << to_string(type);
    EXPECT_EQ(integer_can(ReduceOp::kSum, type), fits) << to_string(type);
    EXPECT_TRUE(integer_can(ReduceOp::kBarrier, type)) << to_string(type);
    EXPECT_EQ(integer_can(ReduceOp::kMax, type), fits && type != ElementType::kInt64) << to_string(type);
    EXPECT_EQ(integer_can(ReduceOp::kMin, type), fits && type != ElementType::kInt64) << to_string(type);
    EXPECT_FALSE(integer_can(ReduceOp::kProduct, type)) << to_string(type);
    for (const ReduceOp op : kBitwise) EXPECT_FALSE(integer_can(op, type)) << to_string(type);
  }
}

TEST(ReduceOp, WhatWhoKeepsContributionsCan) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      EXPECT_EQ(exact_can(op, type), type != ElementType::kBool && !is_scaled(type))
          << to_string(op) << " of " << to_string(type);
    }
    const bool has_bits = !is_floating(type) && !is_scaled(type);
    for (const ReduceOp op : kBitwise) EXPECT_EQ(exact_can(op, type), has_bits) << to_string(type);
    EXPECT_EQ(exact_can(ReduceOp::kSumToFloat32, type), t == 1 || t == 2 || t >= 10) << to_string(type);
    EXPECT_TRUE(exact_can(ReduceOp::kBarrier, type)) << to_string(type);
  }
}

TEST(ReduceOp, WhatAResultTakes) {  // [NSUM-4]
  EXPECT_EQ(result_bytes(ReduceOp::kSum, ElementType::kBFloat16), 2U);
  EXPECT_EQ(result_bytes(ReduceOp::kSumToFloat32, ElementType::kBFloat16), 4U);
  EXPECT_EQ(result_bytes(ReduceOp::kSumToFloat32, ElementType::kFloat8E5M2), 4U);
  EXPECT_EQ(result_bytes(ReduceOp::kSumToFloat32, ElementType::kScaledInt8), 256U);
  EXPECT_EQ(payload_bytes_of_element(ReduceOp::kSum, ElementType::kInt64), 8U);
  EXPECT_EQ(payload_bytes_of_element(ReduceOp::kSumToFloat32, ElementType::kScaledFloat8), 256U);
}

}  // namespace
}  // namespace switchml
