#include "c10d/device_staging.h"

#include <string>

#if SWITCHML_STAGES_DEVICES
#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>
#endif

namespace switchml {

void require_same_device(const c10::Device& a, const c10::Device& b, const char* call) {
  if (a == b) return;
  compat::throw_argument_error(std::string("switchml ") + call +
                               ": Expected list of tensors on the same device: there are " + a.str() + " and " +
                               b.str());
}

#if SWITCHML_STAGES_DEVICES

namespace {
/// An input is copied in pieces, so that the first is on its way while the rest is copied: at least of so many bytes,
/// and at most so many, since the caller enqueues them.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
constexpr int64_t kMostPieces = 8;
}  // namespace

bool can_stage(const c10::Device& device) {
  return at::accelerator::isAccelerator(device.type()) && c10::impl::hasDeviceGuardImpl(device.type());
}

static c10::Stream side_stream(const c10::impl::VirtualGuardImpl& guard, c10::Device device, const char* call) {
  if (guard.isStreamCapturing(guard.getStream(device))) {
    compat::throw_argument_error(std::string("switchml ") + call + ": the current stream of " + device.str() +
                                 " is captured in a graph; allowed: calls outside of captures, since the host takes "
                                 "part in them");
  }
  return guard.getStreamFromGlobalPool(device);
}

DeviceCopies::DeviceCopies(c10::Device device, const char* call)
    : device_(device), guard_(device.type()), stream_(side_stream(guard_, device, call)) {}

void DeviceCopies::follow_caller() const {
  c10::Event event(device_.type());
  event.record(guard_.getStream(device_));
  event.block(stream_);
}

void DeviceCopies::keep(const at::Tensor& tensor) const {
  guard_.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
}

at::Tensor DeviceCopies::copy_in(const at::Tensor& tensor, bool reads) {
  at::Tensor host =
      at::detail::empty_generic(tensor.sizes(), at::getHostAllocator(device_.type()),
                                c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.scalar_type(), std::nullopt);
  if (tensor.numel() == 0) return host;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  follow_caller();
  keep(tensor);
  if (!reads) return host;
  Input& input = inputs_.emplace_back();
  input.host = host;
  copy_pieces(tensor, &input);
  return host;
}

void DeviceCopies::copy_pieces(const at::Tensor& tensor, Input* input) {
  const int64_t count = tensor.numel();
  const auto size = static_cast<int64_t>(tensor.element_size());
  if (count * size <= kPieceBytes || !tensor.is_contiguous() || tensor.is_neg() || tensor.is_conj()) {
    copy(tensor, input->host);
    return add_piece(input, input->host.nbytes());
  }
  const at::Tensor from = tensor.view({count});
  const at::Tensor to = input->host.view({count});
  const int64_t step = std::max(kPieceBytes / size, (count + kMostPieces - 1) / kMostPieces);
  for (int64_t begin = 0; begin < count; begin += step) {
    const int64_t length = std::min(step, count - begin);
    copy(from.narrow(0, begin, length), to.narrow(0, begin, length));
    add_piece(input, static_cast<size_t>((begin + length) * size));
  }
}

void DeviceCopies::add_piece(Input* input, size_t end) const {
  c10::Event copied(device_.type());
  copied.record(stream_);
  input->pieces.push_back({std::move(copied), end});
}

void DeviceCopies::copy(const at::Tensor& from, const at::Tensor& to) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::StreamGuard current(stream_);
  to.copy_(from, true);
  const c10::DataPtr& pinned = (from.is_cpu() ? from : to).storage().data_ptr();
  at::getHostAllocator(device_.type())->record_event(pinned.get(), pinned.get_context(), stream_);
}

void DeviceCopies::copy_out(const at::Tensor& host, const at::Tensor& tensor) {
  if (tensor.numel() > 0) copy(host, tensor);
}

void DeviceCopies::gate(Collective* part) {
  for (Input& input : inputs_) {
    if (!input.host.defined() || part->input() != input.host.data_ptr()) continue;  // All of it is there, or another's.
    input.element_bytes = element_bytes(part->type);
    part->ready = &input.ready;
  }
}

void DeviceCopies::feed(const std::function<void()>& risen) {
  for (Input& input : inputs_) {
    for (const Piece& piece : input.pieces) {
      piece.copied.synchronize();
      input.ready.raise(piece.end / input.element_bytes);
      risen();
    }
    input.pieces.clear();
    input.host.reset();
  }
}

void DeviceCopies::synchronize() const { guard_.synchronizeStream(stream_); }

#endif

}  // namespace switchml
