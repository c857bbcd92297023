// Advanced SIMD, which every 64-bit Arm has: 4 lanes.
#include "kernels/tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/exact_simd.h"

namespace switchml {

namespace {

struct Neon {
  using Int = int32x4_t;
  using Float = float32x4_t;
  static constexpr size_t kLanes = 4;

  // Byte loads and stores: those of wider lanes promise the compiler an alignment that packets do not have.
  static Int load_i32(const uint8_t* p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
  static void store_i32(uint8_t* p, Int x) { vst1q_u8(p, vreinterpretq_u8_s32(x)); }
  static void stream_i32(uint8_t* p, Int x) { store_i32(p, x); }
  static void end_stream() {}
  static Int load_words(const uint8_t* p) { return vreinterpretq_s32_u8(vrev32q_u8(vld1q_u8(p))); }
  static void store_words(uint8_t* p, Int x) { vst1q_u8(p, vrev32q_u8(vreinterpretq_u8_s32(x))); }
  static uint8x8_t load_bytes4(const uint8_t* p) {
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return vcreate_u8(four);
  }
  static Int load_i16(const uint8_t* p) { return vmovl_s16(vreinterpret_s16_u8(vld1_u8(p))); }
  static Int load_i8(const uint8_t* p) { return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(load_bytes4(p))))); }
  static Int load_u8(const uint8_t* p) {
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_bytes4(p)))));
  }
  static void store_i16(uint8_t* p, Int x) { vst1_u8(p, vreinterpret_u8_s16(vmovn_s32(x))); }
  static void store_i8(uint8_t* p, Int x) {
    const int16x4_t halves = vmovn_s32(x);
    const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(halves, halves))), 0);
    __builtin_memcpy(p, &four, sizeof(four));
  }
  static Int load_f16(const uint8_t* p) { return vreinterpretq_s32_f32(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))); }
  static void store_f16(uint8_t* p, Float x) { vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(x))); }

  static float64x2_t load_doubles(const uint8_t* p) { return vcvt_f64_f32(vreinterpret_f32_u8(vld1_u8(p))); }
  static Int splat(int32_t x) { return vdupq_n_s32(x); }
  static Float splat(float x) { return vdupq_n_f32(x); }
  static Int as_int(Float x) { return vreinterpretq_s32_f32(x); }
  static Float as_float(Int x) { return vreinterpretq_f32_s32(x); }
  static Float to_float(Int x) { return vcvtq_f32_s32(x); }
  static Int to_int(Float x) {
    // The conversion saturates; the contract wants INT32_MIN above the range too. (Below the range saturation gives
    // it.)
    return vbslq_s32(vcltq_f32(x, vdupq_n_f32(0x1p31F)), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
  }
  static Float mul(Float a, Float b) { return vmulq_f32(a, b); }
  static Float div(Float a, Float b) { return vdivq_f32(a, b); }
  static Int add(Int a, Int b) { return vaddq_s32(a, b); }
  static Int mul(Int a, Int b) { return vmulq_s32(a, b); }
  static Int max(Int a, Int b) { return vmaxq_s32(a, b); }
  static Int both(Int a, Int b) { return vandq_s32(a, b); }
  static Int differ(Int a, Int b) { return veorq_s32(a, b); }
  static Int sign(Int x) { return vshrq_n_s32(x, 31); }
  static Int shift_left_16(Int x) { return vshlq_n_s32(x, 16); }
  static Int shift_right_16(Int x) { return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), 16)); }
  static Int pick_greater(Int a, Int b, Int yes, Int no) { return vbslq_s32(vcgtq_s32(a, b), yes, no); }
  static int32_t greatest(Int x) { return vmaxvq_s32(x); }
  static uint32_t total(Int x) { return vaddvq_u32(vreinterpretq_u32_s32(x)); }
};

}  // namespace

const Kernels* neon_kernels() {
  static const Kernels table = Exact<Neon>::table("neon", &kPartialSums);
  return &table;
}

}  // namespace switchml

#else

namespace switchml {
const Kernels* neon_kernels() { return nullptr; }
}  // namespace switchml

#endif
