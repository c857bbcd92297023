// Tensors of accelerators: the engine reads and writes pinned host memory in their place, and copies between the two
// run on a stream beside the caller's. Through PyTorch's interfaces for all devices alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "c10d/compat.h"
#include "engine/engine.h"

#if SWITCHML_STAGES_DEVICES
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <deque>
#endif

namespace switchml {

/// Throws RuntimeError naming `call` unless both are the same device.
void require_same_device(const c10::Device& a, const c10::Device& b, const char* call);

#if SWITCHML_STAGES_DEVICES

/// Whether tensors of that device can be staged.
bool can_stage(const c10::Device& device);

/// The copies of one call. Used by one thread at a time.
class DeviceCopies {
 public:
  /// Throws while the current stream is captured in a graph.
  DeviceCopies(c10::Device device, const char* call);

  const c10::Device& device() const { return device_; }

  /// Pinned memory of the shape of a tensor. `reads`: the tensor is copied to it when the caller's current stream has
  /// come so far, and the tensor may be freed meanwhile.
  at::Tensor copy_in(const at::Tensor& tensor, bool reads);
  /// Back, behind whatever the caller's stream did before the call. Both may be freed meanwhile.
  void copy_out(const at::Tensor& host, const at::Tensor& tensor);
  /// The tensor is used on the stream, too.
  void keep(const at::Tensor& tensor) const;

  /// Lets the part read of its input what is there.
  void gate(Collective* part);
  /// Waits for the inputs, piece by piece, and tells those that wait for them by `risen`.
  void feed(const std::function<void()>& risen);
  /// Until all inputs are there.
  void await_inputs() {
    feed([] {});
  }
  /// Until all copies so far are done.
  void synchronize() const;

  /// Makes the copies' stream current while it lives, so that futures are complete when that has come so far.
  class Current {
   public:
    explicit Current(const std::shared_ptr<DeviceCopies>& copies) {
      if (copies) guard_.reset_stream(copies->stream_);
    }

   private:
    c10::OptionalStreamGuard guard_;
  };

 private:
  struct Piece {
    c10::Event copied;
    size_t end;  // In bytes of the input.
  };
  struct Input {
    at::Tensor host;
    size_t element_bytes = 1;
    Watermark ready;
    std::vector<Piece> pieces;
  };
  void follow_caller() const;
  void copy(const at::Tensor& from, const at::Tensor& to) const;
  void copy_pieces(const at::Tensor& tensor, Input* input);
  void add_piece(Input* input, size_t end) const;

  const c10::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream stream_;
  std::deque<Input> inputs_;
};

#else

inline bool can_stage(const c10::Device& /*device*/) { return false; }

/// Never made: an older PyTorch lacks what it needs.
class DeviceCopies {
 public:
  DeviceCopies(c10::Device device, const char* /*call*/) : device_(device) {}
  const c10::Device& device() const { return device_; }
  at::Tensor copy_in(const at::Tensor& tensor, bool /*reads*/) { return tensor; }
  void copy_out(const at::Tensor& /*host*/, const at::Tensor& /*tensor*/) {}
  void keep(const at::Tensor& /*tensor*/) const {}
  void gate(Collective* /*part*/) {}
  void feed(const std::function<void()>& /*risen*/) {}
  void await_inputs() {}
  void synchronize() const {}
  class Current {
   public:
    explicit Current(const std::shared_ptr<DeviceCopies>& /*copies*/) {}
  };

 private:
  const c10::Device device_;
};

#endif

}  // namespace switchml
