// The AVX2 kernels against the scalar ones.
#include "kernels/vector_table.h"

namespace switchml {
namespace {

TEST(Avx2, IsInEveryBuildForItsProcessors) {
#if defined(__x86_64__)
  if (!(__builtin_cpu_supports("avx2"))) GTEST_SKIP() << "this processor has no AVX2";
  ASSERT_NE(avx2_kernels(), nullptr);
  EXPECT_STREQ(avx2_kernels()->name, "avx2");
  EXPECT_EQ(testing::available("avx2"), avx2_kernels());
#else
  EXPECT_EQ(avx2_kernels(), nullptr);
#endif
}

TEST(Avx2, EqualsScalarBitForBit) { testing::expect_equal_to_scalar("avx2"); }

TEST(Avx2, EqualsScalarOnAllHalves) { testing::expect_equal_to_scalar_on_all_halves("avx2"); }

}  // namespace
}  // namespace switchml
