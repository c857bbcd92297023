// The rooms that a TCP transport receives into, shared by its connections. The one given back last is taken first: it
// is in the cache still. The memory of those that a crowd needed once goes back to the system.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/frame_memory.h"

namespace switchml {

struct ReceiveBuffer {
  uint8_t* data = nullptr;
  uint64_t lent_in = 0;  // the last round in which frames in it were lent
  bool counted = false;  // it may have pages
};

/// Frames lent in a round, which release() ends, keep their buffer from being used again until then. One thread.
class ReceiveBufferPool {
 public:
  static constexpr size_t kKept = 8;

  ReceiveBufferPool(size_t buffer_bytes, size_t most) : buffer_bytes_(buffer_bytes), most_(most) {}

  size_t buffer_bytes() const { return buffer_bytes_; }
  /// Memory of buffers that have been needed and not given back to the system since. Any thread may ask.
  size_t memory_bytes() const { return buffer_bytes_ * counted_.load(std::memory_order_relaxed); }

  /// Null: all are in use.
  ReceiveBuffer* take() {
    if (free_.empty() && buffers_.size() == most_) return nullptr;
    if (free_.empty()) {
      buffers_.push_back(std::make_unique<ReceiveBuffer>(ReceiveBuffer{memory_.allocate(buffer_bytes_)}));
      free_.push_back(buffers_.back().get());
    }
    ReceiveBuffer* buffer = free_.back();
    free_.pop_back();
    unused_ = std::min(unused_, free_.size());
    count(buffer, true);
    return buffer;
  }
  void lend(ReceiveBuffer* buffer) { buffer->lent_in = round_; }
  void give_back(ReceiveBuffer* buffer) { (buffer->lent_in == round_ ? resting_ : free_).push_back(buffer); }
  void release() {
    ++round_;
    free_.insert(free_.end(), resting_.rbegin(), resting_.rend());
    resting_.clear();
  }

  /// Gives the memory of buffers that were not taken since the last trim() back to the system, but for kKept.
  void trim() {
    for (size_t i = 0; i + kKept < unused_; ++i) {
      ReceiveBuffer* buffer = free_[i];
      if (buffer->counted) ::madvise(buffer->data, buffer_bytes_, MADV_DONTNEED);
      count(buffer, false);
    }
    unused_ = free_.size();
  }
  /// trim() may have something to give back, now or the next time.
  bool can_trim() const { return free_.size() > kKept && free_[free_.size() - kKept - 1]->counted; }

 private:
  void count(ReceiveBuffer* buffer, bool counted) {
    if (buffer->counted == counted) return;
    buffer->counted = counted;
    counted_.store(counted_.load(std::memory_order_relaxed) + (counted ? size_t{1} : SIZE_MAX),
                   std::memory_order_relaxed);
  }

  const size_t buffer_bytes_;
  const size_t most_;
  uint64_t round_ = 1;
  FrameMemory memory_;
  std::vector<std::unique_ptr<ReceiveBuffer>> buffers_;
  std::atomic<size_t> counted_{0};
  std::vector<ReceiveBuffer*> free_;     // those without pages come first, the one given back last is the last one
  size_t unused_ = 0;                    // so many at the front of `free_` were not taken since the last trim()
  std::vector<ReceiveBuffer*> resting_;  // given back, but their frames are still lent
};

}  // namespace switchml
