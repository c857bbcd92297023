// The operations that the engine knows, free of torch, and which of them integer and exact sessions take.
#pragma once

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
};
inline constexpr int kReduceOps = 8;
const char* to_string(ReduceOp op);

inline constexpr bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
}

/// Whether results are rounded, and may be divided.
inline constexpr bool sums_floats(ReduceOp op, ElementType type) { return op == ReduceOp::kSum && is_floating(type); }

/// Whether an integer switch takes it: sums of all types but float64 and bool; minimum and maximum of the same types
/// but int64.
bool integer_can(ReduceOp op, ElementType type);
/// Whether it is taken in memory and by exact aggregators, which keep all contributions: everything but bitwise
/// operations on floats. On bools SUM and MAX are OR, PRODUCT and MIN are AND: the caller passes kOr and kAnd.
bool exact_can(ReduceOp op, ElementType type);

}  // namespace switchml
