// Inputs that become readable, and results that become usable, piece by piece: copies from and to a device go on
// beside the collective.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace switchml {

/// How many of the first elements of an input may be read. Thread-safe.
class Watermark {
 public:
  /// It never falls. The engine must be told afterwards: Engine::wake().
  void raise(size_t elements) { elements_.store(elements, std::memory_order_release); }
  size_t elements() const { return elements_.load(std::memory_order_acquire); }

 private:
  std::atomic<size_t> elements_{0};
};

/// How many of the first elements of a result have been written. The engine writes parts in any order, and from several
/// threads. Thread-safe.
class ResultWatermark {
 public:
  void written(size_t begin, size_t end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ahead_[begin] = std::max(ahead_[begin], end);
    size_t reached = elements_.load(std::memory_order_relaxed);
    while (!ahead_.empty() && ahead_.begin()->first <= reached) {
      reached = std::max(reached, ahead_.begin()->second);
      ahead_.erase(ahead_.begin());
    }
    elements_.store(reached, std::memory_order_release);
    if (risen_ && reached >= told_ + step_) {
      told_ = reached;
      risen_();
    }
  }
  size_t elements() const { return elements_.load(std::memory_order_acquire); }
  /// `risen` runs each time when so many more have been written, in the thread that writes them: it must not block.
  /// Before the engine has this.
  void tell(size_t step, std::function<void()> risen) {
    step_ = step;
    risen_ = std::move(risen);
  }

 private:
  std::mutex mutex_;
  std::function<void()> risen_;
  size_t step_ = 0;
  size_t told_ = 0;
  std::map<size_t, size_t> ahead_;  // Parts behind a gap: begin, end.
  std::atomic<size_t> elements_{0};
};

}  // namespace switchml
