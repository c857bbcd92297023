// AVX-512 F, BW, DQ and VL: 16 lanes.
#include "kernels/tables.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include <immintrin.h>

#include "kernels/exact_simd.h"

namespace switchml {

namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;
  static constexpr size_t kLanes = 16;

  static Int swap(Int x) {
    const __m128i reversed = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(reversed));
  }
  static __m256i load_half(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m128i load_quarter(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

  static Int load_i32(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static void store_i32(uint8_t* p, Int x) { _mm512_storeu_si512(p, x); }
  static void stream_i32(uint8_t* p, Int x) { _mm512_stream_si512(reinterpret_cast<Int*>(p), x); }
  static void end_stream() { _mm_sfence(); }
  static Int load_words(const uint8_t* p) { return swap(load_i32(p)); }
  static void store_words(uint8_t* p, Int x) { store_i32(p, swap(x)); }
  static Int load_i16(const uint8_t* p) { return _mm512_cvtepi16_epi32(load_half(p)); }
  static Int load_i8(const uint8_t* p) { return _mm512_cvtepi8_epi32(load_quarter(p)); }
  static Int load_u8(const uint8_t* p) { return _mm512_cvtepu8_epi32(load_quarter(p)); }
  static void store_i16(uint8_t* p, Int x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x));
  }
  static void store_i8(uint8_t* p, Int x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x)); }
  static Int load_f16(const uint8_t* p) { return _mm512_castps_si512(_mm512_cvtph_ps(load_half(p))); }
  static void store_f16(uint8_t* p, Float x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static __m512d load_doubles(const uint8_t* p) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(reinterpret_cast<const float*>(p)));
  }
  static Int splat(int32_t x) { return _mm512_set1_epi32(x); }
  static Float splat(float x) { return _mm512_set1_ps(x); }
  static Int as_int(Float x) { return _mm512_castps_si512(x); }
  static Float as_float(Int x) { return _mm512_castsi512_ps(x); }
  static Float to_float(Int x) { return _mm512_cvtepi32_ps(x); }
  static Int to_int(Float x) { return _mm512_cvtps_epi32(x); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
  static Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static Int mul(Int a, Int b) { return _mm512_mullo_epi32(a, b); }
  static Int max(Int a, Int b) { return _mm512_max_epi32(a, b); }
  static Int both(Int a, Int b) { return _mm512_and_si512(a, b); }
  static Int differ(Int a, Int b) { return _mm512_xor_si512(a, b); }
  static Int sign(Int x) { return _mm512_srai_epi32(x, 31); }
  static Int shift_left_16(Int x) { return _mm512_slli_epi32(x, 16); }
  static Int shift_right_16(Int x) { return _mm512_srli_epi32(x, 16); }
  static Int pick_greater(Int a, Int b, Int yes, Int no) {
    return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), no, yes);
  }
  static int32_t greatest(Int x) { return _mm512_reduce_max_epi32(x); }
  // Unsigned: the sum is modulo 2^32, and the intrinsic's reduction would overflow a signed one.
  static uint32_t total(Int x) {
    alignas(64) uint32_t lanes[16];
    _mm512_store_si512(lanes, x);
    uint32_t sum = 0;
    for (const uint32_t lane : lanes) sum += lane;
    return sum;
  }
};

}  // namespace

const Kernels* avx512_kernels() {
  static const Kernels table = Exact<Avx512>::table("avx512", partial_sums_avx512());
  return &table;
}

}  // namespace switchml

#else

namespace switchml {
const Kernels* avx512_kernels() { return nullptr; }
}  // namespace switchml

#endif
