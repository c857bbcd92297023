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

FlightEntry entry_of(const GroupCore& core, Call call, std::chrono::milliseconds timeout) {
  FlightEntry entry;
  entry.group = core.flight_group();
  entry.call = call;
  entry.collective = core.sequence();
  entry.timeout = timeout;
  return entry;
}

}  // namespace

std::chrono::milliseconds time_until(Time deadline) {
  if (deadline == kNever) return {};
  const Duration left = std::max(deadline - monotonic_now(), Duration{});
  return std::chrono::ceil<std::chrono::milliseconds>(left);
}

uint64_t log_collective(const GroupCore& core, Call call, uint64_t sequence, const std::vector<at::Tensor>& inputs,
                        const std::vector<std::vector<at::Tensor>>& outputs, std::chrono::milliseconds timeout) {
  FlightEntry entry = entry_of(core, call, timeout);
  entry.collective = sequence;
  add_shapes(inputs, &entry.inputs);
  for (const std::vector<at::Tensor>& list : outputs) add_shapes(list, &entry.outputs);
  return FlightLog::of_process().begin(std::move(entry));
}

uint64_t log_message(const GroupCore& core, Call call, const std::vector<at::Tensor>& tensors) {
  FlightEntry entry = entry_of(core, call, {});
  entry.is_message = true;
  add_shapes(tensors, call == Call::kSend ? &entry.inputs : &entry.outputs);
  const uint64_t id = FlightLog::of_process().begin(std::move(entry));
  FlightLog::of_process().started(id);
  return id;
}

}  // namespace switchml
