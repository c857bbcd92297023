// A SoftSwitch and the locks with which several threads drive it: one for each partition of its slots. A thread takes
// the lock of its own partition for a burst; as long as frames arrive where their slots are at home nobody else wants
// it, but for control, which takes all of them. A frame that arrives elsewhere is processed there, under the lock of
// the partition that it belongs to: that costs time, never a sum.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softswitch/switch.h"

namespace switchml {

/// Thread-safe.
class PartitionedSwitch {
 public:
  /// options.partitions: as many threads can process() at the same time without waiting for each other.
  explicit PartitionedSwitch(const softswitch::SwitchOptions& options)
      : switch_(options), locks_(static_cast<size_t>(options.partitions)) {}

  /// What a thread remembers from burst to burst: memory only.
  struct Scratch {
    std::vector<int32_t> first;  // by partition: its first frame, -1 for none
    std::vector<int32_t> last;
    std::vector<int32_t> next;  // by frame: the next one of its partition
    std::vector<int32_t> rest;  // frames that take the whole switch
  };
  /// Processes frames of any content, those of a slot in their order. The sink is told to reclaim() before the lock
  /// that guards its frames is given back. `home`: the partition whose frames come first.
  void process(int home, const RxFrame* frames, size_t count, Time now, softswitch::PacketSink& sink, Scratch* scratch);

  /// f(SoftSwitch&) while no thread is in it.
  template <typename F>
  auto exclusively(F&& f) {
    const AllPartitionsLock excluded(this);
    return f(switch_);
  }

  /// Now; without a lock.
  size_t slot_memory_in_use() const { return slot_bytes_.load(std::memory_order_relaxed); }
  SwitchCounters counters() const { return switch_.counters(); }

 private:
  struct alignas(64) Lock {
    std::mutex mutex;
  };
  class AllPartitionsLock {
   public:
    explicit AllPartitionsLock(PartitionedSwitch* owner) : owner_(*owner) {
      for (Lock& lock : owner_.locks_) lock.mutex.lock();
    }
    ~AllPartitionsLock() {
      owner_.slot_bytes_.store(owner_.switch_.slot_memory_in_use(), std::memory_order_relaxed);
      for (Lock& lock : owner_.locks_) lock.mutex.unlock();
    }
    AllPartitionsLock(const AllPartitionsLock&) = delete;
    AllPartitionsLock& operator=(const AllPartitionsLock&) = delete;

   private:
    PartitionedSwitch& owner_;
  };

  void sort(const RxFrame* frames, size_t count, Scratch* scratch) const;

  softswitch::SoftSwitch switch_;
  std::vector<Lock> locks_;  // by partition
  std::atomic<size_t> slot_bytes_{0};
};

}  // namespace switchml
