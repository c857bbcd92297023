// The loops of kernels/partial_sum.h, compiled for each instruction set that gains by it. kernels_simd.h has the rules
// for such code: nothing here may be a function that the linker merges with that of another file.
#pragma once

#include <type_traits>

#include "base/element_type.h"
#include "kernels/float16.h"
#include "kernels/float_bits.h"
#include "kernels/partial_sum.h"

namespace switchml {
namespace {

template <typename To, typename From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// ---- blocks of numbers ----

template <typename F>
struct alignas(64) Block {
  F at[kSumBlock] = {};
};

/// Raw elements of a block; what lies behind the n-th is 0.
template <typename T>
void load(const uint8_t* from, size_t first, size_t n, Block<T>* block) {
  __builtin_memcpy(block->at, from + first * sizeof(T), n * sizeof(T));
}

// Each type: its exact numbers as F, float or double. What is not finite becomes a NaN or an infinity.
struct Float32 {
  using Raw = float;
  using Wide = double;
  template <typename F>
  static F number(Raw raw) {
    return static_cast<F>(raw);
  }
};
struct Float16 {
  using Raw = uint16_t;
  using Wide = float;
  template <typename F>
  static F number(Raw raw) {
    // The bits are those of a float32 that is too small by the difference of the biases.
    const float magnitude = bits_as<float>(static_cast<uint32_t>(raw & 0x7fff) << 13) * 0x1p112F;
    const uint32_t sign = static_cast<uint32_t>(raw & 0x8000) << 16;
    const uint32_t finite = bits_as<uint32_t>(magnitude);
    const uint32_t bits = (raw & 0x7c00) == 0x7c00 ? static_cast<uint32_t>(kQuietNanBits) : finite;
    return static_cast<F>(bits_as<float>(bits | sign));
  }
};
struct BFloat16 {
  using Raw = uint16_t;
  using Wide = float;
  template <typename F>
  static F number(Raw raw) {
    return static_cast<F>(bits_as<float>(static_cast<uint32_t>(raw) << 16));
  }
};
struct Float64 {
  using Raw = double;
  using Wide = double;
  template <typename F>
  static F number(Raw raw) {
    return raw;
  }
};

/// Adds `x` to `sum`; the error is left in `x`.
template <typename F>
inline void add_to(F* sum, F* x) {
  const F total = *sum + *x;
  const F part = total - *sum;
  const F error = (*sum - (total - part)) + (*x - part);
  *sum = total;
  *x = error;
}

/// Sums in F alone, exact where `inexact` is 0.
template <typename F>
struct Single {
  Block<F> sum;
  Block<F> inexact;  // The magnitudes of all errors together: not 0, or a NaN, once one is.

  void begin(const Block<F>& numbers) {
    for (size_t i = 0; i < kSumBlock; ++i) {
      sum.at[i] = numbers.at[i];
      inexact.at[i] = numbers.at[i] - numbers.at[i];  // A NaN unless it is finite.
    }
  }
  void add(Block<F>* numbers) {
    for (size_t i = 0; i < kSumBlock; ++i) {
      add_to(&sum.at[i], &numbers->at[i]);
      inexact.at[i] += __builtin_fabs(numbers->at[i]);
    }
  }
};

/// Sums in pairs of float64, exact where `inexact` is 0.
struct Pair {
  Block<double> high;
  Block<double> low;
  Block<double> inexact;

