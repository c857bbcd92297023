#include "c10d/call_record.h"

#include <algorithm>
#include <utility>

#include "c10d/flight_log.h"

namespace switchml {
namespace {

/// Returns how many bytes they have.
uint64_t add_shapes(at::ArrayRef<at::Tensor> tensors, TensorShapes* shapes) {
  uint64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    shapes->add(c10::toString(tensor.scalar_type()), tensor.sizes().data(), tensor.sizes().size());
    bytes += static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  }
  return bytes;
}

bool receives(Call call) { return call == Call::kRecv || call == Call::kRecvAnySource; }
bool is_message(Call call) { return call == Call::kSend || receives(call); }

}  // namespace

std::chrono::milliseconds time_until(Time deadline) {
  if (deadline == kNever) return {};
  const Duration left = std::max(deadline - monotonic_now(), Duration{});
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

CallRecord::CallRecord(std::string context, uint64_t sequence) : context_(std::move(context)), sequence_(sequence) {}

CallRecord::CallRecord(const std::shared_ptr<GroupCore>& core, Call call, uint64_t sequence, bool is_told)
    : core_(core), group_(core->shared_group()), call_(call), sequence_(sequence), is_told_(is_told) {}

CallRecord::CallRecord(const std::shared_ptr<GroupCore>& core, Call call, Way way)
    : CallRecord(core, call, is_message(call) ? core->sequence() : core->next_sequence(), true) {
  core->calls().add(call, way);
}

CallRecord CallRecord::of_precheck(const std::shared_ptr<GroupCore>& core, Call call) {
  return {core, call, core->sequence(), false};
}

void CallRecord::log(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<std::vector<at::Tensor>> outputs,
                     std::chrono::milliseconds timeout) {
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (!is_told_ || !core) return;
  FlightEntry entry;
  entry.group = core->flight_group();
  entry.call = call_;
  entry.collective = sequence_;
  entry.timeout = timeout;
  entry.is_message = is_message(call_);
  entry.live = core->group().live.get();
  if (!receives(call_)) entry.bytes = add_shapes(inputs, &entry.inputs);
  if (call_ != Call::kSend) {
    uint64_t bytes = 0;
    for (const std::vector<at::Tensor>& list : outputs) bytes += add_shapes(list, &entry.outputs);
    if (entry.bytes == 0) entry.bytes = bytes;
  }
  flight_ = FlightLog::of_process().begin(entry);
}

void CallRecord::begin() {
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (!core) return;
  if (core->timed()) begun_ = monotonic_now();
  if (is_told_) extension_ = core->extensions().take_up();
}

void CallRecord::started() const { FlightLog::of_process().started(flight_); }

void CallRecord::set_peer(int peer, int tag) const {
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (peer < 0 || !core) return;
  const int rank = core->group().rank;
  FlightLog::of_process().belongs_to(flight_,
                                     receives(call_) ? MessageStream{peer, rank, tag} : MessageStream{rank, peer, tag});
}

void CallRecord::let_signals_in() const {
  if (const std::shared_ptr<GroupCore> core = core_.lock()) core->let_signals_in(to_string(call_));
}

void CallRecord::ended(bool good, std::optional<float> duration_ms) const {
  const bool counts = FlightLog::of_process().ended(flight_, good, duration_ms);
  if (extension_ == 0 && !counts) return;
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (core && counts) core->show_packets();
  if (core && extension_ != 0) core->extensions().release(extension_);
}

void CallRecord::succeeded(uint64_t key, std::optional<float> duration_ms) const {
  if (!is_told_) return;
  const std::shared_ptr<GroupCore> core = core_.lock();
  if (core && core->completion_hooks().any()) core->completion_hooks().run(key, duration_ms);
}

}  // namespace switchml
