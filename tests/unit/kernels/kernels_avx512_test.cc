// The AVX-512 kernels against the scalar ones.
#include "kernels/vector_table.h"

namespace switchml {
namespace {

TEST(Avx512, IsInEveryBuildForItsProcessors) {
#if defined(__x86_64__)
  if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")))
    GTEST_SKIP() << "this processor has no AVX-512";
  ASSERT_NE(avx512_kernels(), nullptr);
  EXPECT_STREQ(avx512_kernels()->name, "avx512");
  EXPECT_EQ(testing::available("avx512"), avx512_kernels());
#else
  EXPECT_EQ(avx512_kernels(), nullptr);
#endif
}

TEST(Avx512, EqualsScalarBitForBit) { testing::expect_equal_to_scalar("avx512"); }

TEST(Avx512, EqualsScalarOnAllHalves) { testing::expect_equal_to_scalar_on_all_halves("avx512"); }

}  // namespace
}  // namespace switchml
