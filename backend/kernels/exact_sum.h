// The exact sum of floating-point numbers, rounded once: a fixed-point number that spans the whole range of float64.
// The reference for the kernels, and their fallback for elements with terms that differ too much in magnitude.
//
// Integers only, so the bits do not depend on the order of the terms, nor on the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

/// A binary format of IEEE 754: its properties for rounding.
struct FloatFormat {
  int precision;   // Bits of the significand, with the hidden one.
  int least;       // Exponent of the smallest subnormal.
  uint64_t limit;  // Bits of infinity.

  static constexpr FloatFormat float32() { return {24, -149, 0x7f800000U}; }
  static constexpr FloatFormat float16() { return {11, -24, 0x7c00U}; }
  static constexpr FloatFormat bfloat16() { return {8, -133, 0x7f80U}; }
  static constexpr FloatFormat float64() { return {53, -1074, uint64_t{0x7ff} << 52}; }

  uint64_t sign() const { return limit + (uint64_t{1} << (precision - 1)); }
  uint64_t quiet_nan() const { return limit | uint64_t{1} << (precision - 2); }
};

double number_of(uint64_t bits, const FloatFormat& format);

/// The bits, in `format`, of the sum of `count` numbers divided by `divisor`, rounded to nearest even once. Each number
/// is the exact value of an element. 1 <= count, divisor <= kMaxSources.
/// A NaN, or infinities of both signs, give the format's quiet NaN; infinities of one sign give that infinity. A sum of
/// zeros is -0 if all are, else +0; any other sum that is zero is +0. [OP-1, OP-2, OP-3, OP-8]
uint64_t exact_sum(const double* numbers, size_t count, uint32_t divisor, const FloatFormat& format);

}  // namespace switchml
