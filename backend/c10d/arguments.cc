#include "c10d/arguments.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "c10d/call_text.h"
#include "c10d/engine_operation.h"
#include "c10d/staging.h"

namespace switchml {
namespace {

// c10d's checks say what they find through one of these.
using Refuse = std::function<void(const std::string&)>;

std::string number(size_t n) { return std::to_string(n); }
std::string number(int64_t n) { return std::to_string(n); }

}  // namespace

void Arguments::refuse(const std::string& why) const {
  compat::throw_argument_error(std::string("switchml ") + to_string(call_) + ": " + why);
}

void Arguments::defined(const Tensors& tensors) const {
  for (const at::Tensor& tensor : tensors) {
    require_defined(tensor, to_string(call_));
    require_memory(tensor, to_string(call_));
  }
}

void Arguments::defined(const TensorLists& lists) const {
  for (const Tensors& list : lists) defined(list);
}

void Arguments::host(const Tensors& tensors) const { require_host(tensors, to_string(call_)); }

void Arguments::root_rank(int64_t rank) const {
  const Refuse refused = [this](const std::string& why) {
    refuse(why + "; allowed: 0 to " + std::to_string(group_.size - 1));
  };
  c10d::assertRootRank(refused, rank, group_.size);
}

void Arguments::dense(const Tensors& tensors) const {
  for (const at::Tensor& tensor : tensors) c10d::assertDense([this](const std::string& why) { refuse(why); }, {tensor});
}

/// All must have the type and the shape of `model`.
void Arguments::like(const Tensors& tensors, const at::Tensor& model) const {
  c10d::assertTypeAndSizesMatch([this](const std::string& why) { refuse(why); }, tensors, model.options(),
                                model.sizes());
}

// ---- reductions ----

void Arguments::all_reduce(const Tensors& tensors, const c10d::ReduceOp& op) const {
  const Refuse refused = [this](const std::string& why) { refuse(why); };
  defined(tensors);
  c10d::assertNonEmpty(refused, tensors);
  c10d::assertLayoutMatch(refused, tensors);
  c10d::assertTypeAndSizesMatch(refused, tensors);
  host(tensors);
  const at::Layout layout = tensors[0].layout();
  // An average and a premultiplied sum are sums here.
  const bool sum =
      op.op_ == c10d::ReduceOp::SUM || op.op_ == c10d::ReduceOp::AVG || op.op_ == c10d::ReduceOp::PREMUL_SUM;
  if (layout == at::kSparse && !sum)
    refuse("unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)");
  if (layout != at::kStrided && layout != at::kSparse)
    refuse("unsupported layout " + c10d::toString(layout) + "; allowed: Strided, Sparse");
}

void Arguments::all_reduce_coalesced(const Tensors& tensors) const {
  const Refuse refused = [this](const std::string& why) { refuse(why); };
  defined(tensors);
  c10d::assertNonEmpty(refused, tensors);
  c10d::assertLayoutMatch(refused, tensors);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.options().type_equal(tensors[0].options()))
      refuse("tensors must all have the same type: there are " + tensors_text({tensors[0]}) + " and " +
             tensors_text({tensor}));
  }
  host(tensors);
  if (tensors[0].layout() != at::kStrided)
    refuse("unsupported layout " + c10d::toString(tensors[0].layout()) + "; allowed: Strided");
}

void Arguments::reduce(const Tensors& tensors, const c10d::ReduceOptions& opts) const {
  const Refuse refused = [this](const std::string& why) { refuse(why); };
  defined(tensors);
  root_rank(opts.rootRank);
  c10d::assertRootTensor(refused, opts.rootTensor, static_cast<int64_t>(tensors.size()));
  c10d::assertSingleElement(refused, tensors);
  dense(tensors);
  host(tensors);
}

