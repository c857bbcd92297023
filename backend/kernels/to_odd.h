// Rounding to odd, as exact_simd.h has it for vectors: the last bit is set where the exact number is another one.
// Static, because it is compiled for several instruction sets (kernels_simd.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/limits.h"
#include "kernels/float_bits.h"

namespace switchml {

template <typename Float>
using BitsOf = std::conditional_t<sizeof(Float) == 4, uint32_t, uint64_t>;

/// The exact number is `error` away from `rounded`.
template <typename Float, typename Error>
static inline Float to_odd(Float rounded, Error error) {
  using Bits = BitsOf<Float>;
  const auto bits = bits_as<Bits>(rounded);
  const auto sign = static_cast<Bits>(bits_as<BitsOf<Error>>(error) >> (8 * sizeof(Error) - 1));
  const Bits beyond = sign ^ bits >> (8 * sizeof(Float) - 1);  // Its magnitude was rounded up.
  const Bits odd = (bits - beyond) | 1;
  return bits_as<Float>(error == 0 ? bits : odd);
}

/// Bits of a divisor that is no power of two. Its products with parts of a quotient are exact if one part has so many
/// bits, the last ones, and the other part the rest: of float32 14 bits and 10.
constexpr int kDivisorBits = 10;
static_assert(kMaxRanks <= 1 << kDivisorBits);
constexpr int kLowQuotient = (1 << kDivisorBits) - 1;

/// What is left of a sum after its quotient, exactly.
template <typename Float>
static inline Float rest_of(Float sum, Float divisor, Float quotient) {
  const auto high = bits_as<Float>(bits_as<BitsOf<Float>>(quotient) & ~BitsOf<Float>{kLowQuotient});
  return (sum - high * divisor) - (quotient - high) * divisor;
}

template <typename Float>
static inline Float shared_out(Float sum, Float divisor) {
  const Float quotient = sum / divisor;
  return to_odd(quotient, rest_of(sum, divisor, quotient));
}

static inline float float32_to_odd(double number) {
  const auto rounded = static_cast<float>(number);
  return to_odd(rounded, number - static_cast<double>(rounded));
}

}  // namespace switchml
