// The exact sum over vectors (kernels_simd.h has the rules for such code, and describes V, which also has load_doubles
// here: kLanes / 2 floats, as float64). Elements are added in a format that is wide enough to be exact nearly always,
// together with a proof that it was; where the proof fails, in pairs of float64; where that fails, one by one
// (exact_sum.h).
//
// The proof: terms with exponents e ... E are multiples of 2^(e - p + 1), p the bits of their significands, and n of
// them stay below 2^(E + 1 + log2 n). So sums of w bits are exact while E - e <= w - p - log2 n. Per lane that takes
// the largest |bits| and the smallest |bits| - 1; a zero does not count, for it wraps to the largest. In a pair the
// errors of the first number's sums, n of at most 2^(E + 1 + log2 n - w), add up in the second: exactly while E - e <=
// 2w - p - 2 log2 n.
//
// A quotient or a pair is rounded to odd (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008):
// rounding it once more to fewer bits then gives the same as rounding the exact number.
#pragma once

#include "kernels/kernels_simd.h"
#include "kernels/to_odd.h"

namespace switchml {
namespace {

// Vectors in the compiler's own notation.
template <size_t N>
struct VectorTypes {
  typedef float F32 __attribute__((vector_size(4 * N)));
  typedef int32_t I32 __attribute__((vector_size(4 * N)));
  typedef uint32_t U32 __attribute__((vector_size(4 * N)));
  typedef double F64 __attribute__((vector_size(8 * N)));
  typedef int64_t I64 __attribute__((vector_size(8 * N)));
  typedef uint64_t U64 __attribute__((vector_size(8 * N)));
};

template <typename V>
struct Exact {
  using S = Simd<V>;
  static constexpr size_t kWide = V::kLanes;
  static constexpr size_t kHalf = kWide / 2;

  using F32 = typename VectorTypes<kWide>::F32;
  using I32 = typename VectorTypes<kWide>::I32;
  using U32 = typename VectorTypes<kWide>::U32;
  using F64 = typename VectorTypes<kHalf>::F64;
  using I64 = typename VectorTypes<kHalf>::I64;
  using U64 = typename VectorTypes<kHalf>::U64;
  using HalfF32 = typename VectorTypes<kHalf>::F32;
  using HalfI32 = typename VectorTypes<kHalf>::I32;

  struct SumCall {
    const void* const* sources;
    size_t count;
    uint32_t divisor;
    int log2;  // Logarithm of count, rounded up.

    const uint8_t* at(size_t source, size_t offset) const { return S::bytes(sources[source]) + offset; }
  };
  static SumCall call_of(const void* const* sources, size_t count, uint32_t divisor) {
    int log2 = 0;
    while ((size_t{1} << log2) < count) ++log2;
    return {sources, count, divisor, log2};
  }

  // Elements that share a proof: one bad lane makes all of them be added again.
  static constexpr size_t kBlock = 64;

