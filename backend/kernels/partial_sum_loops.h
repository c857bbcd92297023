// The loops of kernels/partial_sum.h, compiled for each instruction set that gains by it. kernels_simd.h has the rules
// for such code: nothing here may be a function that the linker merges with that of another file.
#pragma once

#include <type_traits>

#include "base/element_type.h"
#include "kernels/float16.h"
#include "kernels/float_bits.h"
#include "kernels/partial_sum.h"
#include "kernels/to_odd.h"

namespace switchml {
namespace {

// ---- blocks of numbers ----

/// Vectors in the compiler's own notation, as long as the processor's.
template <typename T, size_t N>
struct VectorOf {
  typedef T Type __attribute__((vector_size(N * sizeof(T))));
};
#if defined(__AVX512DQ__)
inline constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr size_t kVectorBytes = 32;
#else
inline constexpr size_t kVectorBytes = 16;
#endif
template <typename F>
constexpr size_t kLanes = kVectorBytes / sizeof(F);
/// As many numbers of another type as a vector of F has.
template <typename T, typename F>
using Beside = typename VectorOf<T, kLanes<F>>::Type;
template <typename F>
using Vector = Beside<F, F>;

template <typename F>
struct alignas(64) Block {
  F at[kSumBlock];
};

/// A vector of raw elements from the i-th on; those behind the `left` first are 0.
template <typename T, typename F>
Beside<T, F> load(const uint8_t* from, size_t i, size_t left) {
  Beside<T, F> raw = {};
  if (i + kLanes<F> <= left) {
    __builtin_memcpy(&raw, from + i * sizeof(T), sizeof raw);
  } else if (i < left) {
    __builtin_memcpy(&raw, from + i * sizeof(T), (left - i) * sizeof(T));
  }
  return raw;
}

// Each type: its exact numbers as F, float or double. What is not finite becomes a NaN or an infinity.
// Narrow: the float in which sums of similar terms are exact.
struct Float32 {
  using Raw = float;
  using Wide = double;
  using Narrow = double;
  template <typename F>
  static Vector<F> number(Beside<float, F> raw) {
    return __builtin_convertvector(raw, Vector<F>);
  }
};
struct Float16 {
  using Raw = uint16_t;
  using Wide = float;
  using Narrow = float;
  template <typename F>
  static Vector<F> number(Beside<uint16_t, F> raw) {
    // The bits are those of a float32 that is too small by the difference of the biases.
    const auto bits = __builtin_convertvector(raw, Beside<uint32_t, F>);
    const auto magnitude = bits_as<Beside<float, F>>((bits & 0x7fffU) << 13) * 0x1p112F;
    const auto no_number = bits_as<Beside<uint32_t, F>>((bits & 0x7c00U) == 0x7c00U);
    const auto finite = bits_as<Beside<uint32_t, F>>(magnitude) | (bits & 0x8000U) << 16;
    const auto all = finite | (no_number & static_cast<uint32_t>(kQuietNanBits));
    return __builtin_convertvector(bits_as<Beside<float, F>>(all), Vector<F>);
  }
};
struct BFloat16 {
  using Raw = uint16_t;
  using Wide = float;
  using Narrow = float;
  template <typename F>
  static Vector<F> number(Beside<uint16_t, F> raw) {
    const auto bits = __builtin_convertvector(raw, Beside<uint32_t, F>) << 16;
    return __builtin_convertvector(bits_as<Beside<float, F>>(bits), Vector<F>);
  }
};
struct Float64 {
  using Raw = double;
  using Wide = double;
  template <typename F>
  static Vector<F> number(Vector<double> raw) {
    return raw;
  }
};

template <typename F>
Vector<F> magnitude_of(Vector<F> x) {
  using Bits = BitsOf<F>;
  return bits_as<Vector<F>>(bits_as<Beside<Bits, F>>(x) & (~Bits{0} >> 1));
}

/// Adds `x` to `sum`, and returns the error.
template <typename F>
Vector<F> add_to(Vector<F>* sum, Vector<F> x) {
  const Vector<F> total = *sum + x;
  const Vector<F> part = total - *sum;
  const Vector<F> error = (*sum - (total - part)) + (x - part);
  *sum = total;
  return error;
}

/// Sums in F alone, exact where `inexact` is 0.
template <typename F>
struct Single {
  using Number = F;
  Block<F> sum;
  Block<F> inexact;  // The magnitudes of all errors together: not 0, or a NaN, once one is.