  void begin(const Block<double>& numbers) {
    for (size_t i = 0; i < kSumBlock; ++i) {
      high.at[i] = numbers.at[i];
      inexact.at[i] = numbers.at[i] - numbers.at[i];
    }
  }
  void add(Block<double>* numbers) {
    for (size_t i = 0; i < kSumBlock; ++i) add_to(&high.at[i], &numbers->at[i]);
    add_low(numbers);
  }
  void add_low(Block<double>* numbers) {
    for (size_t i = 0; i < kSumBlock; ++i) {
      add_to(&low.at[i], &numbers->at[i]);
      inexact.at[i] += __builtin_fabs(numbers->at[i]);
    }
  }
  /// Makes `high` the sum to nearest, and `low` its error. Zeros keep their signs.
  void normalize() {
    for (size_t i = 0; i < kSumBlock; ++i) {
      const double sum = low.at[i] == 0 ? high.at[i] : high.at[i] + low.at[i];
      const double part = sum - high.at[i];
      low.at[i] = (high.at[i] - (sum - part)) + (low.at[i] - part);
      inexact.at[i] += __builtin_fabs(low.at[i] - low.at[i]);  // An infinity shows here.
      high.at[i] = sum;
    }
  }
};

template <typename F>
SumMask mask_of(const Block<F>& inexact, size_t n) {
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
  Bits any = 0;
  for (size_t i = 0; i < kSumBlock; ++i) any |= bits_as<Bits>(inexact.at[i]);
  SumMask mask = 0;
  if (any == 0) return mask;  // As a rule. A magnitude is +0, and what lies behind the n-th is too.
  for (size_t i = 0; i < n; ++i) mask |= SumMask{inexact.at[i] == 0 ? 0U : 1U} << i;
  return mask;
}

template <typename E, typename F>
void load_terms(const uint8_t* from, size_t first, size_t n, Block<F>* numbers) {
  Block<typename E::Raw> raw;
  load(from, first, n, &raw);
  for (size_t i = 0; i < kSumBlock; ++i) numbers->at[i] = E::template number<F>(raw.at[i]);
}
template <typename E, typename F>
void load_wide(const uint8_t* from, size_t first, size_t n, Block<F>* numbers) {
  Block<typename E::Wide> wide;
  load(from, first, n, &wide);
  for (size_t i = 0; i < kSumBlock; ++i) numbers->at[i] = static_cast<F>(wide.at[i]);
}

template <typename E, typename F, typename Sum>
void add_all(const SumSource* sources, size_t count, size_t first, size_t n, Sum* sum) {
  Block<F> numbers;
  bool is_first = true;
  const auto add = [&] {
    if (is_first) {
      sum->begin(numbers);
    } else {
      sum->add(&numbers);
    }
    is_first = false;
  };
  for (size_t s = 0; s < count; ++s) {
    const SumSource& source = sources[s];
    const size_t stride = source.elements * sizeof(typename E::Raw);
    for (size_t t = 0; t < source.terms; ++t) {
      load_terms<E>(source.numbers + t * stride, first, n, &numbers);
      add();
    }
    if (source.terms > 0) continue;
    load_wide<E>(source.numbers, first, n, &numbers);
    add();
    if constexpr (sizeof(typename E::Raw) == 8) {
      load(source.numbers + stride, first, n, &numbers);
      sum->add_low(&numbers);
    }
  }
}

// ---- to the next wider float ----

template <typename E>
SumMask to_wide(const SumSource* sources, size_t count, size_t first, size_t n, uint8_t* to) {
  using Wide = typename E::Wide;
  Single<Wide> sum;
  add_all<E, Wide>(sources, count, first, n, &sum);
  __builtin_memcpy(to, sum.sum.at, n * sizeof(Wide));
  return mask_of(sum.inexact, n);
}

inline SumMask to_pairs(const SumSource* sources, size_t count, size_t first, size_t n, uint8_t* high, uint8_t* low) {
  Pair sum;
  add_all<Float64, double>(sources, count, first, n, &sum);
  sum.normalize();
  __builtin_memcpy(high, sum.high.at, n * sizeof(double));
  __builtin_memcpy(low, sum.low.at, n * sizeof(double));
  return mask_of(sum.inexact, n);
}

// ---- to the type, by rounding to odd (exact_simd.h) ----

template <typename Float, typename Bits>
Float to_odd(Float rounded, Float error) {
  const Bits bits = bits_as<Bits>(rounded);
  const Bits beyond = __builtin_signbit(error) != __builtin_signbit(rounded) ? 1 : 0;
  return bits_as<Float>(error == 0 ? bits : static_cast<Bits>((bits - beyond) | 1));
}

/// The quotient, to odd. Its remainder is exact: the divisor has at most 8 bits.
inline double shared_out(double sum, double divisor) {
  const double quotient = sum / divisor;
  const auto high = bits_as<double>(bits_as<uint64_t>(quotient) & ~uint64_t{0xff});
  return to_odd<double, uint64_t>(quotient, (sum - high * divisor) - (quotient - high) * divisor);
}

inline uint32_t float32_to_odd(double number) {
  const auto rounded = static_cast<float>(number);
  const double error = number - static_cast<double>(rounded);
  const uint32_t bits = bits_as<uint32_t>(rounded);
  const uint32_t beyond = __builtin_signbit(error) != __builtin_signbit(number) ? 1 : 0;
  // An infinity stands for a number that no type of 16 bits has, either.
  return error == 0 || __builtin_isinf(rounded) ? bits : (bits - beyond) | 1;
}

template <typename E>
void store(double number, size_t i, uint8_t* out) {
  if constexpr (sizeof(typename E::Raw) == 4) {
    const auto rounded = static_cast<float>(number);
    __builtin_memcpy(out + i * sizeof rounded, &rounded, sizeof rounded);
  } else {
    const uint32_t bits = float32_to_odd(number);
    const auto bfloat = static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    const uint16_t element = std::is_same_v<E, Float16> ? float16_of(bits) : bfloat;
    __builtin_memcpy(out + i * sizeof element, &element, sizeof element);
  }
}

template <typename E>
SumMask to_type(const SumSource* sources, size_t count, size_t first, size_t n, uint32_t divisor, uint8_t* out) {
  Pair sum;
  add_all<E, double>(sources, count, first, n, &sum);
  sum.normalize();
  Block<double> odd;
  for (size_t i = 0; i < kSumBlock; ++i) odd.at[i] = to_odd<double, uint64_t>(sum.high.at[i], sum.low.at[i]);
  if (divisor != 1) {
    for (double& number : odd.at) number = shared_out(number, divisor);
  }
  for (size_t i = 0; i < n; ++i) store<E>(odd.at[i], i, out);
  return mask_of(sum.inexact, n);
}

/// There is no wider float to round float64 from: only what is divided by a power of two, and stays normal, is
/// rounded once here.
inline SumMask to_float64(const SumSource* sources, size_t count, size_t first, size_t n, uint32_t divisor,
                          uint8_t* out) {
  constexpr double kStaysNormal = 0x1p-900;
  Pair sum;
  add_all<Float64, double>(sources, count, first, n, &sum);
  sum.normalize();
  if (divisor != 1) {
    const bool is_power = (divisor & (divisor - 1)) == 0;
    for (size_t i = 0; i < kSumBlock; ++i) {
      const double magnitude = __builtin_fabs(sum.high.at[i]);
      const bool is_exact = magnitude == 0 || (is_power && magnitude >= kStaysNormal);
      sum.inexact.at[i] += is_exact ? 0.0 : 1.0;
      sum.high.at[i] /= divisor;
    }
  }
  __builtin_memcpy(out, sum.high.at, n * sizeof(double));
  return mask_of(sum.inexact, n);
}

inline SumMask sum_to_wide(ElementType type, const SumSource* sources, size_t count, size_t first, size_t n,
                           uint8_t* high, uint8_t* low) {
  switch (type) {
    case ElementType::kFloat16: return to_wide<Float16>(sources, count, first, n, high);
    case ElementType::kBFloat16: return to_wide<BFloat16>(sources, count, first, n, high);
    case ElementType::kFloat64: return to_pairs(sources, count, first, n, high, low);
    default: return to_wide<Float32>(sources, count, first, n, high);
  }
}

inline SumMask sum_to_type(ElementType type, const SumSource* sources, size_t count, size_t first, size_t n,
                           uint32_t divisor, uint8_t* out) {
  switch (type) {
    case ElementType::kFloat16: return to_type<Float16>(sources, count, first, n, divisor, out);
    case ElementType::kBFloat16: return to_type<BFloat16>(sources, count, first, n, divisor, out);
    case ElementType::kFloat64: return to_float64(sources, count, first, n, divisor, out);
    default: return to_type<Float32>(sources, count, first, n, divisor, out);
  }
}

inline constexpr PartialSumKernels kLoops = {sum_to_wide, sum_to_type};

}  // namespace
}  // namespace switchml
