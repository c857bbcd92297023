// Tensors of accelerators: the engine reads and writes memory of the host in their place, pinned as far as a bound
// allows, and copies between the two run on streams beside the caller's. Through PyTorch's interfaces for all devices
// alone.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "c10d/compat.h"
#include "engine/engine.h"

#if SWITCHML_STAGES_DEVICES
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <deque>
#include <mutex>
#endif

namespace switchml {

/// How much memory the calls of a group have pinned. Thread-safe.
class PinnedBytes {
 public:
  explicit PinnedBytes(size_t limit) : limit_(limit) {}
  size_t limit() const { return limit_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  /// Whether that many more are within the limit; they count until give_back().
  bool take(size_t bytes);
  void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
};

/// How long ago the group has ended that copies are made for; nullopt: it lives. Thread-safe.
using EndedFor = std::function<std::optional<Duration>()>;

/// Throws RuntimeError naming `call` unless both are the same device.
void require_same_device(const c10::Device& a, const c10::Device& b, const char* call);

#if SWITCHML_STAGES_DEVICES

/// Whether tensors of that device can be staged.
bool can_stage(const c10::Device& device);

/// Until the calling thread's current stream has come so far. An error: the group has ended before.
Status await_current_stream(const c10::Device& device, const EndedFor& ended_for);

/// The copies of one call. First the caller's thread says what is copied; then one thread copies inputs, and others
/// results. A stream may be stuck for ever, and so no wait is longer than the group lives, but for a second.
class DeviceCopies {
 public:
  /// Throws while the current stream is captured in a graph.
  DeviceCopies(c10::Device device, const char* call, std::shared_ptr<PinnedBytes> pinned, EndedFor ended_for);
  /// settle() first.
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  const c10::Device& device() const { return device_; }

  // ---- the caller's thread ----

  /// Memory of the host, of that shape and type.
  at::Tensor memory(at::IntArrayRef sizes, at::ScalarType type);
  /// feed() will copy the tensor to `host`.
  void read(const at::Tensor& tensor, const at::Tensor& host);
  /// The result in `host` is copied back as it becomes final, not only by copy_out(). For a tensor of the caller's that
  /// shares no memory with others of the call's.
  void write_early(const at::Tensor& host, const at::Tensor& tensor);
  /// The tensor is used on the streams, too.
  void keep(const at::Tensor& tensor) const;
  /// Once, when all is said: copies come behind what the caller's current stream has been given so far.
  void follow_caller();
  /// Whether the streams have anything to do for the call.
  bool has_begun() const { return has_begun_; }

  // ---- any thread ----

  /// Lets the part read of its input what is there, and report what it has written. `written` runs in an engine's
  /// thread when copy_out_early() has something to do.
  /// `rank`: this one.
  void gate(Collective* part, int rank, const std::function<void()>& written);
  /// Copies all inputs, piece by piece, and tells those that wait for them by `risen`. Throws where it cannot. An error
  /// where they are not there before `deadline`, and kAborted when the group ends.
  Status feed(const std::function<void()>& risen, Time deadline);
  /// Copies what has become final. Thread-safe, as the next two are.
  void copy_out_early();
  /// The whole result, or what of it is not copied yet. It is there when the stream of Current has come so far. Throws
  /// where it cannot.
  void copy_out(const at::Tensor& host, const at::Tensor& tensor);
  /// Lets go of the caller's tensors: nothing more is copied to them when it returns.
  void drop_results();
  /// Until all copies are done, or the device fails. Memory that a stuck stream may still use is kept for ever.
  void settle();

  /// Makes the stream of results current while it lives, so that futures are complete when that has come so far.
  class Current {
   public:
    explicit Current(const std::shared_ptr<DeviceCopies>& copies) {
      try {
        if (copies) guard_.reset_stream(copies->out_);
      } catch (const std::exception&) {  // The device has failed: so do the copies, and the call.
      }
    }

   private:
    c10::OptionalStreamGuard guard_;
  };

 private:
  struct Input {
    at::Tensor tensor;
    at::Tensor host;
    const void* data;  // Where the tensor lies.
    size_t element_bytes = 1;
    Watermark ready;
  };
  /// Elements of a result that become final one after the other.
  struct Piece {
    Piece(int64_t begin_, int64_t end_) : begin(begin_), end(end_), copied(begin_) {}
    const int64_t begin;
    const int64_t end;
    int64_t copied;  // [begin, copied) are.
    ResultWatermark written;
  };
  struct Output {
    at::Tensor tensor;
    at::Tensor host;
    size_t element_bytes = 1;
    std::deque<Piece> pieces;
  };
  class Landing;
  void gate_pieces(Gather* gathered, int rank, const std::function<void()>& written);
  bool shares_memory(const Output& output, const void* but_for = nullptr) const;
  bool is_pinned(const at::Tensor& host) const;
  Status copy(const at::Tensor& from, const at::Tensor& to, const c10::Stream& stream, Time deadline) const;
  Status copy_until(const Output& output, Piece* piece, int64_t end) const;
  bool is_over(const c10::Stream& stream) const;

  const c10::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream in_;
  const c10::Stream out_;
  const std::shared_ptr<PinnedBytes> pinned_;
  const EndedFor ended_for_;
  size_t taken_ = 0;
  bool has_begun_ = false;
  bool is_stuck_ = false;
  std::vector<at::Tensor> hosts_;  // The device may use them until the last copy is done.
  std::deque<Input> inputs_;
  std::mutex mutex_;
  std::deque<Output> outputs_;  // Those of write_early().
};

#else

inline bool can_stage(const c10::Device& /*device*/) { return false; }
inline Status await_current_stream(const c10::Device& /*device*/, const EndedFor& /*ended_for*/) { return {}; }

/// Never made: an older PyTorch lacks what it needs.
class DeviceCopies {
 public:
  DeviceCopies(c10::Device device, const char* /*call*/, const std::shared_ptr<PinnedBytes>& /*pinned*/,
               const EndedFor& /*ended_for*/)
      : device_(device) {}
  const c10::Device& device() const { return device_; }
  at::Tensor memory(at::IntArrayRef /*sizes*/, at::ScalarType /*type*/) { return {}; }
  void read(const at::Tensor& /*tensor*/, const at::Tensor& /*host*/) {}
  void write_early(const at::Tensor& /*host*/, const at::Tensor& /*tensor*/) {}
  void keep(const at::Tensor& /*tensor*/) const {}
  void follow_caller() {}
  bool has_begun() const { return false; }
  void gate(Collective* /*part*/, int /*rank*/, const std::function<void()>& /*written*/) {}
  Status feed(const std::function<void()>& /*risen*/, Time /*deadline*/) { return {}; }
  void copy_out_early() {}
  void copy_out(const at::Tensor& /*host*/, const at::Tensor& /*tensor*/) {}
  void drop_results() {}
  void settle() {}
  class Current {
   public:
    explicit Current(const std::shared_ptr<DeviceCopies>& /*copies*/) {}
  };

 private:
  const c10::Device device_;
};

#endif

}  // namespace switchml