  struct Lanes {
    Vector<F> sum, inexact;
    void begin(Vector<F> numbers) {
      sum = numbers;
      inexact = numbers * F{0};  // A NaN unless it is finite.
    }
    void add(Vector<F> numbers) { inexact += magnitude_of<F>(add_to<F>(&sum, numbers)); }
  };
  void put(size_t i, const Lanes& lanes) {
    __builtin_memcpy(sum.at + i, &lanes.sum, kVectorBytes);
    __builtin_memcpy(inexact.at + i, &lanes.inexact, kVectorBytes);
  }
};

/// Sums in pairs of float64, exact where `inexact` is 0.
struct Pair {
  using Number = double;
  Block<double> high;
  Block<double> low;
  Block<double> inexact;

  struct Lanes {
    Vector<double> high, low, inexact;
    void begin(Vector<double> numbers) {
      high = numbers;
      low = Vector<double>{};
      inexact = numbers * 0.0;
    }
    void add(Vector<double> numbers) { add_low(add_to<double>(&high, numbers)); }
    void add_low(Vector<double> numbers) { inexact += magnitude_of<double>(add_to<double>(&low, numbers)); }
  };
  void put(size_t i, const Lanes& lanes) {
    __builtin_memcpy(high.at + i, &lanes.high, kVectorBytes);
    __builtin_memcpy(low.at + i, &lanes.low, kVectorBytes);
    __builtin_memcpy(inexact.at + i, &lanes.inexact, kVectorBytes);
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
  using Bits = BitsOf<F>;
  Bits any = 0;
  for (size_t i = 0; i < kSumBlock; ++i) any |= bits_as<Bits>(inexact.at[i]);
  SumMask mask = 0;
  if (any == 0) return mask;  // As a rule. A magnitude is +0, and what lies behind the n-th is too.
  for (size_t i = 0; i < n; ++i) mask |= SumMask{inexact.at[i] == 0 ? 0U : 1U} << i;
  return mask;
}

/// Vectors that are added at a time.
inline constexpr size_t kAtATime = 4;

/// As many elements as these have, from `first` on, of which `left` or more exist.
template <typename E, typename Sum>
void add_lanes(const SumSource* sources, size_t count, size_t first, size_t left, typename Sum::Lanes* lanes) {
  using F = typename Sum::Number;
  using Raw = typename E::Raw;
  using Wide = typename E::Wide;
  bool is_first = true;
  const auto add = [&](const auto& number) {
    for (size_t v = 0; v < kAtATime; ++v) {
      if (is_first) {
        lanes[v].begin(number(v * kLanes<F>));
      } else {
        lanes[v].add(number(v * kLanes<F>));
      }
    }
    is_first = false;
  };
  for (size_t s = 0; s < count; ++s) {
    const SumSource& source = sources[s];
    const size_t stride = source.elements * sizeof(Raw);
    const uint8_t* from = source.numbers + first * sizeof(Raw);
    for (size_t t = 0; t < source.terms; ++t, from += stride) {
      add([&](size_t i) { return E::template number<F>(load<Raw, F>(from, i, left)); });
    }
    if (source.terms > 0) continue;
    const uint8_t* wide = source.numbers + first * sizeof(Wide);
    add([&](size_t i) { return __builtin_convertvector((load<Wide, F>(wide, i, left)), Vector<F>); });
    if constexpr (sizeof(Raw) == 8) {
      for (size_t v = 0; v < kAtATime; ++v) lanes[v].add_low(load<double, F>(wide + stride, v * kLanes<F>, left));
    }
  }
}

template <typename E, typename Sum>
void add_all(const SumSource* sources, size_t count, size_t first, size_t n, Sum* sum) {
  constexpr size_t kStep = kLanes<typename Sum::Number>;
  for (size_t i = 0; i < kSumBlock; i += kAtATime * kStep) {
    typename Sum::Lanes lanes[kAtATime];
    if (i < n) {
      add_lanes<E, Sum>(sources, count, first + i, n - i, lanes);
    } else {
      for (auto& one : lanes) one.begin(Vector<typename Sum::Number>{});
    }
    for (size_t v = 0; v < kAtATime; ++v) sum->put(i + v * kStep, lanes[v]);
  }
}

// ---- to the next wider float ----

template <typename E>
SumMask to_wide(const SumSource* sources, size_t count, size_t first, size_t n, uint8_t* to) {
  using Wide = typename E::Wide;
  Single<Wide> sum;
  add_all<E>(sources, count, first, n, &sum);
  __builtin_memcpy(to, sum.sum.at, n * sizeof(Wide));
  return mask_of(sum.inexact, n);
}

inline SumMask to_pairs(const SumSource* sources, size_t count, size_t first, size_t n, uint8_t* high, uint8_t* low) {
  Pair sum;
  add_all<Float64>(sources, count, first, n, &sum);
  sum.normalize();
  __builtin_memcpy(high, sum.high.at, n * sizeof(double));
  __builtin_memcpy(low, sum.low.at, n * sizeof(double));
  return mask_of(sum.inexact, n);
}

// ---- to the type, by rounding to odd (exact_simd.h) ----

inline bool is_power_of_two(uint32_t divisor) { return (divisor & (divisor - 1)) == 0; }

/// Divides, to odd. By a power of two nothing is rounded: the smallest number of each type may be halved that often.
template <typename Float>
void share_out(uint32_t divisor, Block<Float>* sums) {
  const auto by = static_cast<Float>(divisor);
  const bool is_power = is_power_of_two(divisor);
  for (size_t i = 0; is_power && i < kSumBlock; ++i) sums->at[i] *= 1 / by;
  for (size_t i = 0; !is_power && i < kSumBlock; ++i) sums->at[i] = shared_out(sums->at[i], by);
}

/// The quotients, to odd, and which of them these are not.
template <typename E>
SumMask share_out_pairs(const SumSource* sources, size_t count, size_t first, size_t n, uint32_t divisor,
                        Block<typename E::Narrow>* odd) {
  Pair sum;
  add_all<E>(sources, count, first, n, &sum);
  sum.normalize();
  for (size_t i = 0; i < kSumBlock; ++i) sum.high.at[i] = to_odd(sum.high.at[i], sum.low.at[i]);
  share_out(divisor, &sum.high);
  for (size_t i = 0; i < kSumBlock; ++i) {
    if constexpr (sizeof(odd->at[0]) == 4) {
      odd->at[i] = float32_to_odd(sum.high.at[i]);
    } else {
      odd->at[i] = sum.high.at[i];
    }
  }
  return mask_of(sum.inexact, n);
}

template <typename E>
typename E::Raw element_of(typename E::Narrow number) {
  if constexpr (sizeof(typename E::Raw) == 4) {
    return static_cast<float>(number);
  } else {
    const uint32_t bits = bits_as<uint32_t>(number);
    const auto bfloat = static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
    return std::is_same_v<E, Float16> ? float16_of(bits) : bfloat;
  }
}

template <typename E>
SumMask to_type(const SumSource* sources, size_t count, size_t first, size_t n, uint32_t divisor, uint8_t* out) {
  Single<typename E::Narrow> sum;
  add_all<E>(sources, count, first, n, &sum);
  SumMask bad = mask_of(sum.inexact, n);
  if (bad == 0) {  // As a rule.
    share_out(divisor, &sum.sum);
  } else {
    bad = share_out_pairs<E>(sources, count, first, n, divisor, &sum.sum);
  }
  Block<typename E::Raw> elements;
  for (size_t i = 0; i < kSumBlock; ++i) elements.at[i] = element_of<E>(sum.sum.at[i]);
  __builtin_memcpy(out, elements.at, n * sizeof(typename E::Raw));
  return bad;
}

/// There is no wider float to round float64 from. A quotient that stays normal is the sum of two float64, which an
/// addition rounds. Where the second is not exact, that is done with a margin to both sides: if both give the same, so
/// does the exact one (Ziv 1991).
inline void share_out_rounded(double by, Pair* sum) {
  for (size_t i = 0; i < kSumBlock; ++i) {
    const double low = sum->low.at[i];
    const double quotient = sum->high.at[i] / by;
    const double rest = rest_of(sum->high.at[i], by, quotient);
    const double tail = rest + low;
    const double part = tail - rest;
    const double correction = tail / by;
    // Both are 0 if the correction is exact.
    const double error = (rest - (tail - part)) + (low - part);
    const double left = rest_of(tail, by, correction);
    const double least = quotient + correction * (1 - 0x1p-50);
    const double most = quotient + correction * (1 + 0x1p-50);
    const double doubt = __builtin_fabs(error) + __builtin_fabs(left);
    sum->inexact.at[i] += least == most ? 0.0 : doubt;
    const double shared = quotient + correction;
    sum->high.at[i] = correction == 0 ? quotient : shared;
  }
}

inline SumMask to_float64(const SumSource* sources, size_t count, size_t first, size_t n, uint32_t divisor,
                          uint8_t* out) {
  constexpr double kStaysNormal = 0x1p-900;
  Pair sum;
  add_all<Float64>(sources, count, first, n, &sum);
  sum.normalize();
  if (divisor != 1) {
    for (size_t i = 0; i < kSumBlock; ++i) {
      const double magnitude = __builtin_fabs(sum.high.at[i]);
      const double certain = magnitude >= kStaysNormal ? 0.0 : 1.0;
      sum.inexact.at[i] += magnitude == 0 ? 0.0 : certain;
    }
    if (is_power_of_two(divisor)) {
      for (double& number : sum.high.at) number *= 1.0 / divisor;
    } else {
      share_out_rounded(divisor, &sum);
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
