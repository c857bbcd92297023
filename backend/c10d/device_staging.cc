#include "c10d/device_staging.h"

#include <string>

#if SWITCHML_STAGES_DEVICES
#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "c10d/staging.h"
#endif

namespace switchml {

void require_same_device(const c10::Device& a, const c10::Device& b, const char* call) {
  if (a == b) return;
  compat::throw_argument_error(std::string("switchml ") + call +
                               ": Expected list of tensors on the same device: there are " + a.str() + " and " +
                               b.str());
}

bool PinnedBytes::take(size_t bytes) {
  size_t before = used();
  while (bytes <= limit_ && before <= limit_ - bytes) {
    if (used_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed)) return true;
  }
  return false;
}

#if SWITCHML_STAGES_DEVICES

namespace {

/// Tensors are copied in pieces, so that the first is on its way while the rest is copied.
constexpr size_t kPieceBytes = size_t{2} << 20;
/// Pieces that a stream is given before the first is waited for.
constexpr size_t kUnderWay = 8;
/// What copies that are under way have for it when the group ends.
constexpr Duration kFarewell = std::chrono::seconds(1);

/// What PyTorch's allocators of pinned memory take for so many bytes.
size_t pinned_size(size_t bytes) {
  size_t size = 1;
  while (size < bytes) size *= 2;
  return size;
}

/// Elements [begin, end) of a plain tensor.
at::Tensor part_of(const at::Tensor& tensor, int64_t begin, int64_t end) {
  return tensor.view({tensor.numel()}).narrow(0, begin, end - begin);
}

/// Elements of a piece; all of them where the tensor is not cut.
int64_t step_of(const at::Tensor& tensor) {
  if (tensor.nbytes() <= kPieceBytes || !HostView::is_plain(tensor)) return tensor.numel();
  return static_cast<int64_t>(kPieceBytes / tensor.element_size());
}

/// Until the event has passed, which nothing assures: the caller's stream may have something without an end before.
/// kAborted: the group had ended for `patience`.
Status await(const c10::Event& event, const EndedFor& ended_for, Duration patience, Time deadline = kNever) {
  // The event's own wait has no end, and would keep a processor busy.
  for (microseconds pause{10}; !event.query(); pause = std::min(2 * pause, microseconds(100))) {
    const std::string stuck = "what the current stream of " + event.device().str() + " had before is not over";
    if (const std::optional<Duration> ended = ended_for(); ended && *ended >= patience) {
      return {Code::kAborted, "the group ended, and " + stuck};
    }
    if (monotonic_now() >= deadline) return {Code::kTimeout, "the timeout passed, and " + stuck};
    std::this_thread::sleep_for(pause);
  }
  return {};
}

c10::Event recorded(const c10::Stream& stream) {
  c10::Event event(stream.device_type());
  event.record(stream);
  return event;
}

}  // namespace

bool can_stage(const c10::Device& device) {
  return at::accelerator::isAccelerator(device.type()) && c10::impl::hasDeviceGuardImpl(device.type());
}

Status await_current_stream(const c10::Device& device, const EndedFor& ended_for) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return await(recorded(guard.getStream(device)), ended_for, kFarewell);
}

static c10::Stream side_stream(const c10::impl::VirtualGuardImpl& guard, c10::Device device, const char* call) {
  if (guard.isStreamCapturing(guard.getStream(device))) {
    compat::throw_argument_error(std::string("switchml ") + call + ": the current stream of " + device.str() +
                                 " is captured in a graph; allowed: calls outside of captures, since the host takes "
                                 "part in them");
  }
  return guard.getStreamFromGlobalPool(device);
}

DeviceCopies::DeviceCopies(c10::Device device, const char* call, std::shared_ptr<PinnedBytes> pinned,
                           EndedFor ended_for)
    : device_(device),
      guard_(device.type()),
      in_(side_stream(guard_, device, call)),
      out_(guard_.getStreamFromGlobalPool(device)),
      pinned_(std::move(pinned)),
      ended_for_(std::move(ended_for)) {}

// ---- the caller's thread ----

at::Tensor DeviceCopies::memory(at::IntArrayRef sizes, at::ScalarType type) {
  const size_t bytes = pinned_size(at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type)));
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!pinned_->take(bytes)) return at::empty(sizes, type);
  taken_ += bytes;
  hosts_.push_back(at::detail::empty_generic(sizes, at::getHostAllocator(device_.type()),
                                             c10::DispatchKeySet(c10::DispatchKey::CPU), type, std::nullopt));
  return hosts_.back();
}

void DeviceCopies::read(const at::Tensor& tensor, const at::Tensor& host) {
  if (tensor.numel() == 0) return;
  Input& input = inputs_.emplace_back();
  input.tensor = tensor;
  input.host = host;
  input.data = tensor.data_ptr();
}

