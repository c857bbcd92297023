#include "switchd/partitioned_switch.h"

namespace switchml {

void PartitionedSwitch::sort(const RxFrame* frames, size_t count, Scratch* scratch) const {
  scratch->first.assign(locks_.size(), -1);
  scratch->last.resize(locks_.size());
  if (scratch->next.size() < count) scratch->next.resize(count);
  scratch->rest.clear();
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<int32_t>(i);
    const int partition = switch_.partition_of(frames[i].data, frames[i].size);
    if (partition == softswitch::SoftSwitch::kWholeSwitch) {
      scratch->rest.push_back(number);
      continue;
    }
    const auto p = static_cast<size_t>(partition);
    (scratch->first[p] < 0 ? scratch->first[p] : scratch->next[static_cast<size_t>(scratch->last[p])]) = number;
    scratch->last[p] = number;
    scratch->next[i] = -1;
  }
}

void PartitionedSwitch::process(int home, const RxFrame* frames, size_t count, Time now, softswitch::PacketSink& sink,
                                Scratch* scratch) {
  sort(frames, count, scratch);
  const size_t partitions = locks_.size();
  for (size_t k = 0; k < partitions; ++k) {
    const size_t p = (static_cast<size_t>(home) + k) % partitions;
    if (scratch->first[p] < 0) continue;
    const std::lock_guard<std::mutex> lock(locks_[p].mutex);
    switch_.begin_burst(static_cast<int>(p));
    for (int32_t i = scratch->first[p]; i >= 0; i = scratch->next[static_cast<size_t>(i)]) {
      if (!switch_.process_in(static_cast<int>(p), frames[i], now, sink)) scratch->rest.push_back(i);
    }
    sink.reclaim();
  }
  if (scratch->rest.empty()) return;
  const AllPartitionsLock excluded(this);
  for (const int32_t i : scratch->rest) {
    switch_.process(frames[i].data, frames[i].size, frames[i].from, now, sink, frames[i].ecn);
  }
  sink.reclaim();
}

}  // namespace switchml
