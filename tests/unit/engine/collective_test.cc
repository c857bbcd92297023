#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/engine.h"

namespace switchml {
namespace {

TEST(Collective, OperationsHaveNames) {
  EXPECT_STREQ(to_string(ReduceOp::kSum), "SUM");
  EXPECT_STREQ(to_string(ReduceOp::kMin), "MIN");
  EXPECT_STREQ(to_string(ReduceOp::kMax), "MAX");
  EXPECT_STREQ(to_string(ReduceOp::kBarrier), "BARRIER");
  EXPECT_STREQ(to_string(ReduceOp::kProduct), "PRODUCT");
  EXPECT_STREQ(to_string(ReduceOp::kAnd), "BAND");
  EXPECT_STREQ(to_string(ReduceOp::kOr), "BOR");
  EXPECT_STREQ(to_string(ReduceOp::kXor), "BXOR");
  EXPECT_STREQ(to_string(static_cast<ReduceOp>(200)), "?");
}

constexpr ReduceOp kBitwise[] = {ReduceOp::kAnd, ReduceOp::kOr, ReduceOp::kXor};

TEST(Collective, WhatTheSwitchCan) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    const bool fits = type != ElementType::kFloat64 && type != ElementType::kBool;
    EXPECT_EQ(integer_can(ReduceOp::kSum, type), fits) << to_string(type);
    EXPECT_TRUE(integer_can(ReduceOp::kBarrier, type)) << to_string(type);
    EXPECT_EQ(integer_can(ReduceOp::kMax, type), fits && type != ElementType::kInt64) << to_string(type);
    EXPECT_EQ(integer_can(ReduceOp::kMin, type), fits && type != ElementType::kInt64) << to_string(type);
    EXPECT_FALSE(integer_can(ReduceOp::kProduct, type)) << to_string(type);
    for (const ReduceOp op : kBitwise) EXPECT_FALSE(integer_can(op, type)) << to_string(type);
  }
}

TEST(Collective, WhatMemoryCan) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      EXPECT_EQ(native_can(op, type), type != ElementType::kBool) << to_string(op) << " of " << to_string(type);
    }
    for (const ReduceOp op : kBitwise) EXPECT_EQ(native_can(op, type), !is_floating(type)) << to_string(type);
    EXPECT_TRUE(native_can(ReduceOp::kBarrier, type)) << to_string(type);
  }
}

}  // namespace
}  // namespace switchml
