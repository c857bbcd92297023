// The exact sum of floating-point numbers, rounded once: a fixed-point number that spans the whole range of float64.
// It may travel, as an integer of fixed length (FloatFormat::fixed_bytes).
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
  /// Bytes of an integer, in two's complement and of whole 32-bit limbs, that has any sum of kMaxSources finite numbers
  /// in units of the smallest subnormal.
  constexpr size_t fixed_bytes() const {
    const auto fields = static_cast<size_t>(limit >> (precision - 1));
    constexpr size_t kBitsOfSum = 8;  // The logarithm of kMaxSources, and the sign.
    return (static_cast<size_t>(precision) + fields - 2 + kBitsOfSum + 31) / 32 * 4;
  }
};

double number_of(uint64_t bits, const FloatFormat& format);

/// The bits, in `format`, of the sum of `count` numbers divided by `divisor`, rounded to nearest even once. Each number
/// is the exact value of an element. 1 <= count <= kMaxSources, 1 <= divisor <= kMaxRanks.
/// A NaN, or infinities of both signs, give the format's quiet NaN; infinities of one sign give that infinity. A sum of
/// zeros is -0 if all are, else +0; any other sum that is zero is +0. [OP-1, OP-2, OP-3, OP-8]
uint64_t exact_sum(const double* numbers, size_t count, uint32_t divisor, const FloatFormat& format);

/// Digits of 32 bits in words of 64, so that carries may wait: value = sum of digit[i] * 2^(kLeast + 32 * i).
class FixedPoint {
 public:
  /// Precondition: it is finite.
  void add(double number);
  /// Adds a number as store() writes it.
  void add_fixed(const uint8_t* bytes, const FloatFormat& format);
  /// Writes format.fixed_bytes() bytes, little-endian. Precondition: the value is a sum of kMaxSources numbers of the
  /// format or fewer; else it is taken modulo what the bytes hold.
  void store(uint8_t* bytes, const FloatFormat& format) const;
  /// The bits of the quotient, rounded to nearest even; of 0, the bits of +0.
  uint64_t rounded(uint32_t divisor, const FloatFormat& format) const;
  bool is_zero() const;

 private:
  static constexpr int kDigitBits = 32;
  static constexpr uint64_t kDigitMask = 0xffffffffU;
  /// Below float64's smallest number: one digit for what a division leaves.
  static constexpr int kLeast = -1074 - kDigitBits;
  /// Up to 2^1024, and what kMaxSources of these add up to.
  static constexpr int kDigits = (1024 + 8 - kLeast) / kDigitBits + 2;

  void use(int first, int last);
  int64_t carry();
  bool divide(uint32_t divisor);
  int highest_bit() const;
  uint64_t bit(int position) const;
  bool any_below(int position) const;
  uint64_t round(int top, bool rest, const FloatFormat& format) const;

  int64_t digits_[kDigits] = {};
  int low_ = kDigits;
  int end_ = 0;
};

/// The exact sum of any numbers, finite or not, with the signs of zeros. [OP-1, OP-2, OP-3, OP-8]
class ExactTotal {
 public:
  void add(double number);
  void add_fixed(const uint8_t* bytes, const FloatFormat& format);
  /// As exact_sum().
  uint64_t rounded(uint32_t divisor, const FloatFormat& format) const;
  /// False: a NaN or an infinity was added.
  bool is_finite() const { return !nan_ && !infinite_[0] && !infinite_[1]; }
  /// Precondition: is_finite().
  const FixedPoint& finite() const { return sum_; }

 private:
  FixedPoint sum_;
  bool negative_zeros_ = true;
  bool nan_ = false;
  bool infinite_[2] = {false, false};
};

}  // namespace switchml
