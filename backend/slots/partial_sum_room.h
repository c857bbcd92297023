// How many elements a chunk of partial sums holds (exact/partial_sums.h): as many as fit, even where each of them takes
// the most bytes that one may take. Pure arithmetic, of what all ranks agree about.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/limits.h"
#include "base/reduce_op.h"

namespace switchml {

/// Bytes in front of the numbers of a contribution. [PART-3]
inline constexpr size_t kPartialSumHead = 8;
/// Bytes that name an element in the list of those that the wide number does not have.
inline constexpr size_t kPartialSumIndex = 2;

/// Bytes of an element's number in the next wider float; of float64 two numbers. [PART-5]
inline constexpr size_t wide_bytes(ElementType type) { return 2 * element_bytes(type); }
/// Bytes of an exact sum as an integer (FloatFormat::fixed_bytes). [PART-6]
inline constexpr size_t fixed_sum_bytes(ElementType type) {
  return type == ElementType::kFloat64 ? 264 : type == ElementType::kFloat16 ? 8 : 36;
}

/// Elements of a chunk in which up to `ranks` ranks' terms are together.
inline constexpr size_t elements_of_partial_sums(ElementType type, size_t payload_bytes, size_t ranks) {  // [PART-9]
  const size_t listed = wide_bytes(type) + kPartialSumIndex + fixed_sum_bytes(type);
  return (payload_bytes - kPartialSumHead) / std::min(ranks * element_bytes(type), listed);
}
static_assert(elements_of_partial_sums(ElementType::kFloat64, kMinPartialSumPayload, kMaxWorkers) >= 1);
static_assert(elements_of_partial_sums(ElementType::kFloat16, kMaxPayloadBytes, 1) <= UINT16_MAX);

/// Most bytes that the elements of a chunk take in their own type. `ranks`: as SessionParameters::partial_sum_ranks.
inline constexpr size_t chunk_room(ReduceOp op, ElementType type, size_t payload_bytes, size_t ranks) {
  const bool are_partial = ranks > 0 && has_partial_sums(op, type);
  return are_partial ? elements_of_partial_sums(type, payload_bytes, ranks) * element_bytes(type) : payload_bytes;
}

}  // namespace switchml
