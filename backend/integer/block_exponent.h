// Block floating point. A block's exponent is the maximum over all ranks of the biased fp32 exponent field of its
// largest finite element (0..254). With E = max(that, 1) every |x| < 2^(E-126); with b bits of magnitude per rank the
// integer is q = rint(x * 2^(b - (E-126))), |q| <= 2^b, and the sum of n ranks fits what integer/width.h gives it.
// The error of a sum is at most n/2 units of 2^(E-126-b); values that are multiples of that unit add exactly.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace switchml {

/// Magnitude bits of each of n ranks so that sums fit a signed integer of w bits: the largest b <= w - 2 with
/// n * max|q| < 2^(w-1). From b = `precision` on, the significant bits of the elements' type, |q| is below 2^b; with
/// less, rounding can reach 2^b. Precondition: 1 <= ranks <= kMaxRanks, w 16 or 32.
int magnitude_bits(int ranks, int w, int precision);

/// The exact power of two 2^exponent, -252 <= exponent <= 254, as two factors.
Scale power_of_two(int exponent);

/// Scale from values to integers and back for a block with the maximal biased exponent field `max_exponent` (0..254).
Scale quantize_scale(int max_exponent, int bits);
Scale dequantize_scale(int max_exponent, int bits);
/// The first one's exponent. The second one's is the negative.
int quantize_exponent(int max_exponent, int bits);

}  // namespace switchml
