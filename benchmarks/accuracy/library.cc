// tree.h for ctypes (arithmetic.py). A function that can fail returns the error, or null.
#include <algorithm>
#include <string>
#include <vector>

#include "base/limits.h"
#include "kernels/narrow.h"
#include "kernels/narrow_floats.h"
#include "tree.h"

#define SWITCHML_EXPORT extern "C" __attribute__((visibility("default")))

using switchml::accuracy::Tensors;

namespace {

Tensors tensors_of(int type, const uint8_t* data, int workers, size_t elements) {
  return {static_cast<switchml::ElementType>(type), data, workers, elements};
}

}  // namespace

SWITCHML_EXPORT int accuracy_magnitude_bits(int workers) { return switchml::accuracy::magnitude_bits(workers); }
SWITCHML_EXPORT int accuracy_max_workers() { return switchml::kMaxWorkers; }

SWITCHML_EXPORT const char* accuracy_exact(int type, const uint8_t* data, int workers, size_t elements, int levels,
                                           uint8_t* out) {
  static thread_local std::string why;
  const auto status = switchml::accuracy::exact_sum(tensors_of(type, data, workers, elements), levels, out);
  why = status.message();
  return status.ok() ? nullptr : why.c_str();
}

SWITCHML_EXPORT void accuracy_chain(int type, const uint8_t* data, int workers, size_t elements, uint8_t* out) {
  switchml::accuracy::chain_sum(tensors_of(type, data, workers, elements), out);
}

/// What the terms of source + error mean, in `values`: as many floats, and room for a whole block.
SWITCHML_EXPORT void accuracy_narrow(int number, const float* source, float* error, size_t elements, float* values) {
  const auto type = static_cast<switchml::ElementType>(number);
  std::vector<uint8_t> terms(switchml::narrow_bytes(type, elements));
  switchml::narrow(type, source, error, elements, terms.data());
  switchml::to_float32(type, terms.data(), terms.size() / switchml::element_bytes(type), values);
}

/// Returns the number of workers' elements that became 0. `words`: one for each element.
SWITCHML_EXPORT uint64_t accuracy_integer(int type, const uint8_t* data, int workers, size_t elements, int levels,
                                          uint8_t* out, int32_t* words) {
  const auto sum = switchml::accuracy::integer_sum(tensors_of(type, data, workers, elements), levels, out);
  std::copy(sum.words.begin(), sum.words.end(), words);
  return sum.lost;
}
