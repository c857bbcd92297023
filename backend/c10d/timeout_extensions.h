// Time that calls get beside their timeout, for a while: until the first call that got it is complete. Free of torch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace switchml {

/// Thread-safe.
class TimeoutExtensions {
 public:
  using Duration = std::chrono::milliseconds;

  /// Calls made from now on get `extra` more. Extensions add up; each ends by itself.
  void add(Duration extra);
  Duration total() const { return Duration(total_.load(std::memory_order_relaxed)); }
  /// A call was made. Of the extensions that had none before it is the first: it must release() this number when it is
  /// complete. 0: there are none.
  uint64_t take_up();
  void release(uint64_t number);

 private:
  struct Extension {
    Duration extra;
    uint64_t first_call;  // 0: none yet
  };

  std::atomic<int64_t> total_{0};
  std::mutex mutex_;
  std::vector<Extension> extensions_;
  uint64_t last_number_ = 0;
};

}  // namespace switchml
