// A SoftSwitch that several threads drive, one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "softswitch/switch.h"

namespace switchml {

/// Thread-safe.
class LockedSwitch {
 public:
  explicit LockedSwitch(const softswitch::SwitchOptions& options) : switch_(options) {}

  /// Calls f(SoftSwitch&) under the lock.
  template <typename F>
  auto exclusively(F&& f) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const MemoryNote note(this);
    return f(switch_);
  }

  /// Processes frames of any content, in their order. The sink has to reclaim() before other threads get the switch.
  void process(const RxFrame* frames, size_t count, Time now, softswitch::PacketSink& sink) {
    exclusively([&](softswitch::SoftSwitch& s) {
      s.begin_burst();
      for (size_t i = 0; i < count; ++i) s.process(frames[i], now, sink);
      sink.reclaim();
    });
  }

  /// Both take no lock.
  size_t slot_memory_in_use() const { return slot_bytes_.load(std::memory_order_relaxed); }
  SwitchCounters counters() const { return switch_.counters(); }

 private:
  /// Its destructor notes the memory in use.
  struct MemoryNote {
    explicit MemoryNote(LockedSwitch* owner_in) : owner(*owner_in) {}
    ~MemoryNote() { owner.slot_bytes_.store(owner.switch_.slot_memory_in_use(), std::memory_order_relaxed); }
    MemoryNote(const MemoryNote&) = delete;
    MemoryNote& operator=(const MemoryNote&) = delete;
    LockedSwitch& owner;
  };

  softswitch::SoftSwitch switch_;
  std::mutex mutex_;
  std::atomic<size_t> slot_bytes_{0};
};

}  // namespace switchml
