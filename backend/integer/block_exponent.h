// Block floating point. A block's exponent is the maximum over all workers of the biased fp32 exponent field of its
// largest finite element (0..254). With E = max(that, 1) every |x| < 2^(E-126); with b bits of magnitude per worker the
// integer is q = rint(x * 2^(b - (E-126))), |q| <= 2^b, and the sum of n workers fits an int32. The error of a sum is
// at most n/2 units of 2^(E-126-b); values that are multiples of that unit add exactly.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"

namespace switchml {

/// Magnitude bits of each of n workers so that sums fit an int32: the largest b <= 30 with n * max|q| < 2^31.
/// From b = 24 on the 24 significant bits of fp32 keep |q| below 2^b; with less, rounding can reach 2^b. Precondition:
/// 1 <= workers <= kMaxWorkers.
int magnitude_bits(int workers);

/// The exact power of two 2^exponent, -252 <= exponent <= 254, as two factors.
Scale power_of_two(int exponent);

/// Scale from values to integers and back for a block with the maximal biased exponent field `max_exponent` (0..254).
Scale quantize_scale(int max_exponent, int bits);
Scale dequantize_scale(int max_exponent, int bits);

}  // namespace switchml
