#include "c10d/staging.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace switchml {

std::optional<ElementType> element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return ElementType::kFloat32;
    case at::kHalf: return ElementType::kFloat16;
    case at::kBFloat16: return ElementType::kBFloat16;
    case at::kInt: return ElementType::kInt32;
    case at::kChar: return ElementType::kInt8;
    case at::kByte: return ElementType::kUInt8;
    case at::kShort: return ElementType::kInt16;
    case at::kLong: return ElementType::kInt64;
    case at::kDouble: return ElementType::kFloat64;
    case at::kBool: return ElementType::kBool;
    default: break;
  }
  if (type == compat::kFloat8E4M3) return ElementType::kFloat8E4M3;
  if (type == compat::kFloat8E5M2) return ElementType::kFloat8E5M2;
  return std::nullopt;
}

void require_defined(const at::Tensor& tensor, const char* call) {
  if (tensor.defined()) return;
  compat::throw_argument_error(std::string("switchml ") + call +
                               ": a tensor is undefined; allowed: tensors on device cpu");
}

void require_host(const at::Tensor& tensor, const char* call) {
  require_defined(tensor, call);
  if (tensor.device().is_cpu()) return;
  if (tensor.layout() == at::kStrided && can_stage(tensor.device())) return;
  if (can_stage(tensor.device())) {
    compat::throw_argument_error(std::string("switchml ") + call + ": unsupported layout " + c10::str(tensor.layout()) +
                                 " on " + tensor.device().str() + "; allowed: Strided there, and Sparse on cpu");
  }
  compat::throw_argument_error(std::string("switchml ") + call + ": unsupported device type " + tensor.device().str() +
                               "; allowed: cpu (for other devices name a backend of theirs beside it: "
                               "init_process_group(\"cpu:switchml,cuda:nccl\"))");
}

void require_host(const std::vector<at::Tensor>& tensors, const char* call) {
  for (const at::Tensor& tensor : tensors) require_host(tensor, call);
}

HostView::HostView(const at::Tensor& tensor, Use use, bool apart, std::shared_ptr<DeviceCopies> copies)
    : tensor_(tensor) {
  if (!tensor.is_cpu()) {
    copies_ = std::move(copies);
    copy_out_ = use != Use::kRead;
    host_ = copies_->memory(tensor.sizes(), tensor.scalar_type());
    if (use != Use::kWrite) copies_->read(tensor, host_);
    if (copy_out_ && !apart) copies_->write_early(host_, tensor);
    return;
  }
  if (!apart && is_plain(tensor)) {
    host_ = tensor;
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  copy_out_ = use != Use::kRead;
  host_ = at::empty(tensor.sizes(), tensor.options().memory_format(at::MemoryFormat::Contiguous));
  if (use != Use::kWrite) host_.copy_(tensor);
}

void HostView::write_back() {
  if (!copy_out_) return;
  if (copies_) return copies_->copy_out(host_, tensor_);
  const at::AutoDispatchBelowADInplaceOrView guard;
  tensor_.copy_(host_);
}

namespace {

/// [first byte, end) of a dense tensor that has elements.
std::pair<const char*, const char*> extent(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto* begin = static_cast<const char*>(tensor.data_ptr());
  return {begin, begin + (last + 1) * static_cast<int64_t>(tensor.element_size())};
}

bool has_memory(const at::Tensor& tensor) { return tensor.layout() == at::kStrided && tensor.numel() > 0; }

}  // namespace

void require_memory(const at::Tensor& tensor, const char* call) {
  if (!has_memory(tensor) || !tensor.has_storage()) return;
  const size_t needed = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
                                                         static_cast<size_t>(tensor.storage_offset()));
  const size_t there = tensor.storage().nbytes();
  if (there >= needed) return;
  compat::throw_argument_error(std::string("switchml ") + call + ": a tensor's storage has " + std::to_string(there) +
                               " bytes, and the tensor needs " + std::to_string(needed) +
                               ": its memory was freed (FSDP does so with parameters that it has sharded)");
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!has_memory(a) || !has_memory(b)) return false;
  const auto [first, first_end] = extent(a);
  const auto [second, second_end] = extent(b);
  return first < second_end && second < first_end;
}

bool overlap(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (const at::Tensor& one : a) {
    for (const at::Tensor& other : b) {
      if (overlap(one, other)) return true;
    }
  }
  return false;
}

void Footprint::add(const at::Tensor& tensor, size_t part, bool written) {
  if (!has_memory(tensor)) return;
  const auto [begin, end] = extent(tensor);
  ranges_.push_back({begin, end, part, written});
}

bool Footprint::clashes() {
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (auto one = ranges_.begin(); one != ranges_.end(); ++one) {
    for (auto next = one + 1; next != ranges_.end() && next->begin < one->end; ++next) {
      if ((one->written || next->written) && one->part != next->part) return true;
    }
  }
  return false;
}

bool Footprint::clash(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) {
  Footprint all;
  for (size_t i = 0; i < outputs.size(); ++i) all.writes(outputs[i], i);
  for (size_t i = 0; i < inputs.size(); ++i) all.reads(inputs[i], i);
  return all.clashes();
}

}  // namespace switchml
