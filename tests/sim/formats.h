// The formats of floats, bit by bit and in double precision: slow, plain, and shared with nothing that ships.
#pragma once

#include <cstdint>

#include "base/element_type.h"

namespace switchml::sim {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinities = true;  // Else the highest exponent has numbers too, but for one NaN; encode() is not for it.

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t top_exponent() const { return (uint64_t{1} << exponent_bits) - 1; }
  uint64_t compose(uint64_t sign, uint64_t exponent, uint64_t mantissa) const {
    return (sign << exponent_bits | exponent) << mantissa_bits | mantissa;
  }
  uint64_t infinity(bool negative) const { return compose(negative ? 1 : 0, top_exponent(), 0); }
  uint64_t quiet_nan() const { return compose(0, top_exponent(), uint64_t{1} << (mantissa_bits - 1)); }
  bool is_nan(uint64_t raw) const;
  /// The value of some bits (of NaNs, any NaN).
  double decode(uint64_t raw) const;
  /// The nearest value, ties to even; beyond the largest, infinity.
  uint64_t encode(double value) const;
};

inline constexpr Format kFloat32Format{8, 23};
/// Precondition: is_floating(type).
Format format_of(ElementType type);

/// Element i of a tensor, as bits without meaning, and back.
uint64_t load_raw(const uint8_t* tensor, size_t i, size_t element_bytes);
void store_raw(uint8_t* tensor, size_t i, size_t element_bytes, uint64_t raw);

}  // namespace switchml::sim