  template <typename T>
  static T load(const void* from) {
    T value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  template <typename To, typename From>
  static To as(From from) {
    return load<To>(&from);
  }
  template <typename Vector>
  static bool any(Vector mask) {
    const U64 words = as<U64>(mask);
    uint64_t all = 0;
    for (size_t i = 0; i < kHalf; ++i) all |= words[i];
    return all != 0;
  }
  template <typename Vector, typename Mask>
  static Vector pick(Mask mask, Vector yes, Vector no) {
    return as<Vector>((mask & as<Mask>(yes)) | (~mask & as<Mask>(no)));
  }

  // ---- the proof ----

  // An argument of Span::bad(): terms of this type cannot be too far apart.
  static constexpr int kAlways = -1;

  // The range of the magnitudes of each lane's terms so far.
  template <typename U, typename I>
  struct Span {
    U most = U{};
    U least = ~U{};

    void add(U magnitude) {
      const U one_less = magnitude - 1;
      most = most > magnitude ? most : magnitude;
      least = least < one_less ? least : one_less;
    }
    // Lanes with exponents that lie further apart than `most_apart`, or with a term of `too_large` or more, or one that
    // is not finite. `exponent`: the position of the exponent's field.
    I bad(int most_apart, int exponent, uint64_t too_large) const {
      using T = decltype(I{}[0] + 0);
      const T limit = most_apart == kAlways ? static_cast<T>(~uint64_t{0} >> (65 - 8 * sizeof(T)))
                                            : static_cast<T>(most_apart) << exponent;
      return (as<I>(most - least) > limit) | (as<I>(most) >= static_cast<T>(too_large));
    }
  };
  using WideSpan = Span<U32, I32>;

  // ---- rounding to odd ----

  // `beyond`, `inexact`: lanes of ones where the magnitude was rounded up, and where the number was rounded at all.
  template <typename F, typename I>
  static F to_odd(F rounded, I beyond, I inexact) {
    return as<F>((as<I>(rounded) + beyond) | (inexact & 1));
  }
  template <typename F, typename I>
  static F to_odd(F rounded, F error) {
    const I inexact = error != 0;
    return to_odd<F, I>(rounded, inexact & ((as<I>(rounded) ^ as<I>(error)) < 0), inexact);
  }
  enum Division { kByNone, kByPowerOfTwo, kByAny };
  // The remainder is exact, as are the divisor's products with parts of the quotient (kDivisorBits). A quotient by a
  // power of two is exact unless it is subnormal.
  template <typename F, typename I, Division kDivision>
  static F shared_out(F sum, uint32_t divisor) {
    if constexpr (kDivision == kByNone) {
      return sum;
    } else {
      const F by = F{} + static_cast<decltype(F{}[0] + 0)>(divisor);
      const F quotient = sum / by;
      if constexpr (kDivision == kByPowerOfTwo) return quotient;
      const F high = as<F>(as<I>(quotient) & ~kLowQuotient);
      return to_odd<F, I>(quotient, (sum - high * by) - (quotient - high) * by);
    }
  }
  static HalfF32 to_odd_float(F64 number) {
    const HalfF32 rounded = __builtin_convertvector(number, HalfF32);
    const F64 error = number - __builtin_convertvector(rounded, F64);
    const I64 inexact = error != 0;
    const I64 beyond = inexact & ((as<I64>(number) ^ as<I64>(error)) < 0);
    return to_odd<HalfF32, HalfI32>(rounded, __builtin_convertvector(beyond, HalfI32),
                                    __builtin_convertvector(inexact, HalfI32));
  }

  // ---- a pair of float64 for each lane ----

  struct DoublePair {
    F64 high;
    F64 low;

    // Adds the `s`th term. The error of a sum is exact (Knuth, TAOCP 4.2.2).
    void add(size_t s, F64 term) {
      if (s == 0) {
        high = term;
        return;
      }
      const F64 sum = high + term;
      const F64 part = sum - high;
      low += (high - (sum - part)) + (term - part);
      high = sum;
    }
    F64 total_to_odd() const {
      F64 error;
      const F64 sum = total(&error);
      return to_odd<F64, I64>(sum, error);
    }
    // The sum of both, rounded to nearest, and the error. -0 stays -0.
    F64 total(F64* error) const {
      const F64 sum = pick<F64>(low == 0, high, high + low);
      const F64 part = sum - high;
      *error = (high - (sum - part)) + (low - part);
      return sum;
    }
  };

  // ---- the scalar fallback ----

  template <typename E>
  static void one_by_one(const SumCall& call, uint8_t* to, size_t begin, size_t end) {
    const void* sources[kMaxSources];
    for (size_t s = 0; s < call.count; ++s) sources[s] = call.at(s, begin * E::kBytes);
    scalar_kernels()->exact_sum[E::kRow](sources, call.count, to + begin * E::kBytes, end - begin, call.divisor);
  }
  // Adds the lanes in `bad`, of elements from `first` on.
  template <typename E, typename I>
  static void add_again(const SumCall& call, uint8_t* to, size_t first, I bad) {
    if (!any(bad)) return;
    for (size_t lane = 0; lane < sizeof(I) / sizeof(bad[0]); ++lane) {
      if (bad[lane] != 0) one_by_one<E>(call, to, first + lane, first + lane + 1);
    }
  }

  // Adds the last elements, fewer than kWide, as a vector of their own.
  template <typename E, typename Sum>
  static void sum_rest(const SumCall& call, uint8_t* to, size_t begin, size_t end, const Sum& sum) {
    if (begin == end) return;
    constexpr size_t kBytes = kWide * E::kBytes;
    const size_t bytes = (end - begin) * E::kBytes;
    uint8_t padded[kMaxSources][kBytes];
    const void* sources[kMaxSources];
    uint8_t result[kBytes];
    for (size_t s = 0; s < call.count; ++s) {
      for (size_t i = 0; i < kBytes; ++i) padded[s][i] = 0;
      __builtin_memcpy(padded[s], call.at(s, begin * E::kBytes), bytes);
      sources[s] = padded[s];
    }
    sum(SumCall{sources, call.count, call.divisor, call.log2}, result, kWide);
    __builtin_memcpy(to + begin * E::kBytes, result, bytes);
  }

  // ---- floats of 32 and 16 bits ----

  // E: an element type of kernels_simd.h; kPrecision: bits of its significand, with the hidden one.
  template <typename E>
  static void store(uint8_t* to, F32 value) {
    if constexpr (E::kBytes == 4) {
      __builtin_memcpy(to, &value, sizeof value);
    } else {
      E::store(to, as<typename V::Float>(value));
    }
  }
  template <typename E>
  static void store_doubles(uint8_t* to, F64 low, F64 high) {
    HalfF32 halves[2];
    if constexpr (E::kBytes == 4) {
      halves[0] = __builtin_convertvector(low, HalfF32);
      halves[1] = __builtin_convertvector(high, HalfF32);
    } else {
      halves[0] = to_odd_float(low);
      halves[1] = to_odd_float(high);
    }
    store<E>(to, load<F32>(halves));
  }

  // The sum of two terms is one addition of floats: its rounding does not change the rounding to shorter types
  // (Figueroa, "When is double rounding innocuous?", 1995), and half of it is exact or was exact before. True where
  // halving came too late, or a term is not finite.
  template <typename E, bool kHalve>
  static bool add_two_terms(const SumCall& call, uint8_t* to, size_t begin, size_t end) {
    I32 bad = I32{};
    each_vector<E>(call, to, begin, end, [&](const auto& term) {
      F32 sum = term(0) + term(1);
      if (kHalve) {
        bad |= (as<I32>(sum) & kAbsMask) >= kInfinityBits;
        return sum * 0.5F;
      }
      return pick<F32>((as<I32>(sum) & kAbsMask) > kInfinityBits, as<F32>(I32{} + kQuietNanBits), sum);
    });
    return any(bad);
  }

  // Stores result(term) of each kWide elements, term(s) being those of source `s`. Of bfloat16 it takes two vectors at
  // once, of the even and of the odd elements: as halves of words they need no more than a shift or a mask.
  template <typename E, typename Result>
  static void each_vector(const SumCall& call, uint8_t* to, size_t begin, size_t end, const Result& result) {
    if constexpr (E::kRow == 2) {
      for (; begin + 2 * kWide <= end; begin += 2 * kWide) {
        const auto words = [&](size_t s) { return load<U32>(call.at(s, begin * E::kBytes)); };
        const F32 even = result([&](size_t s) { return as<F32>(words(s) << 16); });
        const F32 odd = result([&](size_t s) { return as<F32>(words(s) & 0xffff0000U); });
        const U32 both = rounded_up(even) >> 16 | (rounded_up(odd) & 0xffff0000U);
        __builtin_memcpy(to + begin * E::kBytes, &both, sizeof both);
      }
    }
    for (; begin < end; begin += kWide) {
      store<E>(to + begin * E::kBytes,
               result([&](size_t s) { return as<F32>(E::load(call.at(s, begin * E::kBytes))); }));
    }
  }
  // The upper halves of words are the numbers as bfloat16, to nearest even.
  static U32 rounded_up(F32 number) {
    const U32 bits = as<U32>(number);
    return bits + 0x7fffU + (bits >> 16 & 1U);
  }

  // Loads the kWide elements at `from` as two vectors of float64.
  template <typename E>
  static void load_doubles(const uint8_t* from, F64* low, F64* high) {
    if constexpr (E::kBytes == 4) {
      *low = as<F64>(V::load_doubles(from));
      *high = as<F64>(V::load_doubles(from + 4 * kHalf));
    } else {
      const auto floats = E::load(from);
      HalfF32 halves[2];
      __builtin_memcpy(halves, &floats, sizeof floats);
      *low = __builtin_convertvector(halves[0], F64);
      *high = __builtin_convertvector(halves[1], F64);
    }
  }

  // Adds the block's elements in float64; true where the proof fails anywhere.
  template <typename E, Division kDivision>
  static bool add_in_doubles(const SumCall& call, uint8_t* to, size_t begin, size_t end) {
    const int most_apart = E::kRow == 1 ? kAlways : 53 - E::kPrecision - call.log2;
    I32 bad = I32{};
    for (size_t i = begin; i < end; i += kWide) {
      F64 low;
      F64 high;
      load_doubles<E>(call.at(0, i * E::kBytes), &low, &high);
      WideSpan span;
      span.add(as<U32>(E::load(call.at(0, i * E::kBytes))) & kAbsMask);
      for (size_t s = 1; s < call.count; ++s) {
        F64 next_low;
        F64 next_high;
        load_doubles<E>(call.at(s, i * E::kBytes), &next_low, &next_high);
        low += next_low;
        high += next_high;
        span.add(as<U32>(E::load(call.at(s, i * E::kBytes))) & kAbsMask);
      }
      bad |= span.bad(most_apart, kMantissaBits, kInfinityBits);
      store_doubles<E>(to + i * E::kBytes, shared_out<F64, I64, kDivision>(low, call.divisor),
                       shared_out<F64, I64, kDivision>(high, call.divisor));
    }
    return any(bad);
  }

  // Adds the block's elements in floats; true where the proof fails anywhere.
  template <typename E, Division kDivision>
  static bool add_in_floats(const SumCall& call, uint8_t* to, size_t begin, size_t end) {
    const int most_apart = 24 - E::kPrecision - call.log2;
    const uint32_t too_large = kInfinityBits - (static_cast<uint32_t>(call.log2 + 1) << kMantissaBits);
    I32 bad = I32{};
    each_vector<E>(call, to, begin, end, [&](const auto& term) {
      F32 sum = term(0);
      WideSpan span;
      span.add(as<U32>(sum) & kAbsMask);
      for (size_t s = 1; s < call.count; ++s) {
        const F32 next = term(s);
        sum += next;
        span.add(as<U32>(next) & kAbsMask);
      }
      bad |= span.bad(most_apart, kMantissaBits, too_large);
      const F32 share = shared_out<F32, I32, kDivision>(sum, call.divisor);
      if (kDivision == kByPowerOfTwo) bad |= ((as<I32>(share) & kAbsMask) < 0x00800000) & (sum != 0);
      return share;
    });
    return any(bad);
  }

  // Adds kWide elements in pairs.
  template <typename E>
  static void add_in_pairs(const SumCall& call, uint8_t* to, size_t i) {
    DoublePair low = {};
    DoublePair high = {};
    WideSpan span;
    for (size_t s = 0; s < call.count; ++s) {
      F64 next_low;
      F64 next_high;
      load_doubles<E>(call.at(s, i * E::kBytes), &next_low, &next_high);
      low.add(s, next_low);
      high.add(s, next_high);
      span.add(as<U32>(E::load(call.at(s, i * E::kBytes))) & kAbsMask);
    }
    store_doubles<E>(to + i * E::kBytes, shared_out<F64, I64, kByAny>(low.total_to_odd(), call.divisor),
                     shared_out<F64, I64, kByAny>(high.total_to_odd(), call.divisor));
    const int most_apart = 2 * 53 - E::kPrecision - 2 * call.log2;
    add_again<E>(call, to, i, span.bad(most_apart, kMantissaBits, kInfinityBits));
  }

  template <typename E, Division kDivision>
  static bool add_block(const SumCall& call, uint8_t* to, size_t begin, size_t end) {
    if constexpr (kDivision == kByNone || kDivision == kByPowerOfTwo) {
      if (call.count == 2 && call.divisor <= 2) {
        return add_two_terms<E, kDivision == kByPowerOfTwo>(call, to, begin, end);
      }
    }
    // Few sums of float16 fail in floats, and none in doubles; but doubles are slow to round.
    if constexpr (E::kBytes == 2) {
      if (E::kRow == 2 || call.count <= 4) return add_in_floats<E, kDivision>(call, to, begin, end);
    }
    return add_in_doubles<E, kDivision>(call, to, begin, end);
  }

  // `n`: a multiple of kWide.
  template <typename E, Division kDivision>
  static void sum_blocks(const SumCall& call, uint8_t* to, size_t n) {
    for (size_t begin = 0; begin < n; begin += kBlock) {
      const size_t end = begin + kBlock < n ? begin + kBlock : n;
      if (!add_block<E, kDivision>(call, to, begin, end)) continue;
      for (size_t i = begin; i < end; i += kWide) add_in_pairs<E>(call, to, i);
    }
  }
  template <typename E>
  static void sum_whole(const SumCall& call, uint8_t* to, size_t n) {
    if (call.divisor == 1) return sum_blocks<E, kByNone>(call, to, n);
    if ((call.divisor & (call.divisor - 1)) == 0) return sum_blocks<E, kByPowerOfTwo>(call, to, n);
    sum_blocks<E, kByAny>(call, to, n);
  }

  template <typename E>
  static void sum(const void* const* sources, size_t count, void* dst, size_t n, uint32_t divisor) {
    const SumCall call = call_of(sources, count, divisor);
    sum_whole<E>(call, S::bytes(dst), S::whole(n));
    sum_rest<E>(call, S::bytes(dst), S::whole(n), n, sum_whole<E>);
  }

  // ---- float64 ----

  struct Float64 {
    static constexpr int kRow = 3;
    static constexpr size_t kBytes = 8;
  };

  // A quotient by a power of two is exact, but for subnormals. Other quotients are rounded with a margin to both sides:
  // if both give the same, so does the exact one (Ziv 1991).
  static F64 divided_pair(F64 sum, F64 error, uint32_t divisor, I64* bad) {
    const F64 by = F64{} + static_cast<double>(divisor);
    const F64 magnitude = as<F64>(as<I64>(sum) & INT64_MAX);
    *bad |= (magnitude < 0x1p-900) & (sum != 0);
    const F64 quotient = sum / by;
    if ((divisor & (divisor - 1)) == 0) return quotient;
    const F64 high = as<F64>(as<I64>(quotient) & ~kLowQuotient);
    const F64 rest = (sum - high * by) - (quotient - high) * by;
    const F64 correction = (rest + error) / by;
    const F64 least = quotient + correction * (1 - 0x1p-50);
    const F64 most = quotient + correction * (1 + 0x1p-50);
    *bad |= least != most;
    return pick<F64>(correction == 0, quotient, least);
  }

  static void add_float64(const SumCall& call, uint8_t* to, size_t i) {
    DoublePair pair = {};
    Span<U64, I64> span;
    for (size_t s = 0; s < call.count; ++s) {
      pair.add(s, load<F64>(call.at(s, i * 8)));
      span.add(load<U64>(call.at(s, i * 8)) & INT64_MAX);
    }
    const uint64_t too_large = static_cast<uint64_t>(0x7ff - 1 - call.log2) << 52;
    I64 bad = span.bad(53 - 2 * call.log2, 52, too_large);
    F64 error;
    F64 sum = pair.total(&error);
    if (call.divisor != 1) sum = divided_pair(sum, error, call.divisor, &bad);
    __builtin_memcpy(to + i * 8, &sum, sizeof sum);
    add_again<Float64>(call, to, i, bad);
  }

  // Does the same as add_two_terms().
  static void add_two_float64(const SumCall& call, uint8_t* to, size_t i) {
    F64 sum = load<F64>(call.at(0, i * 8)) + load<F64>(call.at(1, i * 8));
    I64 bad = I64{};
    if (call.divisor == 2) {
      bad = (as<I64>(sum) & INT64_MAX) >= INT64_C(0x7ff) << 52;
      sum *= 0.5;
    } else {
      sum = pick<F64>((as<I64>(sum) & INT64_MAX) > INT64_C(0x7ff) << 52, as<F64>(I64{} + (INT64_C(0xfff) << 51)), sum);
    }
    __builtin_memcpy(to + i * 8, &sum, sizeof sum);
    add_again<Float64>(call, to, i, bad);
  }

  static void sum_float64_whole(const SumCall& call, uint8_t* to, size_t n) {
    const auto add = call.count == 2 && call.divisor <= 2 ? add_two_float64 : add_float64;
    for (size_t i = 0; i < n; i += kHalf) add(call, to, i);
  }

  static void sum_float64(const void* const* sources, size_t count, void* dst, size_t n, uint32_t divisor) {
    const SumCall call = call_of(sources, count, divisor);
    sum_float64_whole(call, S::bytes(dst), S::whole(n));
    sum_rest<Float64>(call, S::bytes(dst), S::whole(n), n, sum_float64_whole);
  }

  static Kernels table(const char* name, const PartialSumKernels* partial_sums) {
    Kernels all = S::table(name);
    all.partial_sums = partial_sums;
    all.exact_sum[0] = sum<typename S::Float32>;
    all.exact_sum[1] = sum<typename S::Float16>;
    all.exact_sum[2] = sum<typename S::BFloat16>;
    all.exact_sum[3] = sum_float64;
    return all;
  }
};

}  // namespace
}  // namespace switchml
