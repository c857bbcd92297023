// The table of one instruction set against the scalar one. A machine without the instructions skips.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "quant/table_compare.h"
#include "quant/tables.h"

namespace switchml::quant::testing {

/// Where the processor cannot run `table` (or the build has none), calling it would end the process.
inline bool can_run(const Kernels* table) {
  const auto tables = available_kernels();
  return std::find(tables.begin(), tables.end(), table) != tables.end();
}

inline void expect_equal_to_scalar(const Kernels* table, const char* instructions) {
  if (!can_run(table)) GTEST_SKIP() << "this processor has no " << instructions;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TableComparison comparison(*scalar_kernels(), *table, seed);
    ASSERT_EQ(comparison.run(), "") << "seed " << seed;
  }
}

inline void expect_equal_to_scalar_on_all_halves(const Kernels* table, const char* instructions) {
  if (!can_run(table)) GTEST_SKIP() << "this processor has no " << instructions;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TableComparison comparison(*scalar_kernels(), *table, seed);
    ASSERT_EQ(comparison.run_all_halves(), "") << "seed " << seed;
  }
}

}  // namespace switchml::quant::testing
