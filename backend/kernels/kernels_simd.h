// The kernels over any vector unit V: whole vectors here, the rest of each array through the scalar table. Included by
// one source file per instruction set. Everything is in an unnamed namespace and nothing of the standard library's
// inline functions is called: code compiled with wider instructions must never be merged with another file's by the
// linker.
//
// V has: kLanes; Int and Float, vectors of that many 32-bit lanes;
//   load_words/store_words (network byte order in memory), load_i32/load_i16/load_i8/load_u8 (extended to 32 bits),
//   store_i32/store_i16/store_i8 (truncated), load_f16 (to fp32 bits), store_f16 (nearest even);
//   splat(int32_t|float), as_int, as_float, to_float and to_int (nearest even; outside int32: INT32_MIN);
//   mul, div; add, mul (modulo 2^32), max (signed), both (and), differ (xor), sign (all ones where negative),
//   shift_left_16, shift_right_16 (logical), pick_greater(a, b, yes, no) = a > b ? yes : no, signed;
//   greatest, total (over the lanes); stream_i32 (to an aligned address, non-temporal) and end_stream (behind them).
#pragma once

#include "kernels/float_bits.h"
#include "kernels/tables.h"

namespace switchml {
namespace {

template <typename V>
struct Simd {
  using I = typename V::Int;
  using F = typename V::Float;
  static constexpr size_t kLanes = V::kLanes;

  // ---- element types, with the row of each in the tables ----

  struct Float32 {
    static constexpr int kRow = 0;
    static constexpr size_t kBytes = 4;
    static constexpr int kPrecision = 24;
    static I load(const uint8_t* from) { return V::load_i32(from); }
    static void store(uint8_t* to, F value) { V::store_i32(to, V::as_int(value)); }
  };
  struct Float16 {
    static constexpr int kRow = 1;
    static constexpr size_t kBytes = 2;
    static constexpr int kPrecision = 11;
    static I load(const uint8_t* from) { return V::load_f16(from); }
    static void store(uint8_t* to, F value) { V::store_f16(to, value); }
  };
  struct BFloat16 {
    static constexpr int kRow = 2;
    static constexpr size_t kBytes = 2;
    static constexpr int kPrecision = 8;
    static I load(const uint8_t* from) { return V::shift_left_16(V::load_i16(from)); }
    static void store(uint8_t* to, F value) {
      const I bits = V::as_int(value);
      const I odd = V::both(V::shift_right_16(bits), V::splat(1));
      V::store_i16(to, V::shift_right_16(V::add(bits, V::add(odd, V::splat(0x7fff)))));
    }
  };
  struct Int32 {
    static constexpr int kRow = 0;
    static constexpr size_t kBytes = 4;
    static I load(const uint8_t* from) { return V::load_i32(from); }
    static void store(uint8_t* to, I value) { V::store_i32(to, value); }
  };
  struct Int8 {
    static constexpr int kRow = 1;
    static constexpr size_t kBytes = 1;
    static I load(const uint8_t* from) { return V::load_i8(from); }
    static void store(uint8_t* to, I value) { V::store_i8(to, value); }
  };
  struct UInt8 {
    static constexpr int kRow = 2;
    static constexpr size_t kBytes = 1;
    static I load(const uint8_t* from) { return V::load_u8(from); }
    static void store(uint8_t* to, I value) { V::store_i8(to, value); }
  };
  struct Int16 {
    static constexpr int kRow = 3;
    static constexpr size_t kBytes = 2;
    static I load(const uint8_t* from) { return V::load_i16(from); }
    static void store(uint8_t* to, I value) { V::store_i16(to, value); }
  };

  static size_t whole(size_t n) { return n - n % kLanes; }
  static const uint8_t* bytes(const void* p) { return static_cast<const uint8_t*>(p); }
  static uint8_t* bytes(void* p) { return static_cast<uint8_t*>(p); }
  static I magnitude(I bits) { return V::both(bits, V::splat(kAbsMask)); }
  static I finite_or_zero(I bits, I value) {
    return V::pick_greater(V::splat(kInfinityBits), magnitude(bits), value, V::splat(0));
  }

  // ---- floats ----

  template <typename E, bool kFiniteOnly>
  static I magnitude_at(const uint8_t* from, size_t i) {
    const I bits = E::load(from + i * E::kBytes);
    return kFiniteOnly ? finite_or_zero(bits, magnitude(bits)) : magnitude(bits);
  }

