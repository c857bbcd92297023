#include "c10d/group_metrics.h"

#include <chrono>
#include <utility>

#include "kernels/kernels.h"

namespace switchml {
namespace {

MetricLabels with(MetricLabels labels, const MetricLabels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

uint64_t value_in(const std::map<std::string, uint64_t>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

}  // namespace

GroupMetrics::GroupMetrics(MetricLabels labels) : labels_(std::move(labels)) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  out_.gauge("switchml_rank_read_timestamp_seconds", "when these metrics were read, in seconds since 1970", labels_,
             now.count());
}

MetricLabels GroupMetrics::labels_of(const GroupCore& core) {
  const GroupInfo& group = core.group();
  std::string name = group.name;
  if (!names_.insert(name).second) name += " #" + std::to_string(core.flight_group());
  return with(labels_, {{"group", name}, {"rank", std::to_string(group.rank)}});
}

void GroupMetrics::add(GroupCore& core, const Statistics& statistics) {
  const MetricLabels labels = labels_of(core);
  out_.gauge("switchml_rank_info", "how the group is connected; always 1",
             with(labels, {{"transport", statistics.transport},
                           {"precision", statistics.precision},
                           {"switch", statistics.switch_address},
                           {"address", statistics.address},
                           {"kernels", kernels().name}}),
             1);
  out_.gauge("switchml_rank_group_size", "ranks of the group", labels, core.group().size);
  out_.gauge("switchml_rank_failed", "1 if a call has failed, or the group has", labels, core.failure().ok() ? 0 : 1);
  out_.gauge("switchml_rank_without_switch", "1 after a failover, until the switch is back", labels,
             static_cast<double>(value_in(statistics.worker, "without_switch")));
  add_calls(core, labels);
  add_counters(labels, statistics);
  add_memory(core, labels, statistics);
}

void GroupMetrics::add_calls(GroupCore& core, const MetricLabels& labels) {
  const auto found = progress_.find(core.flight_group());
  const FlightProgress progress = found == progress_.end() ? FlightProgress{} : found->second;
  out_.counter("switchml_rank_collectives_enqueued", "collectives that this rank has called", labels, core.sequence());
  out_.counter("switchml_rank_collectives_completed", "number of the last collective that succeeded", labels,
               progress.completed);
  out_.gauge("switchml_rank_oldest_call_seconds", "age of the oldest call that is not over; 0 if there is none", labels,
             progress.oldest_seconds);
  for (size_t i = 0; i < kCalls; ++i) {
    const auto call = static_cast<Call>(i);
    for (const Way way : kAllWays) {
      const uint64_t calls = core.calls().get(call, way);
      if (calls == 0) continue;
      out_.counter("switchml_rank_calls", "calls, and which way they went",
                   with(labels, {{"call", to_string(call)}, {"way", to_string(way)}}), calls);
    }
  }
}

void GroupMetrics::add_counters(const MetricLabels& labels, const Statistics& statistics) {
  WorkerCounters{}.for_each([&](const CounterInfo& info, uint64_t) {
    out_.counter(std::string("switchml_rank_") + info.name, info.help, labels, value_in(statistics.worker, info.name));
  });
  if (statistics.embedded.empty()) return;
  SwitchCounters{}.for_each([&](const CounterInfo& info, uint64_t) {
    out_.counter(std::string("switchml_switch_") + info.name, info.help, labels,
                 value_in(statistics.embedded, info.name));
  });
}

void GroupMetrics::add_memory(const GroupCore& core, const MetricLabels& labels, const Statistics& statistics) {
  const auto bytes = [&](const char* name, const char* help, uint64_t value) {
    out_.gauge(std::string("switchml_rank_") + name + "_bytes", help, labels, static_cast<double>(value));
  };
  bytes("memory", "frames and buffers, or memory that ranks share", statistics.memory_bytes);
  bytes("arena", "what tensors take of the arena", statistics.arena_bytes);
  bytes("arena_limit", "size of the arena", statistics.arena_limit_bytes);
  bytes("pinned", "memory pinned for tensors of an accelerator", core.pinned()->used());
  bytes("pinned_limit", "bound of the memory pinned for tensors of an accelerator", core.pinned()->limit());
}

}  // namespace switchml
