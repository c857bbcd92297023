#include "kernels/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/float_bits.h"

namespace switchml {

namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

/// Digits first ... last have been added to; one more takes carries. (The highest one of all takes its own.)
void FixedPoint::use(int first, int last) {
  low_ = std::min(low_, first);
  end_ = std::max(end_, std::min(last + 2, kDigits));
}

void FixedPoint::add(double number) {
  const uint64_t bits = bits_as<uint64_t>(number);
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
  use(digit, digit + 2);
}

void FixedPoint::add_fixed(const uint8_t* bytes, const FloatFormat& format) {
  const int position = format.least - kLeast;
  const int limbs = static_cast<int>(format.fixed_bytes()) / 4;
  const int first = position / kDigitBits;
  for (int i = 0; i < limbs; ++i) {
    uint32_t limb = 0;
    std::memcpy(&limb, bytes + 4 * i, sizeof limb);
    const bool is_last = i + 1 == limbs;  // It has the sign.
    const int64_t part = is_last ? static_cast<int64_t>(static_cast<int32_t>(limb)) : static_cast<int64_t>(limb);
    const int64_t shifted = part * (int64_t{1} << (position % kDigitBits));
    digits_[first + i] += static_cast<int64_t>(static_cast<uint64_t>(shifted) & kDigitMask);
    digits_[first + i + 1] += shifted >> kDigitBits;
  }
  use(first, first + limbs);
}

void FixedPoint::store(uint8_t* bytes, const FloatFormat& format) const {
  FixedPoint value = *this;
  const uint64_t sign = value.low_ < kDigits && value.carry() < 0 ? kDigitMask : 0;
  const int position = format.least - kLeast;
  const int shift = position % kDigitBits;
  const auto digit = [&](int i) {
    if (i < value.low_) return uint64_t{0};
    return i < value.end_ ? static_cast<uint64_t>(value.digits_[i]) & kDigitMask : sign;
  };
  for (int i = 0; i < static_cast<int>(format.fixed_bytes()) / 4; ++i) {
    const int at = position / kDigitBits + i;
    const auto limb = static_cast<uint32_t>((digit(at) | digit(at + 1) << kDigitBits) >> shift);
    std::memcpy(bytes + 4 * i, &limb, sizeof limb);
  }
}

uint64_t FixedPoint::rounded(uint32_t divisor, const FloatFormat& format) const {
  if (low_ == kDigits) return 0;
  FixedPoint value = *this;
  const bool negative = value.carry() < 0;
  if (negative) {
    for (int i = value.low_; i < value.end_; ++i) value.digits_[i] = -value.digits_[i];
    value.carry();
  }
  const bool rest = value.divide(divisor);
  const int top = value.highest_bit();
  if (top < 0 && !rest) return 0;
  return (negative ? format.sign() : 0) | value.round(top, rest, format);
}

bool FixedPoint::is_zero() const {
  FixedPoint value = *this;
  return low_ == kDigits || (value.carry() == 0 && value.highest_bit() < 0);
}

/// Makes all digits but the last one 0 ... 2^32 - 1. The result has the sign of the value, unless it is 0.
int64_t FixedPoint::carry() {
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
bool FixedPoint::divide(uint32_t divisor) {
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
int FixedPoint::highest_bit() const {
  for (int i = end_ - 1; i >= low_; --i) {
    if (digits_[i] != 0) return kDigitBits * i + 63 - __builtin_clzll(static_cast<uint64_t>(digits_[i]));
  }
  return -1;
}

uint64_t FixedPoint::bit(int position) const {
  return static_cast<uint64_t>(digits_[position / kDigitBits]) >> (position % kDigitBits) & 1;
}

bool FixedPoint::any_below(int position) const {
  const int digit = position / kDigitBits;
  for (int i = low_; i < digit; ++i) {
    if (digits_[i] != 0) return true;
  }
  return (static_cast<uint64_t>(digits_[digit]) & ((uint64_t{1} << (position % kDigitBits)) - 1)) != 0;
}

uint64_t FixedPoint::round(int top, bool rest, const FloatFormat& format) const {
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

void ExactTotal::add(double number) {
  negative_zeros_ = negative_zeros_ && number == 0 && std::signbit(number);
  if (std::isnan(number)) {
    nan_ = true;
  } else if (std::isinf(number)) {
    infinite_[std::signbit(number) ? 1 : 0] = true;
  } else {
    sum_.add(number);
  }
}

void ExactTotal::add_fixed(const uint8_t* bytes, const FloatFormat& format) {
  negative_zeros_ = false;
  sum_.add_fixed(bytes, format);
}

uint64_t ExactTotal::rounded(uint32_t divisor, const FloatFormat& format) const {
  if (nan_ || (infinite_[0] && infinite_[1])) return format.quiet_nan();
  if (infinite_[0]) return format.limit;
  if (infinite_[1]) return format.sign() | format.limit;
  return negative_zeros_ ? format.sign() : sum_.rounded(divisor, format);
}

uint64_t exact_sum(const double* numbers, size_t count, uint32_t divisor, const FloatFormat& format) {
  ExactTotal total;
  for (size_t i = 0; i < count; ++i) total.add(numbers[i]);
  return total.rounded(divisor, format);
}

}  // namespace switchml
