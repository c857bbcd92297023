#include "session/call_comparison.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(CallComparison, EqualCallsAreNamedTogether) {
  EXPECT_EQ(compare_sentence({"a(1)", "b(2)", "a(1)", std::nullopt}),
            "ranks 0, 2 called a(1); rank 1 called b(2); rank 3 did not say");
  EXPECT_EQ(compare_sentence({"a"}), "rank 0 called a");
  EXPECT_EQ(compare_sentence({std::nullopt, std::nullopt}), "ranks 0, 1 did not say");
}

}  // namespace
}  // namespace switchml
