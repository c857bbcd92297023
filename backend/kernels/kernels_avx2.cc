// AVX2 and F16C: 8 lanes.
#include "kernels/tables.h"

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

#include "kernels/exact_simd.h"

namespace switchml {

namespace {

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  static constexpr size_t kLanes = 8;

  static Int swap(Int x) {
    const Int reversed =
        _mm256_broadcastsi128_si256(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    return _mm256_shuffle_epi8(x, reversed);
  }
  static __m128i load_half(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static __m128i load_quarter(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

  static Int load_i32(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_i32(uint8_t* p, Int x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  static void stream_i32(uint8_t* p, Int x) { _mm256_stream_si256(reinterpret_cast<Int*>(p), x); }
  static void end_stream() { _mm_sfence(); }
  static Int load_words(const uint8_t* p) { return swap(load_i32(p)); }
  static void store_words(uint8_t* p, Int x) { store_i32(p, swap(x)); }
  static Int load_i16(const uint8_t* p) { return _mm256_cvtepi16_epi32(load_half(p)); }
  static Int load_i8(const uint8_t* p) { return _mm256_cvtepi8_epi32(load_quarter(p)); }
  static Int load_u8(const uint8_t* p) { return _mm256_cvtepu8_epi32(load_quarter(p)); }

  static void store_i16(uint8_t* p, Int x) {
    // The low halves of each 128-bit lane's words move to its low 8 bytes, then both lanes' together.
    const Int low =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
    const Int packed = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, low), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static void store_i8(uint8_t* p, Int x) {
    const Int low =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const Int packed = _mm256_shuffle_epi8(x, low);
    const __m128i both_lanes = _mm_unpacklo_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), both_lanes);
  }
  static Int load_f16(const uint8_t* p) { return _mm256_castps_si256(_mm256_cvtph_ps(load_half(p))); }
  static void store_f16(uint8_t* p, Float x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static __m256d load_doubles(const uint8_t* p) {
    return _mm256_cvtps_pd(_mm_loadu_ps(reinterpret_cast<const float*>(p)));
  }
  static Int splat(int32_t x) { return _mm256_set1_epi32(x); }
  static Float splat(float x) { return _mm256_set1_ps(x); }
  static Int as_int(Float x) { return _mm256_castps_si256(x); }
  static Float as_float(Int x) { return _mm256_castsi256_ps(x); }
  static Float to_float(Int x) { return _mm256_cvtepi32_ps(x); }
  static Int to_int(Float x) { return _mm256_cvtps_epi32(x); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
  static Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static Int mul(Int a, Int b) { return _mm256_mullo_epi32(a, b); }
  static Int max(Int a, Int b) { return _mm256_max_epi32(a, b); }
  static Int both(Int a, Int b) { return _mm256_and_si256(a, b); }
  static Int differ(Int a, Int b) { return _mm256_xor_si256(a, b); }
  static Int sign(Int x) { return _mm256_srai_epi32(x, 31); }
  static Int shift_left_16(Int x) { return _mm256_slli_epi32(x, 16); }
  static Int shift_right_16(Int x) { return _mm256_srli_epi32(x, 16); }
  static Int pick_greater(Int a, Int b, Int yes, Int no) {
    return _mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(a, b));
  }
  static int32_t greatest(Int x) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(m);
  }
  static uint32_t total(Int x) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(1, 0, 3, 2)));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, _MM_SHUFFLE(2, 3, 0, 1)));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(s));
  }
};

}  // namespace

const Kernels* avx2_kernels() {
  static const Kernels table = Exact<Avx2>::table("avx2", partial_sums_avx2());
  return &table;
}

}  // namespace switchml

#else

namespace switchml {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace switchml

#endif
