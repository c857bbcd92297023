#include "kernels/narrow_floats.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "kernels/float_bits.h"
#include "kernels/kernels.h"

namespace switchml {

namespace {

constexpr size_t kBlock = 256;

constexpr double power_of_two(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// ---- floats of 8 bits: their values, and the nearest one to a number ----

struct E4M3 {
  static constexpr int kMantissa = 3;
  static constexpr int kBias = 7;
  static constexpr uint8_t kLimit = 0x7f;   // Where numbers end: NaN, for it has no infinity.
  static constexpr uint8_t kBeyond = 0x7e;  // What is beyond the numbers: the largest of them. [OP-9]
  static constexpr uint8_t kQuietNan = 0x7f;
};
struct E5M2 {
  static constexpr int kMantissa = 2;
  static constexpr int kBias = 15;
  static constexpr uint8_t kLimit = 0x7c;  // Infinity.
  static constexpr uint8_t kBeyond = kLimit;
  static constexpr uint8_t kQuietNan = 0x7e;
};

template <typename E>
constexpr bool is_nan(int bits) {
  return E::kLimit == E::kQuietNan ? (bits & 0x7f) == E::kQuietNan : (bits & 0x7f) > E::kLimit;
}

template <typename E>
constexpr double value_of(int bits) {
  if (is_nan<E>(bits)) return __builtin_nan("");
  const int field = (bits & 0x7f) >> E::kMantissa;
  const int hidden = 1 << E::kMantissa;
  const int significand = (bits & (hidden - 1)) + (field == 0 ? 0 : hidden);
  const double magnitude = (bits & 0x7f) == E::kLimit
                               ? __builtin_inf()
                               : significand * power_of_two((field == 0 ? 1 : field) - E::kBias - E::kMantissa);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

/// What makes of each byte something else.
template <typename T>
using Table = std::array<T, 256>;

template <typename T, typename F>
constexpr Table<T> table_of(const F& f) {
  Table<T> table{};
  for (int bits = 0; bits < 256; ++bits) table[static_cast<size_t>(bits)] = static_cast<T>(f(bits));
  return table;
}

template <typename E>
constexpr Table<double> kValues = table_of<double>(value_of<E>);
template <typename E>
constexpr Table<float> kFloats = table_of<float>(value_of<E>);

/// Bytes in the order of the values, -0 below +0, a NaN above all. With `minimum` complemented, but for a NaN.
template <typename E, bool minimum>
constexpr Table<uint8_t> kOrder = table_of<uint8_t>([](int bits) {
  if (is_nan<E>(bits)) return 0xff;
  const int key = (bits & 0x80) != 0 ? ~bits & 0xff : bits | 0x80;
  return minimum ? ~key & 0xff : key;
});
template <typename E, bool minimum>
constexpr Table<uint8_t> kUnorder = table_of<uint8_t>([](int key) {
  if (key == 0xff) return int{E::kQuietNan};
  const int plain = minimum ? ~key & 0xff : key;
  return (plain & 0x80) != 0 ? plain & 0x7f : ~plain & 0xff;
});

/// The nearest float of 8 bits, to even.
template <typename E>
uint8_t rounded(double number) {
  constexpr int kDoubleMantissa = 52;
  constexpr int kShift = kDoubleMantissa - E::kMantissa;
  constexpr double kLeastNormal = power_of_two(1 - E::kBias);
  // Its unit in the last place is the smallest number: an addition rounds to that.
  constexpr double kMagic = power_of_two(1 - E::kBias - E::kMantissa + kDoubleMantissa);
  if (number != number) return E::kQuietNan;
  const uint64_t bits = bits_as<uint64_t>(number);
  const uint64_t magnitude = bits & INT64_MAX;
  const bool negative = bits != magnitude;
  uint64_t code = 0;
  if (magnitude < bits_as<uint64_t>(kLeastNormal)) {
    code = bits_as<uint64_t>((negative ? -number : number) + kMagic) - bits_as<uint64_t>(kMagic);
  } else {
    const uint64_t odd = magnitude >> kShift & 1;
    const uint64_t up = magnitude + ((uint64_t{1} << (kShift - 1)) - 1) + odd;
    code = (up - (static_cast<uint64_t>(1023 - E::kBias) << kDoubleMantissa)) >> kShift;
  }
  return static_cast<uint8_t>((code < E::kLimit ? code : E::kBeyond) | (negative ? 0x80 : 0));
}

/// combine(combine(begin, first), second) ... of the values of the ranks' elements, a block after the other.
template <typename E, typename Combine, typename Finish>
void fold(const uint8_t* const* inputs, size_t ranks, size_t n, uint8_t* out, double begin, const Combine& combine,
          const Finish& finish) {
  std::array<double, kBlock> total;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    total.fill(begin);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const uint8_t* from = inputs[rank] + first;
      for (size_t i = 0; i < count; ++i) total[i] = combine(total[i], kValues<E>[from[i]]);
    }
    for (size_t i = 0; i < count; ++i) out[first + i] = rounded<E>(finish(total[i]));
  }
}

// float64 adds so many terms of these ranges exactly: 39 bits. A quotient of a sum is no tie unless it is one exactly:
// ties have 5 bits, and the divisor 11.
template <typename E>
void sum(const uint8_t* const* inputs, size_t ranks, size_t n, uint32_t divisor, uint8_t* out) {
  const auto add = [](double a, double b) { return a + b; };
  // -0 is the neutral element.
  if (divisor == 1) return fold<E>(inputs, ranks, n, out, -0.0, add, [](double total) { return total; });
  fold<E>(inputs, ranks, n, out, -0.0, add, [divisor](double total) { return total / divisor; });
}

template <typename E, bool minimum>
void extreme(const uint8_t* const* inputs, size_t ranks, size_t n, uint8_t* out) {
  std::array<uint8_t, kBlock> best;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    best.fill(0);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const uint8_t* from = inputs[rank] + first;
      for (size_t i = 0; i < count; ++i) best[i] = std::max(best[i], kOrder<E, minimum>[from[i]]);
    }
    for (size_t i = 0; i < count; ++i) out[first + i] = kUnorder<E, minimum>[best[i]];
  }
}

