// The sum (or minimum, or maximum, ...) of several ranks' elements, in one pass over memory. A sum of floats is the
// exact sum, rounded once (kernels/exact_sum.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/reduce_op.h"

namespace switchml {

/// How elements are reduced.
struct ElementReduction {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  uint32_t divisor = 1;  // Divides sums of floats; 1 ... kMaxRanks.
};

/// Reduces `inputs` of `ranks` ranks, n elements each, to `out`, which has room for n times result_bytes(op, type) and
/// overlaps none of them. Pointers need no alignment. 1 <= ranks <= kMaxWorkers. Precondition: exact_can(op, type). A
/// product of floats is computed in float64, in the order of the ranks, and rounded once; integers wrap around.
/// Thread-safe.
void reduce(const ElementReduction& reduction, const uint8_t* const* inputs, int ranks, size_t n, uint8_t* out);

}  // namespace switchml
