#include "c10d/byte_views.h"

#include <utility>

namespace switchml {

namespace {

bool is_unknown(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong: return false;
    default: return true;
  }
}

}  // namespace

bool ByteViews::needed(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && (is_unknown(tensor) || !HostView::is_plain(tensor));
}

bool ByteViews::needed(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (needed(tensor)) return true;
  }
  return false;
}

at::Tensor ByteViews::bytes(const at::Tensor& tensor, HostView::Use use) {
  if (!needed(tensor) && !apart_) return tensor;
  const at::AutoDispatchBelowADInplaceOrView guard;
  HostView view(tensor, use, apart_);
  const at::Tensor host = view.host();
  copies_->push_back(std::move(view));
  if (!is_unknown(tensor)) return host;
  // The first dimension stays: alltoall_base splits along it.
  const int64_t rows = host.dim() == 0 ? 1 : host.size(0);
  const int64_t row_bytes = rows == 0 ? 0 : static_cast<int64_t>(host.nbytes()) / rows;
  if (host.numel() == 0) return at::empty({rows, 0}, host.options().dtype(at::kByte));
  // A dimension of one element may have any stride, which would not do for bytes.
  const int64_t columns = host.numel() / rows;
  return host.as_strided({rows, columns}, {columns, 1}).view(at::kByte).view({rows, row_bytes});
}

at::Tensor ByteViews::input(const at::Tensor& tensor) { return bytes(tensor, HostView::Use::kRead); }
at::Tensor ByteViews::output(const at::Tensor& tensor) { return bytes(tensor, HostView::Use::kReadWrite); }

std::vector<at::Tensor> ByteViews::inputs(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(input(tensor));
  return result;
}

std::vector<at::Tensor> ByteViews::outputs(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(output(tensor));
  return result;
}

std::function<void()> ByteViews::finish() const {
  return [copies = copies_] {
    for (HostView& view : *copies) view.write_back();
  };
}

}  // namespace switchml
