// Sums of narrow terms to float32: switchml.all_reduce() and switchml.reduce_scatter().
#include <ATen/MemoryOverlap.h>

#include <string>
#include <utility>

#include "c10d/call_text.h"
#include "c10d/process_group.h"
#include "kernels/narrow_floats.h"

namespace switchml {
namespace {

constexpr const char* kDtypes = "float16, bfloat16, float8_e4m3fn, float8_e5m2";
constexpr const char* kFormats = "int8, float8_e4m3fn";

/// What the terms of a rank are.
struct NarrowTerms {
  ElementType type = ElementType::kBFloat16;
  size_t count = 0;          // Elements of all parts: numbers, or blocks.
  size_t count_of_part = 0;  // As many as the output has room for.

  size_t values() const { return values_per_element(type); }
};

/// The checks of one call: what is not allowed is a TypeError or a ValueError, on the rank that gives it.
class NarrowArguments {
 public:
  NarrowArguments(Call call, const at::Tensor& output, const at::Tensor& input)
      : call_(std::string("switchml ") + to_string(call) + ": "), output_(output), input_(input) {
    for (const at::Tensor& tensor : {output, input}) {
      require_host(tensor, to_string(call));
      require_memory(tensor, to_string(call));
      if (tensor.layout() != at::kStrided) {
        value_error("unsupported layout " + c10::str(tensor.layout()) + "; allowed: Strided");
      }
    }
  }

  /// `format`: of the numbers in blocks; empty: there are no blocks. The output is one of `parts` of the terms.
  NarrowTerms terms(const std::string& format, int parts) const {
    NarrowTerms found;
    found.type = format.empty() ? type_of_numbers() : type_of_blocks(format);
    check_output();
    const auto outputs = static_cast<size_t>(output_.numel());
    found.count_of_part = (outputs + found.values() - 1) / found.values();
    found.count = found.count_of_part * static_cast<size_t>(parts);
    const size_t needed = found.count * (is_scaled(found.type) ? kScaledBytes : 1);
    if (static_cast<size_t>(input_.numel()) == needed) return found;
    value_error("the input has " + std::to_string(input_.numel()) + " elements and the output " +
                std::to_string(outputs) + "; allowed: an input of " + std::to_string(needed) +
                (is_scaled(found.type) ? " bytes, 65 for each 64 numbers of a part, or what is left of these" : "") +
                (parts > 1 ? " (one part for each rank)" : ""));
  }

 private:
  ElementType type_of_numbers() const {
    const std::optional<ElementType> type = element_type(input_.scalar_type());
    if (type && exact_can(ReduceOp::kSumToFloat32, *type)) return *type;
    type_error("the input's type is " + type_name(input_.scalar_type()) + "; allowed: " + kDtypes +
               ", and uint8 with a format (" + kFormats + ")");
  }

  ElementType type_of_blocks(const std::string& format) const {
    if (input_.scalar_type() != at::kByte) {
      type_error("the input's type is " + type_name(input_.scalar_type()) + " and the format " + format +
                 "; allowed: uint8, and other types without a format");
    }
    if (format == "int8") return ElementType::kScaledInt8;
    if (format == "float8_e4m3fn") return ElementType::kScaledFloat8;
    value_error("the format is " + format + "; allowed: " + kFormats);
  }

  void check_output() const {
    if (output_.scalar_type() != at::kFloat) {
      type_error("the output's type is " + type_name(output_.scalar_type()) + "; allowed: float32");
    }
    if (at::has_internal_overlap(output_) == at::MemOverlap::Yes) {
      value_error("the output is expanded; allowed: a tensor whose elements have memory of their own");
    }
    if (output_.device() != input_.device()) {
      value_error("the input is on " + input_.device().str() + " and the output on " + output_.device().str() +
                  "; allowed: one device");
    }
  }

  [[noreturn]] void type_error(const std::string& why) const { compat::throw_type_error(call_ + why); }
  [[noreturn]] void value_error(const std::string& why) const { compat::throw_value_error(call_ + why); }

  const std::string call_;
  const at::Tensor& output_;
  const at::Tensor& input_;
};

/// The terms as a tensor of float32: on the host, but for numbers of a device.
at::Tensor widened(const at::Tensor& input, const NarrowTerms& terms) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (!is_scaled(terms.type) && !input.is_cpu()) return input.to(at::kFloat);
  const at::Tensor given = input.to(at::kCPU).contiguous();
  at::Tensor wide = at::empty({static_cast<int64_t>(terms.count * terms.values())}, at::kFloat);
  to_float32(terms.type, static_cast<const uint8_t*>(given.data_ptr()), terms.count,
             static_cast<float*>(wide.data_ptr()));
  return wide;
}

}  // namespace

ProcessGroupSwitchML::WorkPtr ProcessGroupSwitchML::sum_to_float32(const at::Tensor& output, const at::Tensor& input,
                                                                   const NarrowSum& sum) {
  const Call call = sum.scatters ? Call::kReduceScatter : Call::kAllReduce;
  const c10d::OpType type = sum.scatters ? c10d::OpType::REDUCE_SCATTER : c10d::OpType::ALLREDUCE;
  const NarrowTerms terms = NarrowArguments(call, output, input).terms(sum.format, sum.scatters ? size_ : 1);
  EngineCall summing = engine_call(call, type, sum.mean ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM, {{}, sum.waits});
  // Outputs of different lengths may take as many blocks.
  const std::string outputs = std::to_string(output.numel()) + " elements of float32";
  summing.detail(std::string("of ") + switchml::to_string(terms.type) + " to " + outputs);
  const auto floats = static_cast<int64_t>(terms.count_of_part * terms.values());
  // The last block of a part may have more numbers than the output.
  const bool is_whole = floats == output.numel();
  const at::Tensor result = is_whole ? output : at::empty({floats}, at::kFloat);
  const size_t begin = sum.scatters ? terms.count_of_part * static_cast<size_t>(rank_) : 0;
  std::vector<size_t> ends;
  for (int r = 1; sum.scatters && r <= size_; ++r) ends.push_back(terms.count_of_part * static_cast<size_t>(r));
  if (summing.sums_to_float32()) {
    summing.sum_to_float32(input, terms.type, terms.count, result, begin, begin + terms.count_of_part, ends);
  } else {
    for (size_t& end : ends) end *= terms.values();
    const at::Tensor wide = widened(input, terms);
    summing.exactly();
    ends.empty() ? summing.slice(wide, result, 0) : summing.slice(wide, result, begin * terms.values(), ends);
  }
  if (!is_whole) summing.copy(result.narrow(0, 0, output.numel()).view(output.sizes()), output);
  summing.show_inputs({input});
  return remember(summing.issue({output}));
}

}  // namespace switchml
