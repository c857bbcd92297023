#include "c10d/flight_entries.h"

#include <algorithm>
#include <utility>

namespace switchml {
namespace {

void add_shapes(const std::vector<at::Tensor>& tensors, TensorShapes* shapes) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    shapes->sizes.push_back(tensor.sizes().vec());
    shapes->types.push_back(c10::toString(tensor.scalar_type()));
  }
}

bool is_message(Call call) { return call == Call::kSend || call == Call::kRecv || call == Call::kRecvAnySource; }

}  // namespace

std::chrono::milliseconds time_until(Time deadline) {
  if (deadline == kNever) return {};
  const Duration left = std::max(deadline - monotonic_now(), Duration{});
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

uint64_t log_call(const GroupCore& core, Call call, uint64_t sequence, const std::vector<at::Tensor>& inputs,
                  const std::vector<std::vector<at::Tensor>>& outputs, std::chrono::milliseconds timeout) {
  FlightEntry entry;
  entry.group = core.flight_group();
  entry.call = call;
  entry.collective = sequence;
  entry.timeout = timeout;
  entry.is_message = is_message(call);
  if (call != Call::kRecv && call != Call::kRecvAnySource) add_shapes(inputs, &entry.inputs);
  if (call != Call::kSend) {
    for (const std::vector<at::Tensor>& list : outputs) add_shapes(list, &entry.outputs);
  }
  return FlightLog::of_process().begin(std::move(entry));
}

void log_peer(const GroupCore& core, uint64_t flight, Call call, int peer, int tag) {
  if (peer < 0) return;
  const int rank = core.group().rank;
  FlightLog::of_process().belongs_to(
      flight, call == Call::kSend ? MessageStream{rank, peer, tag} : MessageStream{peer, rank, tag});
}

}  // namespace switchml
