#include "formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace switchml::sim {

Format format_of(ElementType type) {
  if (type == ElementType::kFloat16) return {5, 10};
  if (type == ElementType::kBFloat16) return {8, 7};
  if (type == ElementType::kFloat64) return {11, 52};
  if (type == ElementType::kFloat8E4M3) return {4, 3, false};
  if (type == ElementType::kFloat8E5M2) return {5, 2};
  return kFloat32Format;
}

bool Format::is_nan(uint64_t raw) const {
  const uint64_t mantissa = raw & ((uint64_t{1} << mantissa_bits) - 1);
  if ((raw >> mantissa_bits & top_exponent()) != top_exponent()) return false;
  return has_infinities ? mantissa != 0 : mantissa + 1 == uint64_t{1} << mantissa_bits;
}

double Format::decode(uint64_t raw) const {
  if (is_nan(raw)) return std::numeric_limits<double>::quiet_NaN();
  const uint64_t mantissa = raw & ((uint64_t{1} << mantissa_bits) - 1);
  const uint64_t exponent = raw >> mantissa_bits & top_exponent();
  const double sign = (raw >> (mantissa_bits + exponent_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == top_exponent() && has_infinities) return sign * std::numeric_limits<double>::infinity();
  const uint64_t whole = exponent == 0 ? mantissa : mantissa + (uint64_t{1} << mantissa_bits);
  const int power = static_cast<int>(std::max(exponent, uint64_t{1})) - bias() - mantissa_bits;
  return sign * std::ldexp(static_cast<double>(whole), power);
}

uint64_t Format::encode(double value) const {
  const uint64_t sign = std::signbit(value) ? 1 : 0;
  if (std::isnan(value)) return quiet_nan();
  if (std::isinf(value)) return infinity(sign != 0);
  if (value == 0) return compose(sign, 0, 0);
  const double magnitude = std::fabs(value);
  const int smallest = 1 - bias();
  int power = std::max(std::ilogb(magnitude), smallest);
  const double one = std::ldexp(1.0, mantissa_bits);
  double whole = std::nearbyint(std::ldexp(magnitude, mantissa_bits - power));
  if (whole < one) return compose(sign, 0, static_cast<uint64_t>(whole));  // below the normal numbers
  if (whole == 2 * one) {
    ++power;
    whole = one;
  }
  if (power > bias()) return infinity(sign != 0);
  return compose(sign, static_cast<uint64_t>(power + bias()), static_cast<uint64_t>(whole - one));
}

uint64_t load_raw(const uint8_t* tensor, size_t i, size_t element_bytes) {
  uint64_t raw = 0;
  std::memcpy(&raw, tensor + i * element_bytes, element_bytes);
  return raw;
}

void store_raw(uint8_t* tensor, size_t i, size_t element_bytes, uint64_t raw) {
  std::memcpy(tensor + i * element_bytes, &raw, element_bytes);
}

}  // namespace switchml::sim
