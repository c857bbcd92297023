// The operations that the engine knows, free of torch, and who takes which of them.
#pragma once

#include <cstdint>

#include "base/element_type.h"

namespace switchml {

/// Values are part of what ranks compare with each other and, up to 15, of exact packets: never renumber.
enum class ReduceOp : uint8_t {  // [EXACT-7]
  kSum = 0,
  kMin = 1,
  kMax = 2,
  kBarrier = 3,  // no elements; completes when every rank has called it
  kProduct = 4,
  kAnd = 5,  // bitwise, as the next two
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

/// Whether a switch that adds integers takes it: sums of all types but float64 and bool; of these but int64 also the
/// minimum and maximum.
bool integer_can(ReduceOp op, ElementType type);
/// Whether it is taken where all contributions are kept as they are, in memory or by an exact aggregator: everything
/// but bitwise operations on floats. Of bools SUM, MAX and OR are one operation, and so are PRODUCT, MIN and AND:
/// whoever calls chooses kOr and kAnd.
bool exact_can(ReduceOp op, ElementType type);

}  // namespace switchml
