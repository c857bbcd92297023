// The one place where a tensor becomes memory that the engine can read and write: its own, or a copy, or for an
// accelerator's pinned memory of the host (c10d/device_staging.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/element_type.h"
#include "c10d/compat.h"
#include "c10d/device_staging.h"

namespace switchml {

/// The engine's name of a tensor type, or nullopt where it has none.
std::optional<ElementType> element_type(at::ScalarType type);

/// Throws RuntimeError naming `call` unless there is a tensor.
void require_defined(const at::Tensor& tensor, const char* call);
/// Throws RuntimeError naming `call` if a dense host tensor's storage is smaller than the tensor, as resize_() leaves
/// it.
void require_memory(const at::Tensor& tensor, const char* call);
/// Throws RuntimeError naming `call`, the device and what is allowed, unless the tensor is a dense or sparse host
/// tensor, or a dense one that can be staged.
void require_host(const at::Tensor& tensor, const char* call);
void require_host(const std::vector<at::Tensor>& tensors, const char* call);

/// Contiguous host memory that stands for a tensor while a collective runs: the tensor's own where it is contiguous, a
/// copy otherwise. Elements come in the tensor's logical order, whatever its strides, so ranks may differ in layout.
class HostView {
 public:
  enum class Use {
    kRead,      // copied in
    kWrite,     // copied out by write_back()
    kReadWrite  // both
  };
  /// Whether a dense tensor's memory has its elements, one after the other, as they are.
  static bool is_plain(const at::Tensor& tensor) {
    return tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj();
  }
  /// `apart`: a copy in any case, which reaches the tensor in write_back() alone. `copies`: those of a call, which copy
  /// an accelerator's tensor, both ways behind the caller's back; null for a tensor of the host.
  HostView(const at::Tensor& tensor, Use use, bool apart = false, std::shared_ptr<DeviceCopies> copies = nullptr);

  void* data() const { return host_.data_ptr(); }
  size_t count() const { return static_cast<size_t>(host_.numel()); }
  bool is_copy() const { return !host_.is_same(tensor_); }
  /// The memory itself, as a contiguous tensor.
  const at::Tensor& host() const { return host_; }

  /// Writes a copy back into the tensor (kWrite, kReadWrite). Autograd and version counters do not see it, as with a
  /// backend that writes through a pointer.
  void write_back();

 private:
  at::Tensor tensor_;
  at::Tensor host_;
  bool copy_out_ = false;
  std::shared_ptr<DeviceCopies> copies_;  // Null for a tensor of the host.
};

/// Whether the memories of two dense tensors overlap. What lies between a tensor's elements counts as its own.
bool overlap(const at::Tensor& a, const at::Tensor& b);
/// Whether any of one list overlaps with any of the other.
bool overlap(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

/// The memory that the parts of one call read and write. Sparse tensors are left out.
class Footprint {
 public:
  void reads(const at::Tensor& tensor, size_t part) { add(tensor, part, false); }
  void writes(const at::Tensor& tensor, size_t part) { add(tensor, part, true); }
  /// Whether one part writes to what another one reads or writes, so that their order matters.
  bool clashes();

  /// The same for parts that each write one tensor and read the input of the same index.
  static bool clash(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs = {});

 private:
  struct Range {
    const char* begin;
    const char* end;
    size_t part;
    bool written;
  };
  void add(const at::Tensor& tensor, size_t part, bool written);
  std::vector<Range> ranges_;
};

}  // namespace switchml
