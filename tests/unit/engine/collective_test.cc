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
  EXPECT_STREQ(to_string(static_cast<ReduceOp>(200)), "?");
}

TEST(Collective, WhatTheSwitchCan) {
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    EXPECT_TRUE(switch_can(ReduceOp::kSum, type)) << to_string(type);
    EXPECT_TRUE(switch_can(ReduceOp::kBarrier, type)) << to_string(type);
    EXPECT_EQ(switch_can(ReduceOp::kMax, type), type != ElementType::kInt64) << to_string(type);
    EXPECT_EQ(switch_can(ReduceOp::kMin, type), type != ElementType::kInt64) << to_string(type);
  }
}

}  // namespace
}  // namespace switchml
