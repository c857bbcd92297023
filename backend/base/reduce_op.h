// The operations that the engine knows, free of torch, and which of them integer and exact sessions take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml {

/// Values are part of what ranks compare with each other and, up to 15, of exact packets: never renumber.
enum class ReduceOp : uint8_t {  // [EXACT-7]
  kSum = 0,
  kMin = 1,
  kMax = 2,
  kBarrier = 3,  // Has no elements; completes when every rank has called it.
  kProduct = 4,
  kAnd = 5,  // Bitwise, as the next two.
  kOr = 6,
  kXor = 7,
  kSumToFloat32 = 8,  // The terms are narrow, the result is float32 [NSUM-1].
  kPartialSum = 9,    // Of exact packets alone: a sum of floats of which ranks' terms are together already. [PART-1]
};
inline constexpr int kReduceOps = 9;  // Of collectives: all but the last one.
const char* to_string(ReduceOp op);

inline constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
}

/// Whether results are rounded, and may be divided.
inline constexpr bool sums_floats(ReduceOp op, ElementType type) {
  return op == ReduceOp::kSumToFloat32 || (op == ReduceOp::kSum && is_floating(type));
}

/// Whether blocks of zeros may be left out of its packets. [ZERO-7]
inline constexpr bool may_be_packed(ReduceOp op) {
  return op != ReduceOp::kSumToFloat32 && op != ReduceOp::kPartialSum;
}

/// Whether what adds some ranks' terms may hand their exact sum on (kPartialSum). [PART-1]
inline constexpr bool has_partial_sums(ReduceOp op, ElementType type) {
  return op == ReduceOp::kSum && is_floating(type) && !is_float8(type);
}

/// Bytes of the result of an element.
inline constexpr size_t result_bytes(ReduceOp op, ElementType type) {
  const size_t of_float32 = values_per_element(type) * element_bytes(ElementType::kFloat32);
  return op == ReduceOp::kSumToFloat32 ? of_float32 : element_bytes(type);
}
/// Bytes of a payload for each element, so that contributions and results fit. [NSUM-4]
inline constexpr size_t payload_bytes_of_element(ReduceOp op, ElementType type) {
  return std::max(element_bytes(type), result_bytes(op, type));
}

/// Whether an integer switch takes it: sums of all types but float64, bool, and those of 8 bits and of blocks that are
/// not integers; minimum and maximum of the same types but int64.
bool integer_can(ReduceOp op, ElementType type);
/// Whether it is taken in memory and by exact aggregators, which keep all contributions: everything but bitwise
/// operations on floats, and partial sums of anything else. On bools SUM and MAX are OR, PRODUCT and MIN are AND: the
/// caller passes kOr and kAnd. kSumToFloat32 is for floats of 16 and 8 bits, and the only operation on blocks. It is
/// for sessions without trees, of a worker for each rank (Engine::sums_to_float32()), and not for memory.
bool exact_can(ReduceOp op, ElementType type);

}  // namespace switchml
