#include "engine/engine.h"

namespace switchml {

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "SUM";
    case ReduceOp::kMin: return "MIN";
    case ReduceOp::kMax: return "MAX";
    case ReduceOp::kBarrier: return "BARRIER";
  }
  return "?";
}

bool switch_can(ReduceOp op, ElementType type) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return type != ElementType::kInt64;
  return true;
}

}  // namespace switchml