void Arguments::reducible(const Tensors& tensors, const c10d::ReduceOp& op) const {
  for (const at::Tensor& tensor : tensors) {
    const at::ScalarType type = tensor.scalar_type();
    if (engine_operation(op, type)) continue;
    if (!element_type(type) && !at::isComplexType(type))
      refuse("Invalid scalar type " + type_name(type) +
             "; allowed: float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8, uint8, int16, int32, "
             "int64, bool, complex64, complex128");
    const std::string refused = std::string("Cannot use ReduceOp.") + operation_name(op) + " with ";
    const bool bitwise =
        op.op_ == c10d::ReduceOp::BAND || op.op_ == c10d::ReduceOp::BOR || op.op_ == c10d::ReduceOp::BXOR;
    if (bitwise) refuse(refused + "non-integral dtype " + type_name(type));
    refuse(refused + "dtype " + type_name(type) +
           (at::isComplexType(type) ? "; allowed: SUM, AVG and PREMUL_SUM"
                                    : "; allowed: floating-point and complex types, and for AVG integers"));
  }
}

void Arguments::same_type(const at::Tensor& output, const at::Tensor& input) const {
  if (output.scalar_type() != input.scalar_type())
    refuse("the output's type is " + type_name(output.scalar_type()) + ", the input's " +
           type_name(input.scalar_type()) + "; allowed: the same type");
}

void Arguments::reduce_scatter(const Tensors& outputs, const TensorLists& inputs) const {
  defined(outputs);
  defined(inputs);
  if (outputs.size() != 1) refuse("reduce_scatter only supports 1 output, not " + number(outputs.size()));
  if (inputs.size() != 1)
    refuse("requires input/output tensor lists to have the same length: there are 1 output and " +
           number(inputs.size()) + " lists of inputs");
  const Tensors& pieces = inputs[0];
  if (pieces.size() != static_cast<size_t>(group_.size))
    refuse("invalid input tensor list size, must be world size: the list has " + number(pieces.size()) +
           " tensors; allowed: " + number(int64_t{group_.size}));
  dense(outputs);
  dense(pieces);
  host(outputs);
  host(pieces);
  for (const at::Tensor& piece : pieces) same_type(outputs[0], piece);
  const at::Tensor& own = pieces[static_cast<size_t>(group_.rank)];
  if (own.numel() != outputs[0].numel())
    refuse("the output has " + number(outputs[0].numel()) + " elements; allowed: as many as input " +
           std::to_string(group_.rank) + ", " + number(own.numel()));
}

void Arguments::pairs(const Tensors& outputs, const Tensors& inputs) const {
  defined(outputs);
  defined(inputs);
  dense(outputs);
  dense(inputs);
  host(outputs);
  host(inputs);
  if (outputs.size() != inputs.size() || outputs.empty())
    refuse(number(outputs.size()) + " outputs and " + number(inputs.size()) +
           " inputs; allowed: at least one, and one output for each input");
  for (size_t i = 0; i < inputs.size(); ++i) same_type(outputs[i], inputs[i]);
}

void Arguments::reduce_scatter_tensors(const Tensors& outputs, const Tensors& inputs) const {
  pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].numel() != outputs[i].numel() * group_.size)
      refuse("the input has " + number(inputs[i].numel()) + " elements and the output " + number(outputs[i].numel()) +
             "; allowed: an input of " + std::to_string(group_.size) + " times the output (one part for each rank)");
  }
}

// ---- movements ----

void Arguments::broadcast(const Tensors& tensors, const c10d::BroadcastOptions& opts) const {
  const Refuse refused = [this](const std::string& why) { refuse(why); };
  defined(tensors);
  root_rank(opts.rootRank);
  c10d::assertRootTensor(refused, opts.rootTensor, static_cast<int64_t>(tensors.size()));
  dense(tensors);
  c10d::assertTypeAndSizesMatch(refused, tensors);
  host(tensors);
}

