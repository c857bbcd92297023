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
  c.input = tensor.data();
  c.output = tensor.data();
  c.count = tensor.size();
  c.output_end = tensor.size();
  return c;
}

}  // namespace switchml::testing
