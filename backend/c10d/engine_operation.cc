#include "c10d/engine_operation.h"

#include "base/reduce_op.h"
#include "c10d/staging.h"

namespace switchml {

namespace {

// A bool is true or false: sums and maxima are "any", products and minima "all". A mean would be neither.
std::optional<ReduceOp> operation_on_bools(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::MAX:
    case c10d::ReduceOp::BOR: return ReduceOp::kOr;
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::BAND: return ReduceOp::kAnd;
    case c10d::ReduceOp::BXOR: return ReduceOp::kXor;
    default: return std::nullopt;
  }
}

std::optional<ReduceOp> operation_on_numbers(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PREMUL_SUM: return ReduceOp::kSum;
    case c10d::ReduceOp::MIN: return ReduceOp::kMin;
    case c10d::ReduceOp::MAX: return ReduceOp::kMax;
    case c10d::ReduceOp::PRODUCT: return ReduceOp::kProduct;
    case c10d::ReduceOp::BAND: return ReduceOp::kAnd;
    case c10d::ReduceOp::BOR: return ReduceOp::kOr;
    case c10d::ReduceOp::BXOR: return ReduceOp::kXor;
    default: return std::nullopt;
  }
}

}  // namespace

std::optional<ReduceOp> engine_operation(const c10d::ReduceOp& op, at::ScalarType type) {
  const std::optional<ElementType> element = element_type(c10::toRealValueType(type));
  if (!element) return std::nullopt;
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM && !is_floating(*element)) return std::nullopt;  // products are fractions
  const auto result = *element == ElementType::kBool ? operation_on_bools(op) : operation_on_numbers(op);
  if (at::isComplexType(type) && result != ReduceOp::kSum) return std::nullopt;
  return result && exact_can(*result, *element) ? result : std::nullopt;
}

const char* operation_name(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM: return "SUM";
    case c10d::ReduceOp::AVG: return "AVG";
    case c10d::ReduceOp::PRODUCT: return "PRODUCT";
    case c10d::ReduceOp::MIN: return "MIN";
    case c10d::ReduceOp::MAX: return "MAX";
    case c10d::ReduceOp::BAND: return "BAND";
    case c10d::ReduceOp::BOR: return "BOR";
    case c10d::ReduceOp::BXOR: return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM: return "PREMUL_SUM";
    default: return "UNUSED";
  }
}

}  // namespace switchml