void Arguments::all_gather(const TensorLists& outputs, const Tensors& inputs) const {
  defined(inputs);
  defined(outputs);
  if (inputs.empty()) refuse("requires non-empty input tensor list");
  if (inputs.size() != outputs.size())
    refuse("requires input/output tensor lists to have the same length: there are " + number(inputs.size()) +
           " inputs and " + number(outputs.size()) + " lists of outputs");
  const size_t expected = inputs.size() * static_cast<size_t>(group_.size);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].size() != expected)
      refuse("invalid output tensor list at index " + number(i) + " (expected length " + number(expected) + ", got " +
             number(outputs[i].size()) + ")");
  }
  dense(inputs);
  like(inputs, inputs[0]);
  for (const Tensors& list : outputs) like(list, inputs[0]);
  host(inputs);  // The outputs are there too: a device is a part of a type.
}

void Arguments::all_gather_coalesced(const TensorLists& outputs, const Tensors& inputs) const {
  const Refuse refused = [this](const std::string& why) { refuse(why); };
  defined(inputs);
  defined(outputs);
  if (inputs.empty()) refuse("requires non-empty input tensor list");
  if (outputs.size() != static_cast<size_t>(group_.size))
    refuse("output lists should be equal to world size: there are " + number(outputs.size()) +
           "; allowed: " + std::to_string(group_.size));
  c10d::assertSameDevice(refused, inputs);
  for (const Tensors& list : outputs) {
    if (list.size() != inputs.size())
      refuse("invalid output size: (expected length " + number(inputs.size()) + ", got " + number(list.size()) + ")");
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].sizes() != inputs[i].sizes())
        refuse("invalid size of output tensor at index " + number(i) + " (expected length " +
               c10d::toString(inputs[i].sizes()) + ", got " + c10d::toString(list[i].sizes()) + ")");
      if (!list[i].options().type_equal(inputs[i].options()))
        refuse("invalid tensor type at index " + number(i) + " (expected " + inputs[i].toString() + ", got " +
               list[i].toString() + ")");
    }
  }
  dense(inputs);
  host(inputs);
}

void Arguments::all_gather_into_tensors(const Tensors& outputs, const Tensors& inputs) const {
  pairs(outputs, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (outputs[i].numel() != inputs[i].numel() * group_.size)
      refuse("the output has " + number(outputs[i].numel()) + " elements and the input " + number(inputs[i].numel()) +
             "; allowed: an output of " + std::to_string(group_.size) + " times the input");
  }
}

/// In a gather or scatter the root gives one list, with one tensor for each rank.
void Arguments::one_list(const TensorLists& lists, const char* kind, const at::Tensor& model) const {
  const std::string ranks = std::to_string(group_.size);
  if (lists.size() != 1)
    refuse(std::string("requires a single-element ") + kind + " list containing a list with " + ranks + " tensors.");
  const std::string name = kind == std::string("output") ? "Output" : "Input";
  if (lists[0].size() != static_cast<size_t>(group_.size))
    refuse(std::string("Incorrect ") + kind + " list size " + number(lists[0].size()) + ". " + name +
           " list size should be " + ranks + ", same as size of the process group.");
  like(lists[0], model);
}

void Arguments::gather(const TensorLists& outputs, const Tensors& inputs, int64_t root) const {
  defined(inputs);
  defined(outputs);
  root_rank(root);
  c10d::assertSingleElementInput([this](const std::string& why) { refuse(why); }, inputs);
  dense(inputs);
  if (root == group_.rank) {
    one_list(outputs, "output", inputs[0]);
  } else if (!outputs.empty()) {
    refuse("requires empty output on non-root");
  }
  host(inputs);
}

void Arguments::gather_single(const at::Tensor& output, const at::Tensor& input) const {
  defined(Tensors{output, input});
  if (output.layout() != at::kStrided || !output.is_contiguous()) refuse("the output is not contiguous");
  if (output.scalar_type() != input.scalar_type())
    refuse(std::string("the output is of ") + c10::toString(output.scalar_type()) + " and the input of " +
           c10::toString(input.scalar_type()));
  all_gather_into_tensors({output}, {input});
}

