// benchmarks/scale: a result is right, missing or wrong.
#include "patterns.h"

#include <gtest/gtest.h>

namespace switchml::scale {
namespace {

TEST(Results, ARightOneIsSeenOnceAndAWrongElementIsSeen) {
  const Inputs inputs(1000);
  Results results(inputs, {3, 2, 2, 1});
  EXPECT_EQ(results.check(0, 100), Results::Verdict::kNotWritten);
  const auto write = [&] {
    for (size_t i = 0; i < 100; ++i) {
      results.output()[i] = 3 * inputs.of(0)[i] + 2 * inputs.of(1)[i] + 2 * inputs.of(6)[i] + inputs.of(3)[i];
    }
  };
  write();
  EXPECT_EQ(results.check(0, 100), Results::Verdict::kRight);
  EXPECT_EQ(results.check(0, 100), Results::Verdict::kNotWritten);
  write();
  results.output()[99] += 1;
  EXPECT_EQ(results.check(0, 100), Results::Verdict::kWrong);
}

}  // namespace
}  // namespace switchml::scale
