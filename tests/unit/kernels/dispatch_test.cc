// Choosing a table of kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/tables.h"

namespace switchml {
namespace {

TEST(Dispatch, RowsFollowTheTypes) {
  EXPECT_EQ(float_row(ElementType::kFloat32), 0);
  EXPECT_EQ(float_row(ElementType::kFloat16), 1);
  EXPECT_EQ(float_row(ElementType::kBFloat16), 2);
  EXPECT_EQ(integer_row(ElementType::kInt32), 0);
  EXPECT_EQ(integer_row(ElementType::kInt8), 1);
  EXPECT_EQ(integer_row(ElementType::kUInt8), 2);
  EXPECT_EQ(integer_row(ElementType::kInt16), 3);
}

TEST(DispatchDeathTest, ATypeOfTheOtherKindHasNoRow) {
  EXPECT_DEATH(float_row(ElementType::kInt32), "assertion failed");
  EXPECT_DEATH(float_row(ElementType::kInt64), "assertion failed");
  EXPECT_DEATH(integer_row(ElementType::kBFloat16), "assertion failed");
  EXPECT_DEATH(integer_row(ElementType::kInt64), "assertion failed");
}

TEST(Dispatch, ScalarIsLastAndNamesAreUnique) {
  const auto tables = available_kernels();
  EXPECT_STREQ(tables.back()->name, "scalar");
  for (size_t i = 0; i < tables.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_STRNE(tables[i]->name, tables[j]->name);
  }
}

TEST(Dispatch, SelectsByName) {
  for (const Kernels* table : available_kernels()) {
    const auto chosen = select_kernels(table->name);
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(chosen.value(), table);
  }
  for (const char* best : {"auto", ""}) {
    const auto chosen = select_kernels(best);
    ASSERT_TRUE(chosen.ok()) << best;
    EXPECT_EQ(chosen.value(), available_kernels().front()) << best;
  }
}

// A name that exists is no better than one that does not where the processor has no such instructions; at least one is
// always of another processor.
TEST(Dispatch, TheTableOfAnotherProcessorIsRefusedByNameAndNeverRun) {
  const auto tables = available_kernels();
  int refused = 0;
  for (const std::string name : {"scalar", "avx2", "avx512", "neon"}) {
    const bool runs =
        std::any_of(tables.begin(), tables.end(), [&](const Kernels* table) { return name == table->name; });
    const auto chosen = select_kernels(name);
    ASSERT_EQ(chosen.ok(), runs) << name;
    if (runs) continue;
    ++refused;
    EXPECT_EQ(chosen.status().code(), Code::kInvalidArgument);
    EXPECT_NE(chosen.status().message().find('"' + name + '"'), std::string::npos) << chosen.status().message();
    EXPECT_EQ(chosen.status().message().find(name, chosen.status().message().find("allowed:")), std::string::npos)
        << "must not be listed as allowed: " << chosen.status().message();
  }
  EXPECT_GE(refused, 1);
}

TEST(Dispatch, NamesAreMatchedExactly) {
  for (const char* name : {"Scalar", "scalar ", " auto", "scal", "AUTO"})
    EXPECT_FALSE(select_kernels(name).ok()) << name;
}

TEST(Dispatch, UnknownNameSaysWhatIsAllowed) {
  const auto chosen = select_kernels("sse9");
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), Code::kInvalidArgument);
  for (const char* part : {"sse9", "auto", "scalar"}) {
    EXPECT_NE(chosen.status().message().find(part), std::string::npos) << chosen.status().message();
  }
}

// kernels() chooses once per process, so each case gets a process of its own.
// `variable` null: not set.
void exit_with_choice(const char* variable, const char* expected) {
  if (variable == nullptr) {
    unsetenv("SWITCHML_KERNELS");
  } else {
    setenv("SWITCHML_KERNELS", variable, 1);
  }
  std::exit(std::strcmp(kernels().name, expected) == 0 ? 0 : 1);
}

TEST(DispatchDeathTest, EnvironmentVariableForcesATable) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const Kernels* table : available_kernels()) {
    EXPECT_EXIT(exit_with_choice(table->name, table->name), ::testing::ExitedWithCode(0), "") << table->name;
  }
  const char* best = available_kernels().front()->name;
  EXPECT_EXIT(exit_with_choice("auto", best), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with_choice("", best), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with_choice(nullptr, best), ::testing::ExitedWithCode(0), "");
}

TEST(DispatchDeathTest, WrongEnvironmentVariableWarnsAndFallsBackToScalar) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_with_choice("sse9", "scalar"), ::testing::ExitedWithCode(0), "SWITCHML_KERNELS.*sse9.*allowed");
}

}  // namespace
}  // namespace switchml
