#include <algorithm>

#include "base/fnv.h"
#include "engine/engine.h"

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
  }
  return "?";
}

bool switch_can(ReduceOp op, ElementType type) {
  if (op == ReduceOp::kBarrier) return true;
  if (type == ElementType::kFloat64 || type == ElementType::kBool) return false;
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return type != ElementType::kInt64;
  return op == ReduceOp::kSum;
}

bool memory_can(ReduceOp op, ElementType type) {
  const bool bitwise = op == ReduceOp::kAnd || op == ReduceOp::kOr || op == ReduceOp::kXor;
  if (type == ElementType::kBool) return bitwise || op == ReduceOp::kBarrier;
  return !bitwise || !is_floating(type);
}

std::string describe(const Collective& collective) {
  if (collective.op == ReduceOp::kBarrier) return collective.title;
  return collective.title + "(" + to_string(collective.op) + ", " + to_string(collective.type) + ", " +
         std::to_string(std::max(collective.count, collective.part_of)) + " elements)";
}

uint64_t agreement_hash(const Collective& collective) {
  uint64_t hash = fnv1a(collective.title.data(), collective.title.size());
  hash = fnv1a(&collective.tag, sizeof collective.tag, hash);
  return fnv1a(&collective.divisor, sizeof collective.divisor, hash);
}

}  // namespace switchml