  // The largest of several magnitudes, as bits, and 2^31 less the least that is not 0; INT32_MIN where all are 0.
  struct Magnitudes {
    I greatest = V::splat(0);
    I nearest = V::splat(INT32_MIN);
    void see(I magnitude) {
      greatest = V::max(greatest, magnitude);
      nearest = V::max(nearest, V::add(V::differ(magnitude, V::splat(INT32_MAX)), V::splat(1)));
    }
  };

  // Sees the first n elements. n is a multiple of kLanes.
  template <typename E, bool kFiniteOnly>
  static Magnitudes magnitudes(const uint8_t* from, size_t n) {
    Magnitudes seen[4];
    size_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
      for (size_t j = 0; j < 4; ++j) seen[j].see(magnitude_at<E, kFiniteOnly>(from, i + j * kLanes));
    }
    for (; i < n; i += kLanes) seen[0].see(magnitude_at<E, kFiniteOnly>(from, i));
    for (size_t j = 1; j < 4; ++j) {
      seen[0].greatest = V::max(seen[0].greatest, seen[j].greatest);
      seen[0].nearest = V::max(seen[0].nearest, seen[j].nearest);
    }
    return seen[0];
  }

  template <typename E>
  static BlockRange range(const void* src, size_t n) {
    const size_t end = whole(n);
    BlockRange result;
    Magnitudes seen = magnitudes<E, false>(bytes(src), end);
    if (V::greatest(seen.greatest) >= kInfinityBits) {
      result.has_nonfinite = true;
      seen = magnitudes<E, true>(bytes(src), end);
    }
    result.max_exponent = static_cast<uint8_t>(V::greatest(seen.greatest) >> kMantissaBits);
    const int32_t nearest = V::greatest(seen.nearest);
    if (nearest > 0) result.least = static_cast<uint8_t>(255 - ((INT32_MAX - nearest) >> kMantissaBits));
    if (end < n) {
      const BlockRange rest = scalar_kernels()->range[E::kRow](bytes(src) + end * E::kBytes, n - end);
      result.has_nonfinite = result.has_nonfinite || rest.has_nonfinite;
      if (rest.max_exponent > result.max_exponent) result.max_exponent = rest.max_exponent;
      if (rest.least > result.least) result.least = rest.least;
    }
    return result;
  }

  template <typename E>
  static void quantize(const void* src, uint8_t* words, size_t n, Scale scale) {
    const F first = V::splat(scale.first);
    const F second = V::splat(scale.second);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      const I element = E::load(bytes(src) + i * E::kBytes);
      const F value = V::as_float(finite_or_zero(element, element));
      V::store_words(words + 4 * i, V::to_int(V::mul(V::mul(value, first), second)));
    }
    if (end < n) {
      scalar_kernels()->quantize[E::kRow](bytes(src) + end * E::kBytes, words + 4 * end, n - end, scale);
    }
  }

  template <typename E, bool kDivide>
  static void dequantize_whole(const uint8_t* words, uint8_t* to, size_t n, Scale scale, float divisor) {
    const F first = V::splat(scale.first);
    const F second = V::splat(scale.second);
    const F by = V::splat(divisor);
    for (size_t i = 0; i < n; i += kLanes) {
      const F value = V::mul(V::mul(V::to_float(V::load_words(words + 4 * i)), first), second);
      E::store(to + i * E::kBytes, kDivide ? V::div(value, by) : value);
    }
  }

  template <typename E>
  static void dequantize(const uint8_t* words, void* dst, size_t n, Scale scale, float divisor) {
    const size_t end = whole(n);
    if (divisor == 1.0F) {
      dequantize_whole<E, false>(words, bytes(dst), end, scale, divisor);
    } else {
      dequantize_whole<E, true>(words, bytes(dst), end, scale, divisor);
    }
    if (end < n) {
      scalar_kernels()->dequantize[E::kRow](words + 4 * end, bytes(dst) + end * E::kBytes, n - end, scale, divisor);
    }
  }

  // ---- order-preserving maps ----

  static I flip_magnitude(I bits) { return V::differ(bits, magnitude(V::sign(bits))); }
  static I or_quiet_nan(I bits, I value) {
    return V::pick_greater(magnitude(bits), V::splat(kInfinityBits), V::splat(kQuietNanBits), value);
  }