// ---- to float32 ----

template <typename E>
void widen(const uint8_t* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) to[i] = kFloats<E>[from[i]];
}

/// 2^(s - 127), or NaN.
float scale_of(uint8_t s) {
  constexpr uint32_t kLeast = uint32_t{1} << (kMantissaBits - 1);  // 2^-127 is subnormal.
  const uint32_t bits = s == 0 ? kLeast : s == 255 ? uint32_t{kQuietNanBits} : uint32_t{s} << kMantissaBits;
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// Products with powers of two are exact: the smallest is 2^-9 times 2^-127. Those beyond float32 are infinities.
template <typename Widen>
void widen_blocks(const uint8_t* from, size_t n, float* to, const Widen& widen_one) {
  for (size_t block = 0; block < n; ++block, from += kScaledBytes, to += kScaledValues) {
    widen_one(from + 1, to, scale_of(from[0]));
  }
}

void widen_float8_block(const uint8_t* from, float* to, float scale) {
  for (size_t i = 0; i < kScaledValues; ++i) to[i] = kFloats<E4M3>[from[i]] * scale;
}

}  // namespace

void to_float32(ElementType type, const uint8_t* from, size_t n, float* to) {  // [NSUM-2, NSUM-3]
  switch (type) {
    case ElementType::kFloat16: return kernels().widen_half[0](from, to, n);
    case ElementType::kBFloat16: return kernels().widen_half[1](from, to, n);
    case ElementType::kFloat8E4M3: return widen<E4M3>(from, n, to);
    case ElementType::kFloat8E5M2: return widen<E5M2>(from, n, to);
    case ElementType::kScaledInt8:
      return widen_blocks(from, n, to,
                          [scale_int8 = kernels().scale_int8](const uint8_t* numbers, float* out, float by) {
                            scale_int8(numbers, out, kScaledValues, by);
                          });
    case ElementType::kScaledFloat8: return widen_blocks(from, n, to, widen_float8_block);
    default: SWITCHML_ASSERT(false);
  }
}

void sum_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, uint32_t divisor,
                uint8_t* out) {
  SWITCHML_ASSERT(is_float8(type) && ranks <= kMaxWorkers && divisor >= 1 && divisor <= kMaxRanks);
  if (type == ElementType::kFloat8E4M3) return sum<E4M3>(inputs, ranks, n, divisor, out);
  sum<E5M2>(inputs, ranks, n, divisor, out);
}

void extreme_of_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, bool minimum,
                       uint8_t* out) {
  SWITCHML_ASSERT(is_float8(type));
  if (type == ElementType::kFloat8E4M3) {
    return minimum ? extreme<E4M3, true>(inputs, ranks, n, out) : extreme<E4M3, false>(inputs, ranks, n, out);
  }
  minimum ? extreme<E5M2, true>(inputs, ranks, n, out) : extreme<E5M2, false>(inputs, ranks, n, out);
}

void multiply_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, uint8_t* out) {
  SWITCHML_ASSERT(is_float8(type));
  const auto multiply = [](double a, double b) { return a * b; };
  const auto as_it_is = [](double product) { return product; };
  if (type == ElementType::kFloat8E4M3) return fold<E4M3>(inputs, ranks, n, out, 1, multiply, as_it_is);
  fold<E5M2>(inputs, ranks, n, out, 1, multiply, as_it_is);
}

}  // namespace switchml
