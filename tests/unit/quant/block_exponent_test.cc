// Block exponents: no sum of up to 128 workers can overflow, and powers of two are exact over the whole range.
#include "quant/block_exponent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/limits.h"

namespace switchml::quant {
namespace {

const Kernels& scalar() { return *available_kernels().back(); }

int32_t quantized(float value, Scale scale) {
  uint8_t word[4];
  scalar().quantize[0](&value, word, 1, scale);
  return static_cast<int32_t>(static_cast<uint32_t>(word[0]) << 24 | static_cast<uint32_t>(word[1]) << 16 |
                              static_cast<uint32_t>(word[2]) << 8 | word[3]);
}

float dequantized(int32_t sum, Scale scale) {
  const auto bits = static_cast<uint32_t>(sum);
  const uint8_t word[4] = {static_cast<uint8_t>(bits >> 24), static_cast<uint8_t>(bits >> 16),
                           static_cast<uint8_t>(bits >> 8), static_cast<uint8_t>(bits)};
  float value = 0;
  scalar().dequantize[0](word, &value, 1, scale, 1.0F);
  return value;
}

// The largest fp32 of a block with this exponent field.
float largest_in_block(int max_exponent) {
  if (max_exponent == 0) return std::nextafter(0x1p-126F, 0.0F);
  return std::ldexp(2.0F - 0x1p-23F, max_exponent - 127);
}

TEST(MagnitudeBits, NoSumOverflowsWhateverTheBlock) {
  for (int workers = 1; workers <= kMaxWorkers; ++workers) {
    const int bits = magnitude_bits(workers);
    for (int exponent = 0; exponent <= 254; ++exponent) {
      const Scale scale = quantize_scale(exponent, bits);
      const float worst = largest_in_block(exponent);
      const int64_t up = int64_t{workers} * quantized(worst, scale);
      const int64_t down = int64_t{workers} * quantized(-worst, scale);
      ASSERT_GT(up, 0);
      ASSERT_LE(up, int64_t{INT32_MAX}) << workers << " workers, exponent " << exponent;
      ASSERT_GE(down, int64_t{INT32_MIN}) << workers << " workers, exponent " << exponent;
    }
  }
}

TEST(MagnitudeBits, OneMoreWouldOverflow) {
  for (int workers = 1; workers <= kMaxWorkers; ++workers) {
    const int bits = magnitude_bits(workers);
    ASSERT_GE(bits, 24) << "fp32's own precision for the largest element of a block";
    ASSERT_LE(bits, 30);
    if (bits == 30) continue;  // the kernels' bound on a product
    const int64_t worst = quantized(largest_in_block(127), quantize_scale(127, bits + 1));
    EXPECT_GT(workers * worst, int64_t{INT32_MAX}) << workers << " workers";
  }
}

TEST(PowerOfTwo, IsExactOverTheWholeRange) {
  for (int exponent = -252; exponent <= 254; ++exponent) {
    const Scale scale = power_of_two(exponent);
    EXPECT_EQ(static_cast<double>(scale.first) * static_cast<double>(scale.second), std::ldexp(1.0, exponent))
        << exponent;
    EXPECT_TRUE(std::isnormal(scale.first) && std::isnormal(scale.second)) << exponent;
  }
}

TEST(Scales, AreInverse) {
  for (int exponent = 0; exponent <= 254; ++exponent) {
    for (int bits = 24; bits <= 30; ++bits) {
      const Scale down = quantize_scale(exponent, bits);
      const Scale up = dequantize_scale(exponent, bits);
      EXPECT_EQ(static_cast<double>(down.first) * down.second * up.first * up.second, 1.0) << exponent << " " << bits;
    }
  }
}

TEST(Scales, RoundTripIsWithinHalfAUnit) {
  for (int exponent = 0; exponent <= 254; ++exponent) {
    const int bits = magnitude_bits(kMaxWorkers);
    const double unit = std::ldexp(1.0, std::max(exponent, 1) - 126 - bits);
    for (const float fraction : {1.0F, 0.7F, 0.3333333F, 1e-3F, 1.1e-6F, 3e-8F}) {
      for (const float sign : {1.0F, -1.0F}) {
        const float value = sign * fraction * largest_in_block(exponent);
        const float back =
            dequantized(quantized(value, quantize_scale(exponent, bits)), dequantize_scale(exponent, bits));
        EXPECT_LE(std::fabs(static_cast<double>(back) - value), unit / 2) << value << " exponent " << exponent;
      }
    }
  }
}

TEST(Scales, SumBeyondFp32IsInfinite) {
  const float largest = largest_in_block(254);
  const int bits = magnitude_bits(2);
  const int32_t one = quantized(largest, quantize_scale(254, bits));
  EXPECT_EQ(dequantized(one, dequantize_scale(254, bits)), largest);
  EXPECT_EQ(dequantized(2 * one, dequantize_scale(254, bits)), INFINITY);
  EXPECT_EQ(dequantized(-2 * one, dequantize_scale(254, bits)), -INFINITY);
}

}  // namespace
}  // namespace switchml::quant