  template <typename E>
  static void order(const void* src, uint8_t* words, size_t n, bool minimum) {
    const I flip = V::splat(minimum ? -1 : 0);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      const I element = E::load(bytes(src) + i * E::kBytes);
      V::store_words(words + 4 * i, or_quiet_nan(element, V::differ(flip_magnitude(element), flip)));
    }
    if (end < n) scalar_kernels()->order[E::kRow](bytes(src) + end * E::kBytes, words + 4 * end, n - end, minimum);
  }

  template <typename E>
  static void unorder(const uint8_t* words, void* dst, size_t n, bool minimum) {
    const I flip = V::splat(minimum ? -1 : 0);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      const I element = flip_magnitude(V::differ(V::load_words(words + 4 * i), flip));
      E::store(bytes(dst) + i * E::kBytes, V::as_float(or_quiet_nan(element, element)));
    }
    if (end < n) scalar_kernels()->unorder[E::kRow](words + 4 * end, bytes(dst) + end * E::kBytes, n - end, minimum);
  }

  // ---- integers ----

  template <typename E>
  static void widen(const void* src, uint8_t* words, size_t n, bool complement) {
    const I flip = V::splat(complement ? -1 : 0);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      V::store_words(words + 4 * i, V::differ(E::load(bytes(src) + i * E::kBytes), flip));
    }
    if (end < n) scalar_kernels()->widen[E::kRow](bytes(src) + end * E::kBytes, words + 4 * end, n - end, complement);
  }

  template <typename E>
  static void narrow(const uint8_t* words, void* dst, size_t n, bool complement) {
    const I flip = V::splat(complement ? -1 : 0);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      E::store(bytes(dst) + i * E::kBytes, V::differ(V::load_words(words + 4 * i), flip));
    }
    if (end < n) scalar_kernels()->narrow[E::kRow](words + 4 * end, bytes(dst) + end * E::kBytes, n - end, complement);
  }

  // ---- words ----

  static I product_at(const uint8_t* words, const uint32_t* coefficients, size_t i) {
    return V::mul(V::load_words(words + 4 * i), V::load_i32(bytes(coefficients + i)));
  }

  static uint32_t dot(const uint8_t* words, const uint32_t* coefficients, size_t n) {
    I sum[4] = {V::splat(0), V::splat(0), V::splat(0), V::splat(0)};
    const size_t end = whole(n);
    size_t i = 0;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      sum[0] = V::add(sum[0], product_at(words, coefficients, i));
      sum[1] = V::add(sum[1], product_at(words, coefficients, i + kLanes));
      sum[2] = V::add(sum[2], product_at(words, coefficients, i + 2 * kLanes));
      sum[3] = V::add(sum[3], product_at(words, coefficients, i + 3 * kLanes));
    }
    for (; i < end; i += kLanes) sum[0] = V::add(sum[0], product_at(words, coefficients, i));
    const uint32_t total = V::total(V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
    return end < n ? total + scalar_kernels()->dot(words + 4 * end, coefficients + end, n - end) : total;
  }

  static void store(int32_t* accumulators, const uint8_t* words, size_t n) {
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) V::store_i32(bytes(accumulators + i), V::load_words(words + 4 * i));
    if (end < n) scalar_kernels()->store(accumulators + end, words + 4 * end, n - end);
  }

  static void add(int32_t* accumulators, const uint8_t* words, size_t n) {
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      uint8_t* at = bytes(accumulators + i);
      V::store_i32(at, V::add(V::load_i32(at), V::load_words(words + 4 * i)));
    }
    if (end < n) scalar_kernels()->add(accumulators + end, words + 4 * end, n - end);
  }

  static void max(int32_t* accumulators, const uint8_t* words, size_t n) {
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      uint8_t* at = bytes(accumulators + i);
      V::store_i32(at, V::max(V::load_i32(at), V::load_words(words + 4 * i)));
    }
    if (end < n) scalar_kernels()->max(accumulators + end, words + 4 * end, n - end);
  }

  static void load(const int32_t* accumulators, uint8_t* words, size_t n) {
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) V::store_words(words + 4 * i, V::load_i32(bytes(accumulators + i)));
    if (end < n) scalar_kernels()->load(accumulators + end, words + 4 * end, n - end);
  }

  // ---- digits ----

  static I digit_of(I bits) {
    return V::add(V::differ(V::both(bits, V::splat(0xffff)), V::splat(0x8000)), V::splat(-0x8000));
  }

  static void pack_digits(const uint8_t* digits, uint8_t* packed, size_t n) {
    if (n % 2 != 0) return scalar_kernels()->pack_digits(digits, packed, n);
    const size_t h = n / 2;
    size_t i = 0;
    for (; i + kLanes <= h; i += kLanes) {
      const I upper = V::shift_left_16(V::load_words(digits + 4 * (h + i)));
      V::store_words(packed + 4 * i, V::add(V::load_words(digits + 4 * i), upper));
    }
    for (; i < h; ++i) {
      uint8_t two[8];
      copy_word(digits + 4 * i, two);
      copy_word(digits + 4 * (h + i), two + 4);
      scalar_kernels()->pack_digits(two, packed + 4 * i, 2);
    }
  }

  static void unpack_digits(const uint8_t* packed, uint8_t* digits, size_t n) {
    if (n % 2 != 0) return scalar_kernels()->unpack_digits(packed, digits, n);
    const size_t h = n / 2;
    size_t i = 0;
    for (; i + kLanes <= h; i += kLanes) {
      const I words = V::load_words(packed + 4 * i);
      V::store_words(digits + 4 * i, digit_of(words));
      V::store_words(digits + 4 * (h + i), digit_of(V::shift_right_16(V::add(words, V::splat(0x8000)))));
    }
    for (; i < h; ++i) {
      uint8_t two[8];
      scalar_kernels()->unpack_digits(packed + 4 * i, two, 2);
      copy_word(two, digits + 4 * i);
      copy_word(two + 4, digits + 4 * (h + i));
    }
  }

  static void copy_word(const uint8_t* from, uint8_t* to) {
    for (size_t i = 0; i < 4; ++i) to[i] = from[i];
  }

  // ---- bytes ----

  static void copy_non_temporal(const void* src, void* dst, size_t n) {
    constexpr size_t kVector = 4 * kLanes;
    const size_t before = (kVector - reinterpret_cast<uintptr_t>(dst) % kVector) % kVector;
    if (n < 4 * kVector) return scalar_kernels()->copy_non_temporal(src, dst, n);
    scalar_kernels()->copy_non_temporal(src, dst, before);
    const size_t end = before + (n - before) / kVector * kVector;
    for (size_t i = before; i < end; i += kVector) V::stream_i32(bytes(dst) + i, V::load_i32(bytes(src) + i));
    V::end_stream();
    scalar_kernels()->copy_non_temporal(bytes(src) + end, bytes(dst) + end, n - end);
  }

  // ---- narrow terms ----

  template <typename E>
  static void widen_half(const void* src, void* dst, size_t n) {
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) V::store_i32(bytes(dst) + 4 * i, E::load(bytes(src) + 2 * i));
    if (end < n) scalar_kernels()->widen_half[E::kRow - 1](bytes(src) + 2 * end, bytes(dst) + 4 * end, n - end);
  }

  static void scale_int8(const void* src, void* dst, size_t n, float scale) {
    const F by = V::splat(scale);
    const size_t end = whole(n);
    for (size_t i = 0; i < end; i += kLanes) {
      Float32::store(bytes(dst) + 4 * i, V::mul(V::to_float(Int8::load(bytes(src) + i)), by));
    }
    if (end < n) scalar_kernels()->scale_int8(bytes(src) + end, bytes(dst) + 4 * end, n - end, scale);
  }

  // classify, split64, join64 and what is wider than a word are rare and stay scalar; exact_simd.h has exact_sum.
  static Kernels table(const char* name) {
    const Kernels& scalar = *scalar_kernels();
    return {
        name,
        {range<Float32>, range<Float16>, range<BFloat16>},
        {quantize<Float32>, quantize<Float16>, quantize<BFloat16>},
        {dequantize<Float32>, dequantize<Float16>, dequantize<BFloat16>},
        {scalar.quantize_wide[0], scalar.quantize_wide[1], scalar.quantize_wide[2]},
        {scalar.dequantize_wide[0], scalar.dequantize_wide[1], scalar.dequantize_wide[2]},
        {scalar.exact_sum[0], scalar.exact_sum[1], scalar.exact_sum[2], scalar.exact_sum[3]},
        {scalar.classify[0], scalar.classify[1], scalar.classify[2]},
        {order<Float32>, order<Float16>, order<BFloat16>},
        {unorder<Float32>, unorder<Float16>, unorder<BFloat16>},
        {widen<Int32>, widen<Int8>, widen<UInt8>, widen<Int16>},
        {narrow<Int32>, narrow<Int8>, narrow<UInt8>, narrow<Int16>},
        scalar.split64,
        scalar.join64,
        dot,
        store,
        add,
        max,
        load,
        pack_digits,
        unpack_digits,
        copy_non_temporal,
        {widen_half<Float16>, widen_half<BFloat16>},
        scale_int8,
        scalar.partial_sums,
    };
  }
};

}  // namespace
}  // namespace switchml
