#include "c10d/narrowing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/narrow.h"
#include "kernels/narrow_floats.h"

namespace switchml {

namespace {

ElementType narrow_type(const std::string& format) {
  if (format == "bfloat16") return ElementType::kBFloat16;
  if (format == "float8_e4m3fn") return ElementType::kScaledFloat8;
  if (format == "int8") return ElementType::kScaledInt8;
  compat::throw_value_error("switchml: no narrow format is named \"" + format +
                            "\"; allowed: bfloat16, float8_e4m3fn, int8");
}

void require(const at::Tensor& tensor, at::ScalarType type, const char* what) {
  if (tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() && tensor.scalar_type() == type) {
    return;
  }
  compat::throw_value_error(std::string("switchml: ") + what + " are " + c10::toString(tensor.scalar_type()) + " on " +
                            tensor.device().str() + (tensor.is_contiguous() ? "" : ", with gaps") +
                            "; allowed: " + c10::toString(type) + " on cpu, contiguous");
}

/// Requires that the terms are whole, and have room for n numbers.
void require_terms(const at::Tensor& terms, ElementType type, size_t n) {
  require(terms, is_scaled(type) ? at::kByte : at::kBFloat16, "narrow terms");
  if (terms.nbytes() >= narrow_bytes(type, n) && terms.nbytes() % element_bytes(type) == 0) return;
  compat::throw_value_error(
      "switchml: " + std::to_string(terms.nbytes()) + " bytes of narrow terms for " + std::to_string(n) +
      " elements; allowed: " + std::to_string(narrow_bytes(type, n)) +
      (is_scaled(type) ? " and more, in blocks of " + std::to_string(kScaledBytes) : " and more"));
}

}  // namespace

void narrow_tensor(const at::Tensor& source, const std::optional<at::Tensor>& error, const at::Tensor& terms,
                   const std::string& format) {
  const ElementType type = narrow_type(format);
  const auto n = static_cast<size_t>(source.numel());
  require(source, at::kFloat, "elements to narrow");
  require_terms(terms, type, n);
  if (error) require(*error, at::kFloat, "rounding errors");
  if (error && error->numel() != source.numel()) {
    compat::throw_value_error("switchml: " + std::to_string(error->numel()) + " rounding errors for " +
                              std::to_string(n) + " elements; allowed: as many");
  }
  auto* const out = static_cast<uint8_t*>(terms.data_ptr());
  narrow(type, source.data_ptr<float>(), error ? error->data_ptr<float>() : nullptr, n, out);
  const size_t written = narrow_bytes(type, n);
  if (written < terms.nbytes()) std::memset(out + written, 0, terms.nbytes() - written);
}

void widen_tensor(const at::Tensor& terms, const at::Tensor& output, const std::string& format) {
  const ElementType type = narrow_type(format);
  const auto n = static_cast<size_t>(output.numel());
  require(output, at::kFloat, "wide elements");
  require_terms(terms, type, n);
  const size_t whole = n / values_per_element(type);
  const size_t rest = n % values_per_element(type);
  const auto* const from = static_cast<const uint8_t*>(terms.data_ptr());
  auto* const to = output.data_ptr<float>();
  to_float32(type, from, whole, to);
  if (rest == 0) return;
  std::array<float, kScaledValues> last{};
  to_float32(type, from + whole * element_bytes(type), 1, last.data());
  std::copy_n(last.data(), rest, to + (n - rest));
}

}  // namespace switchml
