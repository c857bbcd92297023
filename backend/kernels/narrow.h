// Rounds float32 to narrow terms of a sum, with the rounding errors kept for the next sum (error feedback). The inverse
// is to_float32() of narrow_floats.h, which has the blocks too.
//
// Plain loops of single float32 and integer operations, rounded to nearest even, so that the bits do not depend on the
// instruction set (the MXCSR/FPCR of the calling thread is the default one: no FTZ, no DAZ).
#pragma once

#include <cstddef>

#include "base/element_type.h"

namespace switchml {

/// Whether narrow() has the type: kBFloat16, kScaledFloat8, kScaledInt8.
bool can_narrow(ElementType type);

/// Bytes of the terms of n numbers. Precondition: can_narrow(type).
constexpr size_t narrow_bytes(ElementType type, size_t n) {
  return (n + values_per_element(type) - 1) / values_per_element(type) * element_bytes(type);
}

/// x = source[i] + error[i]; `out` gets x in the type, and error[i] = x - what `out` then means, which is exact for
/// blocks. error[i] is 0 where that difference is not finite: NaN and infinities leave none, nor do numbers that round
/// to 2^128 (in each type: an infinity). `error` may be null: no feedback.
///
/// The scale of a block is the least power of two, 2^-127 or more, with which its largest magnitude is at most 127
/// (int8) or 448 (float8_e4m3fn). A block with a NaN or an infinity becomes NaN, with numbers of 0. The last one is
/// filled up with zeros.
///
/// `out` has room for narrow_bytes(type, n). Pointers need no alignment, and memory does not overlap. Nothing
/// allocates, blocks or throws; thread-safe (no state). Precondition: can_narrow(type).
void narrow(ElementType type, const float* source, float* error, size_t n, void* out);

}  // namespace switchml
