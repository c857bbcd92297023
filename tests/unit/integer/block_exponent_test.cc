// Block exponents: no sum of up to 1,024 ranks can overflow, and powers of two are exact over the whole range.
#include "integer/block_exponent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "base/limits.h"

namespace switchml {
namespace {

const Kernels& scalar() {
  static const Kernels& table = *available_kernels().back();
  return table;
}

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

TEST(MagnitudeBits, NoSumOverflowsWhateverTheBlock) {  // [WORD-8]
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    const int bits = magnitude_bits(ranks, 32, 24);
    for (int exponent = 0; exponent <= 254; ++exponent) {
      const Scale scale = quantize_scale(exponent, bits);
      const float worst = largest_in_block(exponent);
      const int64_t up = int64_t{ranks} * quantized(worst, scale);
      const int64_t down = int64_t{ranks} * quantized(-worst, scale);
      ASSERT_GT(up, 0);
      ASSERT_LE(up, int64_t{INT32_MAX}) << ranks << " ranks, exponent " << exponent;
      ASSERT_GE(down, int64_t{INT32_MIN}) << ranks << " ranks, exponent " << exponent;
    }
  }
}

TEST(MagnitudeBits, OneMoreWouldOverflow) {  // [WORD-8]
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    const int bits = magnitude_bits(ranks, 32, 24);
    ASSERT_GE(bits, ranks <= 128 ? 24 : 20) << "up to 128 fp32's own precision for the largest element of a block";
    ASSERT_LE(bits, 30);
    if (bits == 30) continue;  // the kernels' bound on a product
    const int64_t worst = quantized(largest_in_block(127), quantize_scale(127, bits + 1));
    EXPECT_GT(ranks * worst, int64_t{INT32_MAX}) << ranks << " ranks";
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

TEST(Scales, RoundTripIsWithinHalfAUnit) {  // [WORD-1, WORD-7, WORD-9]
  // With fewer bits than float32 has, as more than 128 ranks have, its largest number becomes an infinity.
  for (int round = 0; round < 255 + 254; ++round) {
    const int exponent = round % 255;
    const int bits = magnitude_bits(round < 255 ? kMaxWorkers : kMaxRanks, 32, 24);
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
  const int bits = magnitude_bits(2, 32, 24);
  const int32_t one = quantized(largest, quantize_scale(254, bits));
  EXPECT_EQ(dequantized(one, dequantize_scale(254, bits)), largest);
  EXPECT_EQ(dequantized(2 * one, dequantize_scale(254, bits)), INFINITY);
  EXPECT_EQ(dequantized(-2 * one, dequantize_scale(254, bits)), -INFINITY);
}

// ---- docs/collectives.md: the error of a sum is at most n 2^-b of the block's largest element, b = magnitude_bits(n),
// and that is at most n^2 2^-30 (n^2 2^-31 where n is a power of two up to 128), before the sum is rounded to its type
// ----

// What the ranks' integers add up to, as a value. `values`: one element per rank of a block with this exponent.
double block_sum(const std::vector<float>& values, int max_exponent) {
  const int bits = magnitude_bits(static_cast<int>(values.size()), 32, 24);
  int64_t sum = 0;
  for (const float value : values) sum += quantized(value, quantize_scale(max_exponent, bits));
  return std::ldexp(static_cast<double>(sum), max_exponent - 126 - bits);
}

double bound(int ranks, double largest) { return ranks * std::ldexp(largest, -magnitude_bits(ranks, 32, 24)); }

TEST(SumError, BoundGrowsWithTheSquareOfTheRanks) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    const bool power_of_two = (n & (n - 1)) == 0 && n <= 128;
    EXPECT_LE(bound(n, 1.0), std::ldexp(n * n, power_of_two ? -31 : -30)) << n << " ranks";
    EXPECT_GT(bound(n, 1.0), std::ldexp(n * n, -32)) << n << " ranks";
  }
}

TEST(SumError, BoundIsReachedByElementsThatVanish) {
  constexpr int kExponent = 127;  // of a block whose largest element is 1
  for (int n = 2; n <= kMaxRanks; ++n) {
    const auto half_a_unit = static_cast<float>(std::ldexp(1.0, -magnitude_bits(n, 32, 24)));
    const std::vector<float> values(static_cast<size_t>(n), half_a_unit);
    EXPECT_EQ(block_sum(values, kExponent), 0.0) << n << " ranks";
    EXPECT_EQ(static_cast<double>(n) * half_a_unit, bound(n, 1.0)) << n << " ranks";
    const std::vector<float> larger(static_cast<size_t>(n), std::nextafter(half_a_unit, 1.0F));
    EXPECT_GT(block_sum(larger, kExponent), 0.0) << n << " ranks";
  }
}

TEST(SumError, RandomBlocksStayWithinTheBound) {
  std::mt19937 random(20261124);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> shift(-40, 0);
  for (const int n : {2, 3, 5, 8, 9, 31, 64, 100, 128, 1000, 1024}) {
    double worst = 0;
    for (int block = 0; block < 10; ++block) {
      std::vector<std::vector<float>> rows(64, std::vector<float>(static_cast<size_t>(n)));
      float largest = 0;
      for (auto& row : rows) {
        for (float& x : row) {
          x = std::ldexp(normal(random), block % 2 == 0 ? 0 : shift(random));
          largest = std::max(largest, std::abs(x));
        }
      }
      const int exponent = std::ilogb(largest) + 127;
      for (const auto& row : rows) {
        const long double exact = std::accumulate(row.begin(), row.end(), 0.0L);
        const auto error = static_cast<double>(std::abs(exact - static_cast<long double>(block_sum(row, exponent))));
        worst = std::max(worst, error / bound(n, largest));
      }
    }
    EXPECT_LE(worst, 1.0) << n << " ranks";
    EXPECT_GT(worst, 0.01) << n << " ranks: the blocks were too easy";
  }
}

}  // namespace
}  // namespace switchml
