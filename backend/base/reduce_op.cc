#include "base/reduce_op.h"

namespace switchml {

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "SUM";
    case ReduceOp::kMin: return "MIN";
    case ReduceOp::kMax: return "MAX";
    case ReduceOp::kBarrier: return "BARRIER";
    case ReduceOp::kProduct: return "PRODUCT";
    case ReduceOp::kAnd: return "BAND";
    case ReduceOp::kOr: return "BOR";
    case ReduceOp::kXor: return "BXOR";
    case ReduceOp::kSumToFloat32: return "SUM to float32";
    case ReduceOp::kPartialSum: return "SUM of partial sums";
  }
  return "?";
}

bool integer_can(ReduceOp op, ElementType type) {
  if (op == ReduceOp::kBarrier) return true;
  if (type >= ElementType::kFloat64) return false;  // They came later than integer switches.
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return type != ElementType::kInt64;
  return op == ReduceOp::kSum;
}

bool exact_can(ReduceOp op, ElementType type) {  // [EXACT-7]
  if (op == ReduceOp::kPartialSum) return has_partial_sums(ReduceOp::kSum, type);
  if (op == ReduceOp::kSumToFloat32) {
    return type == ElementType::kFloat16 || type == ElementType::kBFloat16 || is_float8(type) || is_scaled(type);
  }
  if (is_scaled(type)) return op == ReduceOp::kBarrier;
  if (type == ElementType::kBool) return is_bitwise(op) || op == ReduceOp::kBarrier;
  return !is_bitwise(op) || !is_floating(type);
}

}  // namespace switchml
