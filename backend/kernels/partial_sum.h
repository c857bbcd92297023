// Sums of a block of elements in the next wider float, with a proof for each element that nothing was rounded; and sums
// of such numbers, rounded to the elements' type once. Blocks are vectors, or plain loops that compilers make vectors
// of.
//
// The proof is the error of each addition (Knuth, TAOCP 4.2.2), which a float has exactly: the sum is exact where all
// errors are 0. Where they are not, the caller adds the element again (exact_sum.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml {

/// Most elements of a block.
inline constexpr size_t kSumBlock = 64;

/// The numbers that a source has, without alignment: terms of the type, or partial sums in the next wider float.
struct SumSource {
  const uint8_t* numbers = nullptr;  // First terms of all elements, then second ones; or wide numbers. Of float64 the
                                     // sums are pairs: first the high numbers, then the low ones.
  size_t terms = 0;                  // Of each element; 0: wide numbers.
  size_t elements = 0;
};

/// Bit i: element i of the block. 0: all are exact.
using SumMask = uint64_t;

/// Both give what exact_sum() does, and the same bits and masks on every processor. Preconditions: is_floating(type), 1
/// ... kMaxWorkers sources, n <= kSumBlock. No function allocates, blocks or throws.
struct PartialSumKernels {
  /// The sums of elements [first, first + n), as wide numbers: float32 for the types of 16 bits, float64 for float32,
  /// pairs in `high` and `low` for float64: the sum to nearest, and its error. Writes n numbers. Those of the elements
  /// in the result are of no use: these are not exact, or not finite.
  SumMask (*sum_to_wide)(ElementType type, const SumSource* sources, size_t count, size_t first, size_t n,
                         uint8_t* high, uint8_t* low);
  /// The same sums, divided and then rounded to the type, to nearest even, once.
  SumMask (*sum_to_type)(ElementType type, const SumSource* sources, size_t count, size_t first, size_t n,
                         uint32_t divisor, uint8_t* out);
};

/// For every processor of the kind that this is built for.
extern const PartialSumKernels kPartialSums;
/// Preconditions: this processor has the instructions.
const PartialSumKernels* partial_sums_avx2();
const PartialSumKernels* partial_sums_avx512();

}  // namespace switchml
