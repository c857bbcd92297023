#include "base/element_type.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace switchml {
namespace {

TEST(ElementType, SizesAndNames) {
  const struct {
    ElementType type;
    size_t bytes;
    bool floating;
    const char* name;
  } rows[] = {
      {ElementType::kFloat32, sizeof(float), true, "float32"},
      {ElementType::kFloat16, 2, true, "float16"},
      {ElementType::kBFloat16, 2, true, "bfloat16"},
      {ElementType::kInt32, sizeof(int32_t), false, "int32"},
      {ElementType::kInt8, sizeof(int8_t), false, "int8"},
      {ElementType::kUInt8, sizeof(uint8_t), false, "uint8"},
      {ElementType::kInt16, sizeof(int16_t), false, "int16"},
      {ElementType::kInt64, sizeof(int64_t), false, "int64"},
      {ElementType::kFloat64, sizeof(double), true, "float64"},
      {ElementType::kBool, 1, false, "bool"},
      {ElementType::kFloat8E4M3, 1, true, "float8_e4m3fn"},
      {ElementType::kFloat8E5M2, 1, true, "float8_e5m2"},
      {ElementType::kScaledInt8, 65, false, "blocks of int8"},
      {ElementType::kScaledFloat8, 65, false, "blocks of float8_e4m3fn"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(element_bytes(row.type), row.bytes) << row.name;
    EXPECT_EQ(is_floating(row.type), row.floating) << row.name;
    EXPECT_STREQ(to_string(row.type), row.name);
  }
}

// Ranks of different builds compare these numbers with each other.
TEST(ElementType, NumbersAreFixed) {
  const ElementType in_order[] = {ElementType::kFloat32,    ElementType::kFloat16,     ElementType::kBFloat16,
                                  ElementType::kInt32,      ElementType::kInt8,        ElementType::kUInt8,
                                  ElementType::kInt16,      ElementType::kInt64,       ElementType::kFloat64,
                                  ElementType::kBool,       ElementType::kFloat8E4M3,  ElementType::kFloat8E5M2,
                                  ElementType::kScaledInt8, ElementType::kScaledFloat8};
  std::set<std::string> names;
  for (int i = 0; i < kElementTypes; ++i) {
    EXPECT_EQ(static_cast<int>(in_order[i]), i);
    names.insert(to_string(static_cast<ElementType>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kElementTypes));
}

TEST(ElementType, ABlockUnderAScaleIsOneElement) {
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(is_scaled(type), i >= 12) << to_string(type);
    EXPECT_EQ(values_per_element(type), i >= 12 ? 64U : 1U) << to_string(type);
  }
}

TEST(ElementType, WordsOfOneElement) {
  for (int i = 0; i <= static_cast<int>(ElementType::kInt64); ++i) {  // those that a switch takes
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_words(type), element_bytes(type) <= 4 ? 1U : kInt64Words) << to_string(type);
  }
}

TEST(ElementType, WhatIsNoTypeHasNoSizeAndNoName) {
  const auto none = static_cast<ElementType>(kElementTypes);
  EXPECT_EQ(element_bytes(none), 0U);
  EXPECT_STREQ(to_string(none), "?");
  EXPECT_FALSE(is_floating(none));
}

}  // namespace
}  // namespace switchml
