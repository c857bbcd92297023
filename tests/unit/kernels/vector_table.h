// The table of one instruction set against the scalar one. A machine without the instructions skips.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/table_compare.h"
#include "kernels/tables.h"

namespace switchml::testing {

/// Null where the processor cannot run it, or the build has none. Even to ask for its table by its own function would
/// end the process there, because the table is made with these instructions.
inline const Kernels* available(const std::string& name) {
  for (const Kernels* table : available_kernels()) {
    if (table->name == name) return table;
  }
  return nullptr;
}

inline void expect_equal_to_scalar(const std::string& name) {
  const Kernels* table = available(name);
  if (table == nullptr) GTEST_SKIP() << "this processor has no " << name;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TableComparison comparison(*scalar_kernels(), *table, seed);
    ASSERT_EQ(comparison.run(), "") << "seed " << seed;
  }
}

inline void expect_equal_to_scalar_on_all_halves(const std::string& name) {
  const Kernels* table = available(name);
  if (table == nullptr) GTEST_SKIP() << "this processor has no " << name;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TableComparison comparison(*scalar_kernels(), *table, seed);
    ASSERT_EQ(comparison.run_all_halves(), "") << "seed " << seed;
  }
}

}  // namespace switchml::testing