void DeviceCopies::write_early(const at::Tensor& host, const at::Tensor& tensor) {
  if (step_of(tensor) == tensor.numel()) return;
  Output& output = outputs_.emplace_back();
  output.tensor = tensor;
  output.host = host;
  output.pieces.emplace_back(0, tensor.numel());
}

void DeviceCopies::keep(const at::Tensor& tensor) const {
  for (const c10::Stream& stream : {in_, out_}) guard_.recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void DeviceCopies::follow_caller() {
  has_begun_ = true;
  c10::Event event = recorded(guard_.getStream(device_));
  event.block(in_);
  event.block(out_);
}

// ---- what is copied in ----

/// Pieces on their way from the device, in their order.
class DeviceCopies::Landing {
 public:
  Landing(const std::function<void()>& risen, const EndedFor& ended_for, Time deadline)
      : risen_(risen), ended_for_(ended_for), deadline_(deadline) {}
  Status add(const c10::Stream& stream, Input* input, size_t end) {
    pieces_.push_back({recorded(stream), input, end});
    return await_all_but(kUnderWay);
  }
  Status await_all_but(size_t count) {
    Status status;
    while (status.ok() && pieces_.size() > count) status = await_first();
    return status;
  }

 private:
  struct Piece {
    c10::Event copied;
    Input* input;
    size_t end;  // In bytes.
  };
  Status await_first() {
    const Piece& first = pieces_.front();
    if (Status status = await(first.copied, ended_for_, {}, deadline_); !status.ok()) return status;
    first.input->ready.raise(first.end / first.input->element_bytes);
    risen_();
    pieces_.pop_front();
    return {};
  }

  const std::function<void()>& risen_;
  const EndedFor& ended_for_;
  const Time deadline_;
  std::deque<Piece> pieces_;
};

Status DeviceCopies::feed(const std::function<void()>& risen, Time deadline) {
  const c10::DeviceGuard here(device_);  // Events put the thread's device back, and would begin to use device 0.
  Landing landing(risen, ended_for_, deadline);
  for (Input& input : inputs_) {
    const at::Tensor tensor = std::exchange(input.tensor, {});
    if (tensor.data_ptr() != input.data) {
      compat::throw_backend_error("the memory of a tensor was freed, or became another's, before the call was over");
    }
    const int64_t count = tensor.numel();
    const int64_t step = step_of(tensor);
    for (int64_t begin = 0; begin < count; begin += step) {
      const int64_t end = std::min(begin + step, count);
      Status status = step == count ? copy(tensor, input.host, in_, deadline)
                                    : copy(part_of(tensor, begin, end), part_of(input.host, begin, end), in_, deadline);
      if (status.ok()) status = landing.add(in_, &input, static_cast<size_t>(end) * tensor.element_size());
      if (!status.ok()) return status;
    }
  }
  return landing.await_all_but(0);
}

/// Tensor::is_pinned() asks a device that may think itself not used yet.
bool DeviceCopies::is_pinned(const at::Tensor& host) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const at::Tensor& pinned) { return pinned.is_alias_of(host); });
}

Status DeviceCopies::copy(const at::Tensor& from, const at::Tensor& to, const c10::Stream& stream,
                          Time deadline) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::StreamGuard current(stream);
  const bool pinned = is_pinned(from.is_cpu() ? from : to);
  // The copy itself waits for the stream then, for ever if need be.
  if (Status status = pinned ? Status() : await(recorded(stream), ended_for_, {}, deadline); !status.ok()) {
    return status;
  }
  guard_.recordDataPtrOnStream((from.is_cpu() ? to : from).storage().data_ptr(), stream);
  // A copy from CUDA that does not block would conjugate on the host before the elements are there.
  to.copy_(from.resolve_conj().resolve_neg(), pinned);
  return {};
}

// ---- what is copied out ----

void DeviceCopies::gate(Collective* part, int rank, const std::function<void()>& written) {
  for (Input& input : inputs_) {
    if (!input.tensor.defined() || part->input() != input.host.data_ptr()) continue;  // All of it is there.
    input.element_bytes = element_bytes(part->type);
    part->ready = &input.ready;
  }
  if (Gather* gathered = part->gather()) return gate_pieces(gathered, rank, written);
  for (Output& output : outputs_) {
    if (part->output().data != output.host.data_ptr() || shares_memory(output)) continue;
    output.element_bytes = result_bytes(part->op, part->type);
    output.pieces.front().written.tell(kPieceBytes / output.element_bytes, written);
    part->written = &output.pieces.front().written;
  }
}

