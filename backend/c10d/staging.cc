#include "c10d/staging.h"

#include <string>

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
    default: return std::nullopt;
  }
}

void require_host(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) {
    compat::throw_value_error(std::string("switchml ") + call +
                              ": a tensor is undefined; allowed: tensors on device cpu");
  }
  if (tensor.device().is_cpu()) return;
  compat::throw_value_error(std::string("switchml ") + call + ": a tensor is on device " + tensor.device().str() +
                            "; allowed: cpu (for other devices name a backend of theirs beside it: "
                            "init_process_group(\"cpu:switchml,cuda:nccl\"))");
}

void require_host(const std::vector<at::Tensor>& tensors, const char* call) {
  for (const at::Tensor& tensor : tensors) require_host(tensor, call);
}

HostView::HostView(const at::Tensor& tensor, Use use) : tensor_(tensor) {
  if (tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj()) {
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
  const at::AutoDispatchBelowADInplaceOrView guard;
  tensor_.copy_(host_);
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto* first = static_cast<const char*>(a.data_ptr());
  const auto* second = static_cast<const char*>(b.data_ptr());
  return first < second + b.nbytes() && second < first + a.nbytes();
}

}  // namespace switchml
