// A collective over a whole vector, result in place.
#pragma once

#include <vector>

#include "engine/engine.h"

namespace switchml::testing {

/// `tensor` must outlive the collective.
template <typename T>
Collective in_place(ReduceOp op, ElementType type, std::vector<T>& tensor) {
  Collective c;
  c.op = op;
  c.type = type;
  c.operands()->input = tensor.data();
  c.operands()->output.data = tensor.data();
  c.count = tensor.size();
  c.operands()->output.end = tensor.size();
  return c;
}

}  // namespace switchml::testing
