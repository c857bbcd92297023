// Floats of 8 bits against what is nearest among all 256, by looking at each; and blocks under scales against ldexp().
#include "kernels/narrow_floats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/limits.h"
#include "kernels/exact_sum.h"

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr ElementType kFloat8[] = {ElementType::kFloat8E4M3, ElementType::kFloat8E5M2};

/// By the definition of the formats: bits of the significand behind the point, and the exponent's bias.
double value_of(ElementType type, int bits) {
  const bool e4m3 = type == ElementType::kFloat8E4M3;
  const int fraction_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 : 15;
  const int magnitude = bits & 0x7f;
  const int field = magnitude >> fraction_bits;
  const int fraction = magnitude & ((1 << fraction_bits) - 1);
  double value = field == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                            : std::ldexp(fraction + (1 << fraction_bits), field - bias - fraction_bits);
  if (e4m3 ? magnitude == 0x7f : magnitude > 0x7c) value = std::nan("");
  if (!e4m3 && magnitude == 0x7c) value = HUGE_VAL;
  return (bits & 0x80) != 0 ? -value : value;
}

/// The nearest one, the even one of two. Beyond the largest is infinity, or that again where there is none.
uint8_t nearest(ElementType type, double number) {
  const bool e4m3 = type == ElementType::kFloat8E4M3;
  const uint8_t nan = e4m3 ? 0x7f : 0x7e;
  if (std::isnan(number)) return nan;
  const double magnitude = std::abs(number);
  const int end = e4m3 ? 0x7f : 0x7c;  // No number any more.
  int best = 0;
  double distance = magnitude;
  for (int bits = 1; bits <= end; ++bits) {
    const double next = bits == end ? (e4m3 ? 480.0 : 65536.0) : value_of(type, bits);
    const double apart = std::abs(next - magnitude);
    if (apart < distance || (apart == distance && bits % 2 == 0)) {
      best = bits;
      distance = apart;
    }
  }
  if (best == end && e4m3) best = end - 1;
  return static_cast<uint8_t>(best | (std::signbit(number) ? 0x80 : 0));
}

TEST(NarrowFloats, AFloatOf8BitsIsTheSameInFloat32) {
  for (const ElementType type : kFloat8) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto byte = static_cast<uint8_t>(bits);
      float found = 0;
      to_float32(type, &byte, 1, &found);
      const double expected = value_of(type, bits);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << bits;
      } else {
        EXPECT_EQ(found, expected) << bits;
        EXPECT_EQ(std::signbit(found), std::signbit(expected)) << bits;
      }
    }
  }
}

TEST(NarrowFloats, FloatsOf16BitsAreTheSameInFloat32) {
  const struct {
    ElementType type;
    FloatFormat format;
  } rows[] = {{ElementType::kFloat16, FloatFormat::float16()}, {ElementType::kBFloat16, FloatFormat::bfloat16()}};
  for (const auto& row : rows) {
    std::vector<uint16_t> all(65536);
    for (size_t bits = 0; bits < all.size(); ++bits) all[bits] = static_cast<uint16_t>(bits);
    std::vector<float> found(all.size());
    to_float32(row.type, reinterpret_cast<const uint8_t*>(all.data()), all.size(), found.data());
    for (size_t bits = 0; bits < all.size(); ++bits) {
      const double expected = number_of(bits, row.format);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(found[bits]) : found[bits] == expected) << bits;
    }
  }
}

/// All pairs of two elements.
void all_pairs(Bytes* first, Bytes* second) {
  for (int bits = 0; bits < 65536; ++bits) {
    first->push_back(static_cast<uint8_t>(bits));
    second->push_back(static_cast<uint8_t>(bits >> 8));
  }
}

TEST(NarrowFloats, SumsAndMeansOfAllPairsAreRoundedOnce) {  // [OP-1, OP-2, OP-3, OP-9]
  Bytes first;
  Bytes second;
  all_pairs(&first, &second);
  const uint8_t* inputs[] = {first.data(), second.data()};
  for (const ElementType type : kFloat8) {
    for (const uint32_t divisor : {1U, 2U, 3U, 128U, 1023U, 1024U}) {
      Bytes out(first.size());
      sum_float8(type, inputs, 2, out.size(), divisor, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const double sum = value_of(type, first[i]) + value_of(type, second[i]);  // Exact.
        ASSERT_EQ(out[i], nearest(type, sum / divisor))
            << to_string(type) << ' ' << int{first[i]} << ' ' << int{second[i]} << " by " << divisor;
      }
    }
  }
}