/// Each rank's is a result by itself, or a piece of one for all.
void DeviceCopies::gate_pieces(Gather* gathered, int rank, const std::function<void()>& written) {
  const std::vector<OutputRange>& ranges = gathered->receive_ranges;
  gathered->written.assign(ranges.size(), nullptr);
  for (Output& output : outputs_) {
    const auto offset = [&](const OutputRange& range) {
      return static_cast<const char*>(range.data) - static_cast<const char*>(output.host.data_ptr());
    };
    const auto is_here = [&](ptrdiff_t at) { return at >= 0 && at < static_cast<ptrdiff_t>(output.host.nbytes()); };
    const auto element_size = static_cast<int64_t>(output.tensor.element_size());
    const bool has_own = !ranges.empty() && is_here(offset(ranges[static_cast<size_t>(rank)]));
    const char* tensor = static_cast<const char*>(output.tensor.data_ptr());
    const void* own = has_own ? tensor + offset(ranges[static_cast<size_t>(rank)]) : nullptr;
    if (shares_memory(output, own)) continue;
    std::deque<Piece> pieces;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (!is_here(offset(ranges[i]))) continue;
      const int64_t begin = offset(ranges[i]) / element_size;
      const auto bytes = static_cast<int64_t>(ranges[i].end - ranges[i].begin);
      pieces.emplace_back(begin, begin + bytes / element_size).written.tell(kPieceBytes, written);
      gathered->written[i] = &pieces.back().written;
    }
    if (!pieces.empty()) output.pieces.swap(pieces);
  }
}

/// With an input, but for the one that lies at `but_for`, or is the same tensor. The engine has read of these what it
/// writes.
bool DeviceCopies::shares_memory(const Output& output, const void* but_for) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
    return input.data != but_for && !input.tensor.is_same(output.tensor) && overlap(input.tensor, output.tensor);
  });
}

// An error of the device fails the call when copy_out() meets it again.
void DeviceCopies::copy_out_early() {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    for (Output& output : outputs_) {
      if (!output.tensor.defined()) continue;
      for (Piece& piece : output.pieces) {
        const size_t bytes = piece.written.elements() * output.element_bytes;
        const auto elements = static_cast<int64_t>(bytes / output.tensor.element_size());
        static_cast<void>(copy_until(output, &piece, piece.begin + elements));
      }
    }
  } catch (const std::exception& error) {
    SWITCHML_LOG(kDebug) << "copying a part of a result to " << device_.str() << ": " << error.what();
  }
}

Status DeviceCopies::copy_until(const Output& output, Piece* piece, int64_t end) const {
  if (end <= piece->copied) return {};
  const Status status =
      copy(part_of(output.host, piece->copied, end), part_of(output.tensor, piece->copied, end), out_, kNever);
  if (status.ok()) piece->copied = end;
  return status;
}

void DeviceCopies::copy_out(const at::Tensor& host, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto early =
      std::find_if(outputs_.begin(), outputs_.end(), [&](const Output& output) { return output.host.is_same(host); });
  Status status;
  if (early == outputs_.end()) {
    status = copy(host, tensor, out_, kNever);
  } else {
    for (Piece& piece : early->pieces) {
      if (status.ok()) status = copy_until(*early, &piece, piece.end);
    }
    early->tensor.reset();
  }
  if (!status.ok()) compat::throw_backend_error("the result could not be copied: " + status.message());
}

void DeviceCopies::drop_results() {
  bool has_begun = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Output& output : outputs_) {
      for (const Piece& piece : output.pieces) has_begun = has_begun || piece.copied > piece.begin;
      output.tensor.reset();
    }
  }
  if (has_begun) static_cast<void>(is_over(out_));
}

// ---- the end ----

bool DeviceCopies::is_over(const c10::Stream& stream) const {
  try {
    const c10::DeviceGuard here(device_);
    return await(recorded(stream), ended_for_, kFarewell).ok();
  } catch (const std::exception& error) {
    SWITCHML_LOG(kDebug) << "waiting for copies of " << device_.str() << ": " << error.what();
    return true;
  }
}

void DeviceCopies::settle() { is_stuck_ = !is_over(in_) || !is_over(out_); }

DeviceCopies::~DeviceCopies() {
  if (!is_stuck_ || hosts_.empty()) {
    pinned_->give_back(taken_);
    return;
  }
  SWITCHML_LOG(kWarning) << taken_ << " bytes of pinned memory are kept until this process ends: a stream of "
                         << device_.str() << " is stuck, and copies behind it may still use them";
  static std::mutex mutex;
  static auto& kept = *new std::vector<at::Tensor>;
  const std::lock_guard<std::mutex> lock(mutex);
  kept.insert(kept.end(), hosts_.begin(), hosts_.end());
}

#endif

}  // namespace switchml
