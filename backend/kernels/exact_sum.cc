#include "kernels/exact_sum.h"

#include <cmath>
#include <cstring>

namespace switchml {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr int kDigitBits = 32;
constexpr uint64_t kDigitMask = 0xffffffffU;
/// Below float64's smallest number: one digit for what a division leaves.
constexpr int kLeast = -1074 - kDigitBits;
/// Up to 2^1024, and what kMaxSources of these add up to.
constexpr int kDigits = (1024 + 8 - kLeast) / kDigitBits + 2;

uint64_t bits_of(double number) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

/// Digits of 32 bits in words of 64, so that carries may wait: value = sum of digit[i] * 2^(kLeast + 32 * i).
class FixedPoint {
 public:
  void add(double number) {
    const uint64_t bits = bits_of(number);
    const int field = static_cast<int>(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << 52;
    if (significand == 0) return;
    const int position = (field == 0 ? 1 : field) - 1 + kDigitBits;
    const int digit = position / kDigitBits;
    Wide shifted = static_cast<Wide>(significand) << (position % kDigitBits);
    for (int i = digit; i < digit + 3; ++i) {
      const auto part = static_cast<int64_t>(static_cast<uint64_t>(shifted) & kDigitMask);
      digits_[i] += number < 0 ? -part : part;
      shifted >>= kDigitBits;
    }
    if (digit < low_) low_ = digit;
    if (digit + 4 > end_) end_ = digit + 4;  // The last digit takes carries.
  }

  /// The bits of the quotient, rounded. May be called once.
  uint64_t rounded(uint32_t divisor, const FloatFormat& format) {
    if (low_ == kDigits) return 0;
    const bool negative = carry() < 0;
    if (negative) {
      for (int i = low_; i < end_; ++i) digits_[i] = -digits_[i];
      carry();
    }
    bool rest = divide(divisor);
    const int top = highest_bit();
    if (top < 0 && !rest) return 0;
    return (negative ? format.sign() : 0) | round(top, rest, format);
  }

 private:
  /// Makes all digits but the last one 0 ... 2^32 - 1. The result has the sign of the value, unless it is 0.
  int64_t carry() {
    int64_t carried = 0;
    for (int i = low_; i < end_; ++i) {
      const int64_t digit = digits_[i] + carried;
      carried = digit >> kDigitBits;
      digits_[i] = static_cast<int64_t>(static_cast<uint64_t>(digit) & kDigitMask);
    }
    if (carried < 0) digits_[end_ - 1] += carried * (int64_t{1} << kDigitBits);
    return carried;
  }

  /// Divides down to the last digit. Returns whether the remainder is not 0.
  bool divide(uint32_t divisor) {
    if (divisor == 1) return false;
    low_ = 0;
    uint64_t remainder = 0;
    for (int i = end_ - 1; i >= 0; --i) {
      const uint64_t value = remainder << kDigitBits | static_cast<uint64_t>(digits_[i]);
      digits_[i] = static_cast<int64_t>(value / divisor);
      remainder = value % divisor;
    }
    return remainder != 0;
  }

  /// The highest bit that is set; -1: none.
  int highest_bit() const {
    for (int i = end_ - 1; i >= low_; --i) {
      if (digits_[i] != 0) return kDigitBits * i + 63 - __builtin_clzll(static_cast<uint64_t>(digits_[i]));
    }
    return -1;
  }

  uint64_t bit(int position) const {
    return static_cast<uint64_t>(digits_[position / kDigitBits]) >> (position % kDigitBits) & 1;
  }
  bool any_below(int position) const {
    const int digit = position / kDigitBits;
    for (int i = low_; i < digit; ++i) {
      if (digits_[i] != 0) return true;
    }
    return (static_cast<uint64_t>(digits_[digit]) & ((uint64_t{1} << (position % kDigitBits)) - 1)) != 0;
  }

  uint64_t round(int top, bool rest, const FloatFormat& format) const {
    const int smallest = format.least - kLeast;  // Position of the smallest subnormal's bit.
    const int lowest = top - format.precision + 1 > smallest ? top - format.precision + 1 : smallest;
    uint64_t significand = 0;
    for (int position = top; position >= lowest; --position) significand = significand << 1 | bit(position);
    const bool half = bit(lowest - 1) != 0;
    if (half && (rest || any_below(lowest - 1) || (significand & 1) != 0)) ++significand;
    // A significand that has become 2^precision carries into the exponent, as it should.
    const uint64_t result = (static_cast<uint64_t>(lowest - smallest) << (format.precision - 1)) + significand;
    return result < format.limit ? result : format.limit;
  }

  int64_t digits_[kDigits] = {};
  int low_ = kDigits;
  int end_ = 0;
};

}  // namespace

double number_of(uint64_t bits, const FloatFormat& format) {
  const uint64_t magnitude = bits & ~format.sign();
  const uint64_t hidden = uint64_t{1} << (format.precision - 1);
  const uint64_t field = magnitude / hidden;
  double number = std::ldexp(static_cast<double>(magnitude % hidden + (field == 0 ? 0 : hidden)),
                             format.least + static_cast<int>(field == 0 ? 0 : field - 1));
  if (magnitude == format.limit) number = HUGE_VAL;
  if (magnitude > format.limit) number = NAN;
  return (bits & format.sign()) != 0 ? -number : number;
}

uint64_t exact_sum(const double* numbers, size_t count, uint32_t divisor, const FloatFormat& format) {
  bool negative_zeros = true;
  bool infinite[2] = {false, false};
  FixedPoint sum;
  for (size_t i = 0; i < count; ++i) {
    const double number = numbers[i];
    if (std::isnan(number)) return format.quiet_nan();
    negative_zeros = negative_zeros && number == 0 && std::signbit(number);
    if (std::isinf(number)) {
      infinite[std::signbit(number) ? 1 : 0] = true;
    } else {
      sum.add(number);
    }
  }
  if (infinite[0] && infinite[1]) return format.quiet_nan();
  if (infinite[0]) return format.limit;
  if (infinite[1]) return format.sign() | format.limit;
  return negative_zeros ? format.sign() : sum.rounded(divisor, format);
}

}  // namespace switchml
