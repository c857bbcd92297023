// float32 to float16. Static, because it is compiled for several instruction sets (kernels_simd.h).
#pragma once

#include <cstdint>

#include "kernels/float_bits.h"

namespace switchml {

/// The bits of the nearest float16, to even, of the float32 with these bits; of any NaN the quiet one.
static inline uint16_t float16_of(uint32_t bits) {
  constexpr uint32_t kFirstInfinite = 0x477ff000;  // 65520: halfway between the largest finite value and the next
  constexpr uint32_t kFirstNormal = 0x38800000;    // 2^-14
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & static_cast<uint32_t>(kAbsMask);
  // One half has a unit in the last place of 2^-24, that of fp16's subnormals: the addition rounds.
  float sum;
  __builtin_memcpy(&sum, &magnitude, sizeof sum);
  sum += 0.5F;
  uint32_t subnormal;
  __builtin_memcpy(&subnormal, &sum, sizeof subnormal);
  constexpr uint32_t kHalf = 0x3f000000;
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  const uint32_t normal = (rounded - ((127U - 15U) << kMantissaBits)) >> 13;
  const uint32_t finite = magnitude < kFirstNormal ? subnormal - kHalf : normal;
  const uint32_t large = magnitude > static_cast<uint32_t>(kInfinityBits) ? 0x7e00U : 0x7c00U;
  return static_cast<uint16_t>(sign | (magnitude >= kFirstInfinite ? large : finite));
}

}  // namespace switchml
