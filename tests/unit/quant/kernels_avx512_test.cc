// The AVX-512 kernels against the scalar ones.
#include "quant/vector_table.h"

namespace switchml::quant {
namespace {

TEST(Avx512, IsInEveryBuildForItsProcessors) {
#if defined(__x86_64__)
  ASSERT_NE(avx512_kernels(), nullptr);
  EXPECT_STREQ(avx512_kernels()->name, "avx512");
#else
  EXPECT_EQ(avx512_kernels(), nullptr);
#endif
}

TEST(Avx512, EqualsScalarBitForBit) { testing::expect_equal_to_scalar(avx512_kernels(), "AVX-512"); }

TEST(Avx512, EqualsScalarOnAllHalves) { testing::expect_equal_to_scalar_on_all_halves(avx512_kernels(), "AVX-512"); }

}  // namespace
}  // namespace switchml::quant
