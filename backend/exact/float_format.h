// What the kernels of exact sums know of an element type.
#pragma once

#include "base/element_type.h"
#include "kernels/exact_sum.h"

namespace switchml {

/// Precondition: is_floating(type).
inline FloatFormat format_of(ElementType type) {
  if (type == ElementType::kFloat16) return FloatFormat::float16();
  if (type == ElementType::kBFloat16) return FloatFormat::bfloat16();
  return type == ElementType::kFloat64 ? FloatFormat::float64() : FloatFormat::float32();
}

}  // namespace switchml