void Arguments::scatter(const Tensors& outputs, const TensorLists& inputs, int64_t root) const {
  defined(inputs);
  defined(outputs);
  root_rank(root);
  c10d::assertSingleElementOutput([this](const std::string& why) { refuse(why); }, outputs);
  dense(outputs);
  if (root == group_.rank) {
    one_list(inputs, "input", outputs[0]);
  } else if (!inputs.empty()) {
    refuse("requires empty input on non-root");
  }
  host(outputs);
}

void Arguments::splits(const std::vector<int64_t>& sizes, const at::Tensor& tensor) const {
  try {
    c10d::checkSplitSizes(sizes, tensor, group_.size);
  } catch (const c10::Error& error) {
    refuse(std::string(error.what_without_backtrace()) + ": the sizes are " + c10d::toString(sizes) +
           ", the tensor has " + c10d::toString(tensor.sizes()) + "; allowed: " + std::to_string(group_.size) +
           " sizes, or none");
  }
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }))
    refuse("a split size is negative: the sizes are " + c10d::toString(sizes) + "; allowed: 0 and above");
}

void Arguments::all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                                  const std::vector<int64_t>& output_splits,
                                  const std::vector<int64_t>& input_splits) const {
  defined(Tensors{output, input});
  if (output.device() != input.device()) refuse("output tensor and input tensor must be on the same type of device");
  dense({output, input});
  host({output, input});
  if (!output_splits.empty() || !input_splits.empty()) {
    splits(input_splits, input);
    splits(output_splits, output);
    return;
  }
  if (output.numel() != input.numel() || input.numel() % group_.size != 0)
    refuse("the output has " + number(output.numel()) + " elements and the input " + number(input.numel()) +
           "; allowed without split sizes: as many in both, a multiple of " + std::to_string(group_.size));
}

void Arguments::all_to_all(const Tensors& outputs, const Tensors& inputs) const {
  defined(outputs);
  defined(inputs);
  const auto one_each = [this](const Tensors& list, const char* kind) {
    if (list.size() != static_cast<size_t>(group_.size))
      refuse(std::string(kind) + " tensor list size " + number(list.size()) + " does not match world size " +
             std::to_string(group_.size));
  };
  one_each(inputs, "input");
  one_each(outputs, "output");
  dense(inputs);
  dense(outputs);
  host(inputs);
  host(outputs);
}

void Arguments::own_elements(const Tensors& outputs) const {
  for (const at::Tensor& tensor : outputs) {
    if (tensor.layout() != at::kStrided || at::has_internal_overlap(tensor) != at::MemOverlap::Yes) continue;
    refuse(
        "a tensor is expanded, several of its elements are one in memory; allowed: tensors whose elements have memory "
        "of "
        "their own (clone() makes one)");
  }
}

// ---- messages ----

void Arguments::message(const Tensors& tensors, int tag) const {
  defined(tensors);
  if (tensors.size() != 1) refuse("takes a single tensor, not " + number(tensors.size()));
  if (tag < 0) refuse("Tag must be nonnegative: it is " + std::to_string(tag));
}

void Arguments::peer(int rank) const {
  if (rank < 0 || rank >= group_.size)
    refuse("invalid rank: " + std::to_string(rank) + "; allowed: 0 to " + std::to_string(group_.size - 1));
}

void Arguments::other(int rank) const {
  if (rank == group_.rank) refuse("invalid rank: " + std::to_string(rank) + " is this one; allowed: another one");
}

void Arguments::send(const Tensors& tensors, int destination, int tag) const {
  message(tensors, tag);
  peer(destination);
  if (tensors[0].layout() != at::kStrided) refuse("input tensor has to be dense");
  host(tensors);
  other(destination);
}

void Arguments::recv(const Tensors& tensors, int source, int tag) const {
  recv_any_source(tensors, tag);
  peer(source);
  other(source);
}

void Arguments::recv_any_source(const Tensors& tensors, int tag) const {
  message(tensors, tag);
  if (tensors[0].layout() != at::kStrided) refuse("input tensor has to be dense");
  if (!tensors[0].is_contiguous()) refuse("input tensor has to be contiguous");
  host(tensors);
}

}  // namespace switchml