TEST(NarrowFloats, SumsOfAsManyAsThereMayBe) {
  std::mt19937_64 random(5);
  constexpr size_t kCount = 1000;  // Some blocks, and some elements.
  for (const ElementType type : kFloat8) {
    std::vector<Bytes> all(kMaxWorkers, Bytes(kCount));
    std::vector<const uint8_t*> inputs;
    for (Bytes& one : all) {
      // Of all magnitudes, but NaN and infinities, which would be everywhere.
      for (uint8_t& byte : one) byte = static_cast<uint8_t>(random() % 0x7b | (random() % 2 << 7));
      inputs.push_back(one.data());
    }
    for (const uint32_t divisor : {1U, 77U, 128U, 1021U}) {
      Bytes out(kCount);
      sum_float8(type, inputs.data(), inputs.size(), kCount, divisor, out.data());
      for (size_t i = 0; i < kCount; ++i) {
        double sum = 0;
        for (const Bytes& one : all) sum += value_of(type, one[i]);
        ASSERT_EQ(out[i], nearest(type, sum / divisor)) << i << " by " << divisor;
      }
    }
  }
}

TEST(NarrowFloats, ExtremesOfAllPairs) {  // [OP-6, OP-8]
  Bytes first;
  Bytes second;
  all_pairs(&first, &second);
  const uint8_t* inputs[] = {first.data(), second.data()};
  for (const ElementType type : kFloat8) {
    for (const bool minimum : {false, true}) {
      Bytes out(first.size());
      extreme_of_float8(type, inputs, 2, out.size(), minimum, out.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const double a = value_of(type, first[i]);
        const double b = value_of(type, second[i]);
        double right = (a < b) == minimum ? a : b;
        if (a == b) right = std::signbit(a) == minimum ? a : b;
        if (std::isnan(a) || std::isnan(b)) right = std::nan("");
        ASSERT_EQ(out[i], std::isinf(right) ? (right < 0 ? 0xfc : 0x7c) : nearest(type, right)) << i;
      }
    }
  }
}

TEST(NarrowFloats, ProductsOfAllPairs) {  // [OP-5]
  Bytes first;
  Bytes second;
  all_pairs(&first, &second);
  const uint8_t* inputs[] = {first.data(), second.data()};
  for (const ElementType type : kFloat8) {
    Bytes out(first.size());
    multiply_float8(type, inputs, 2, out.size(), out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], nearest(type, value_of(type, first[i]) * value_of(type, second[i]))) << i;
    }
  }
}

TEST(NarrowFloats, NumbersOfABlockAreMultipliedByItsScale) {  // [NSUM-3]
  Bytes blocks;
  for (int scale = 0; scale < 256; ++scale) {
    for (int part = 0; part < 4; ++part) {  // All numbers of a byte.
      blocks.push_back(static_cast<uint8_t>(scale));
      for (int i = 0; i < 64; ++i) blocks.push_back(static_cast<uint8_t>(64 * part + i));
    }
  }
  const size_t count = blocks.size() / kScaledBytes;
  for (const ElementType type : {ElementType::kScaledInt8, ElementType::kScaledFloat8}) {
    std::vector<float> found(count * kScaledValues);
    to_float32(type, blocks.data(), count, found.data());
    for (size_t i = 0; i < found.size(); ++i) {
      const int scale = static_cast<int>(i / 256);
      const int bits = static_cast<int>(i % 256);
      const double number = type == ElementType::kScaledInt8 ? static_cast<double>(static_cast<int8_t>(bits))
                                                             : value_of(ElementType::kFloat8E4M3, bits);
      const auto expected = static_cast<float>(std::ldexp(number, scale - 127));
      if (scale == 255 || std::isnan(number)) {
        ASSERT_TRUE(std::isnan(found[i])) << scale << ' ' << bits;
      } else {
        ASSERT_EQ(found[i], expected) << scale << ' ' << bits;
        ASSERT_TRUE(std::isinf(expected) || expected == std::ldexp(number, scale - 127)) << "it is exact";
      }
    }
  }
}

}  // namespace
}  // namespace switchml
