// The operators of the mock device: what moves and fills runs on its streams, and the rest on the CPU, which waits for
// the current stream first.
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <exception>
#include <iostream>

#include "device.h"

namespace mock_device {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

bool is_here(const at::Tensor& tensor) { return tensor.device().is_privateuseone(); }

/// A tensor as the device's thread sees it. Like a kernel of a real device it keeps no memory.
at::Tensor seen(const at::Tensor& tensor) {
  at::Tensor there = at::from_blob(Machine::reached(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                                   at::TensorOptions().dtype(tensor.dtype()));
  there._set_conj(tensor.is_conj());
  there._set_neg(tensor.is_neg());
  return there;
}

/// Runs on the current stream of the device.
void launch(c10::Device device, std::function<void()> kernel, std::chrono::microseconds least = {}) {
  machine().enqueue(
      key(stream_of(device)),
      [kernel = std::move(kernel)] {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        try {
          kernel();
        } catch (const std::exception& error) {
          std::cerr << "mock device: a kernel threw: " << error.what() << std::endl;
          std::terminate();
        }
      },
      least);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const c10::Device device = is_here(to) ? to.device() : from.device();
  const at::Tensor source = seen(from);
  const at::Tensor target = seen(to);
  bool waits = false;
  for (const at::Tensor& tensor : {from, to}) {
    if (is_here(tensor)) continue;
    if (!non_blocking || !machine().is_pinned(tensor.data_ptr())) {
      waits = true;
    } else if (keeps_pinned) {
      machine().use(tensor.data_ptr(), key(stream_of(device)));
    }
  }
  launch(
      device, [source, target] { target.copy_(source); }, machine().copy_time(from.nbytes()));
  if (waits) machine().synchronize(key(stream_of(device)));
  return to;
}

const at::Tensor& resize_tensor(const at::Tensor& self, at::IntArrayRef size,
                                std::optional<at::MemoryFormat> /*format*/) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t needed = at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(),
                                                                   static_cast<size_t>(self.storage_offset()));
  if (self.storage().nbytes() < needed) resize(self.storage(), needed);
  impl->set_sizes_contiguous(size);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) resize_tensor(to, from.sizes(), {});
  return copy_from(from, to, false);
}

c10::Device chosen(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return stream_of(c10::Device(c10::DeviceType::PrivateUse1)).device();
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<c10::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_generic(size, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<c10::Device> device,
                         std::optional<bool> /*pinned*/) {
  const c10::DeviceGuard guard(chosen(device));
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, c10::dtype_or_default(dtype));
}

at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  launch(self.device(), [to = seen(self), value] { to.fill_(value); });
  return self;
}

at::Tensor& zero(at::Tensor& self) { return fill(self, 0); }

/// A number, too.
at::Tensor operand(const at::Tensor& tensor) { return is_here(tensor) ? seen(tensor) : tensor.clone(); }

at::Tensor& add(at::Tensor& self, const at::Tensor& other, const at::Scalar& factor) {
  launch(self.device(), [to = seen(self), from = operand(other), factor] { to.add_(from, factor); });
  return self;
}

at::Tensor& mul(at::Tensor& self, const at::Tensor& other) {
  launch(self.device(), [to = seen(self), from = operand(other)] { to.mul_(from); });
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (stride.empty()) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  return self;
}

void record_stream(at::Tensor& self, c10::Stream stream) { machine().use(self.data_ptr(), key(stream)); }

void on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

}  // namespace

void resize(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr data = allocator()->allocate(bytes);
  if (const size_t kept = std::min(bytes, impl->nbytes()); kept > 0) {
    allocator()->copy_data(data.get(), impl->data(), kept);
  }
  impl->set_data_ptr_noswap(std::move(data));
  impl->set_nbytes(bytes);
}

}  // namespace mock_device

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&mock_device::on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", mock_device::empty);
  m.impl("empty_strided", mock_device::empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("resize_", mock_device::resize_tensor);
  m.impl("set_.source_Storage_storage_offset", mock_device::set_storage);
  m.impl("set_.source_Storage", at::native::set_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", mock_device::copy_from);
  m.impl("_copy_from_and_resize", mock_device::copy_from_and_resize);
  m.impl("fill_.Scalar", mock_device::fill);
  m.impl("zero_", mock_device::zero);
  m.impl("add_.Tensor", mock_device::add);
  m.impl("mul_.Tensor", mock_device::mul);
  m.impl("record_stream", mock_device::record_stream);
}

// Copies conjugate and negate themselves. PyTorch would copy such a tensor first, in the same way, and never come to an
// end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
