// Floats of 8 bits, and blocks of numbers under a scale.
//
// A block is an element of kScaledBytes: a byte s, then kScaledValues numbers of 8 bits each. Their values are the
// numbers times 2^(s - 127); with s = 255 all are NaN. A value beyond float32 is an infinity of its sign. [NSUM-3]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml {

/// Writes the float32 values of n elements, values_per_element(type) each, exactly. Preconditions: float16, bfloat16,
/// a float of 8 bits, or blocks; `to` does not overlap `from`. Pointers need no alignment.
void to_float32(ElementType type, const uint8_t* from, size_t n, float* to);

/// The sum of `ranks` floats of 8 bits each, divided by `divisor`, rounded to nearest even once, for each of n
/// elements. What is beyond the largest number is an infinity; in float8_e4m3fn that number, as in PyTorch from 2.13
/// on. Zeros and NaN are as in exact_sum.h. `out` overlaps no input. 1 <= ranks <= kMaxWorkers,
/// 1 <= divisor <= kMaxRanks. [OP-1, OP-9]
void sum_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, uint32_t divisor, uint8_t* out);
/// The same of minima and maxima. [OP-6]
void extreme_of_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, bool minimum,
                       uint8_t* out);
/// The same of products, computed in float64 in the order of the ranks. [OP-5]
void multiply_float8(ElementType type, const uint8_t* const* inputs, size_t ranks, size_t n, uint8_t* out);

}  // namespace switchml
