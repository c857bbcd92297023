#include "exact.h"

#include <algorithm>
#include <cstddef>

namespace switchml::sim {

namespace {

/// A whole number of so many bits, modulo 2 to that; digits of 32 bits, the least first.
class Whole {
 public:
  explicit Whole(size_t bits) : digits_(bits / 32 + 1) {}

  /// value * 2^shift; value < 2^53. Precondition: there is room.
  void add(uint64_t value, size_t shift, bool negative) {
    const uint64_t low = value << shift % 32;  // of up to 53 + 31 bits
    const uint64_t high = shift % 32 == 0 ? 0 : value >> (64 - shift % 32);
    add_digits({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)}, shift / 32,
               negative);
  }
  bool is_negative() const { return digits_.back() >> 31 != 0; }
  bool is_zero() const {
    return std::all_of(digits_.begin(), digits_.end(), [](uint32_t digit) { return digit == 0; });
  }
  void negate() {
    for (uint32_t& digit : digits_) digit = ~digit;
    add_digits({1}, 0, false);
  }
  /// Returns the remainder. Precondition: it is not negative.
  uint32_t divide(uint32_t divisor) {
    uint64_t rest = 0;
    for (size_t i = digits_.size(); i-- > 0;) {
      rest = rest << 32 | digits_[i];
      digits_[i] = static_cast<uint32_t>(rest / divisor);
      rest %= divisor;
    }
    return static_cast<uint32_t>(rest);
  }
  bool bit(size_t i) const { return (digits_[i / 32] >> i % 32 & 1U) != 0; }
  /// Bits that it takes.
  size_t length() const {
    size_t length = digits_.size() * 32;
    while (length > 0 && !bit(length - 1)) --length;
    return length;
  }

 private:
  void add_digits(const std::vector<uint32_t>& addend, size_t first, bool negative) {
    uint64_t carry = negative ? 1 : 0;  // subtracting is adding the complement, and 1
    for (size_t i = negative ? 0 : first; i < digits_.size(); ++i) {
      const uint32_t given = i < first || i - first >= addend.size() ? 0 : addend[i - first];
      carry += uint64_t{digits_[i]} + (negative ? ~given : given);
      digits_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  std::vector<uint32_t> digits_;
};

/// Bits below the least that a format has: enough to see which half a quotient is nearer to, with what is left over.
constexpr size_t kGuard = 8;

/// `sum` in units of the least number, with kGuard bits below it, and whether a bit is left over.
uint64_t rounded(const Whole& sum, bool more, const Format& format) {
  const auto mantissa_bits = static_cast<size_t>(format.mantissa_bits);
  const size_t length = sum.length();
  const size_t cut = std::max(kGuard, length > mantissa_bits + 1 ? length - mantissa_bits - 1 : 0);
  uint64_t whole = 0;
  for (size_t i = length; i-- > cut;) whole = whole << 1 | (sum.bit(i) ? 1 : 0);
  bool rest = more;
  for (size_t i = 0; i + 1 < cut; ++i) rest = rest || sum.bit(i);
  if (sum.bit(cut - 1) && (rest || whole % 2 != 0)) ++whole;
  // The leading bit counts one up in the exponent, and so does one that rounding has carried there.
  return std::min((static_cast<uint64_t>(cut - kGuard) << mantissa_bits) + whole, format.infinity(false));
}

}  // namespace

uint64_t exact_mean(const std::vector<uint64_t>& terms, uint32_t divisor, const Format& format) {
  Whole sum(static_cast<size_t>(2 * format.bias() + format.mantissa_bits) + kGuard + 16);
  bool infinite[2] = {false, false};
  bool all_negative = true;
  const uint64_t one = uint64_t{1} << format.mantissa_bits;
  for (const uint64_t term : terms) {
    const bool negative = term >> (format.exponent_bits + format.mantissa_bits) != 0;
    const uint64_t exponent = term >> format.mantissa_bits & format.top_exponent();
    const uint64_t mantissa = term % one;
    if (exponent == format.top_exponent() && mantissa != 0) return format.quiet_nan();
    all_negative = all_negative && negative;
    if (exponent == format.top_exponent()) {
      infinite[negative ? 1 : 0] = true;
    } else {
      sum.add(exponent == 0 ? mantissa : mantissa + one, kGuard + std::max<uint64_t>(exponent, 1) - 1, negative);
    }
  }
  if (infinite[0] && infinite[1]) return format.quiet_nan();
  if (infinite[0] || infinite[1]) return format.infinity(infinite[1]);
  if (sum.is_zero()) return format.compose(all_negative ? 1 : 0, 0, 0);
  const bool negative = sum.is_negative();
  if (negative) sum.negate();
  const bool more = sum.divide(divisor) != 0;
  return rounded(sum, more, format) | format.compose(negative ? 1 : 0, 0, 0);
}

}  // namespace switchml::sim
