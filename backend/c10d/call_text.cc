#include "c10d/call_text.h"

#include <algorithm>
#include <cctype>

#include "base/fnv.h"
#include "c10d/staging.h"

namespace switchml {

std::string type_name(at::ScalarType type) {
  if (const auto element = element_type(type)) return to_string(*element);
  switch (type) {
    case at::kComplexFloat: return "complex64";
    case at::kComplexDouble: return "complex128";
    default: break;
  }
  std::string name = c10::toString(type);  // "UInt16", "Float8_e4m3fn"
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string tensors_text(const std::vector<at::Tensor>& tensors) {
  constexpr size_t kNamed = 8;
  if (tensors.empty()) return "no tensors";
  const at::ScalarType type = tensors[0].scalar_type();
  std::string counts;
  std::string rest;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string one = std::to_string(tensors[i].numel());
    if (tensors[i].scalar_type() != type) one += " " + type_name(tensors[i].scalar_type());
    if (i < kNamed) {
      counts += (i == 0 ? "" : " + ") + one;
    } else {
      rest += one + "+";
    }
  }
  if (!rest.empty()) {
    counts += " + ... (" + std::to_string(tensors.size()) + " tensors, " +
              std::to_string(fnv1a(rest.data(), rest.size()) % 1000000) + ")";
  }
  const char* const layout = tensors[0].layout() == at::kStrided ? "" : "sparse ";
  return layout + type_name(type) + ", " + counts + " elements";
}

}  // namespace switchml
