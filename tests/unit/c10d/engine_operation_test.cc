#include "c10d/engine_operation.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

constexpr at::ScalarType kFloats[] = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};
constexpr at::ScalarType kIntegers[] = {at::kInt, at::kChar, at::kByte, at::kShort, at::kLong};

TEST(EngineOperation, OfNumbersIsTheSame) {
  const auto expect_numbers = [](at::ScalarType type) {
    for (const auto op : {c10d::ReduceOp::SUM, c10d::ReduceOp::AVG}) {
      EXPECT_EQ(engine_operation(op, type), ReduceOp::kSum) << c10::toString(type);
    }
    EXPECT_EQ(engine_operation(c10d::ReduceOp::MIN, type), ReduceOp::kMin) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::MAX, type), ReduceOp::kMax) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::PRODUCT, type), ReduceOp::kProduct) << c10::toString(type);
  };
  for (const at::ScalarType type : kFloats) {
    expect_numbers(type);
    EXPECT_EQ(engine_operation(premultiplying(2.0), type), ReduceOp::kSum) << c10::toString(type);
  }
  for (const at::ScalarType type : kIntegers) {
    expect_numbers(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::BAND, type), ReduceOp::kAnd) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::BXOR, type), ReduceOp::kXor) << c10::toString(type);
  }
}

TEST(EngineOperation, OfBoolsIsAnyAllOrDiffer) {
  for (const auto op : {c10d::ReduceOp::SUM, c10d::ReduceOp::MAX, c10d::ReduceOp::BOR}) {
    EXPECT_EQ(engine_operation(op, at::kBool), ReduceOp::kOr) << operation_name(op);
  }
  for (const auto op : {c10d::ReduceOp::PRODUCT, c10d::ReduceOp::MIN, c10d::ReduceOp::BAND}) {
    EXPECT_EQ(engine_operation(op, at::kBool), ReduceOp::kAnd) << operation_name(op);
  }
  EXPECT_EQ(engine_operation(c10d::ReduceOp::BXOR, at::kBool), ReduceOp::kXor);
}

TEST(EngineOperation, HasNoneForTheRest) {
  for (const auto op : {c10d::ReduceOp::BAND, c10d::ReduceOp::BOR, c10d::ReduceOp::BXOR}) {
    for (const at::ScalarType type : kFloats) EXPECT_EQ(engine_operation(op, type), std::nullopt) << operation_name(op);
  }
  for (const at::ScalarType type : kIntegers) EXPECT_EQ(engine_operation(premultiplying(2.0), type), std::nullopt);
  EXPECT_EQ(engine_operation(c10d::ReduceOp::AVG, at::kBool), std::nullopt);
  EXPECT_EQ(engine_operation(premultiplying(2.0), at::kBool), std::nullopt);
  EXPECT_EQ(engine_operation(c10d::ReduceOp::SUM, at::kComplexFloat), ReduceOp::kSum);
  EXPECT_EQ(engine_operation(c10d::ReduceOp::PRODUCT, at::kComplexFloat), std::nullopt);
}

TEST(OperationName, IsTheOneOfPython) {
  EXPECT_STREQ(operation_name(c10d::ReduceOp::SUM), "SUM");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::AVG), "AVG");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::PRODUCT), "PRODUCT");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::MIN), "MIN");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::MAX), "MAX");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BAND), "BAND");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BOR), "BOR");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BXOR), "BXOR");
  EXPECT_STREQ(operation_name(premultiplying(2.0)), "PREMUL_SUM");
}

}  // namespace
}  // namespace switchml
