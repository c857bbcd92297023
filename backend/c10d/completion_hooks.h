// What PyTorch, from 2.15 on, wants to be told when a call has succeeded: its flight recorder of all backends does.
// Free of torch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace switchml {

/// Thread-safe. A hook must be short, and must not call these.
class CompletionHooks {
 public:
  /// `key`: the work's; `duration_ms`: how long the call took, where it was timed.
  using Hook = std::function<void(uint64_t key, std::optional<float> duration_ms)>;

  /// `id` is the caller's; a second hook of the same id takes the first one's place.
  void add(int64_t id, Hook hook);
  /// Once it returns the hook is not called any more. Without effect where there is none.
  void remove(int64_t id);
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void run(uint64_t key, std::optional<float> duration_ms);
  /// Takes those of the group that this one replaces.
  void take_over(CompletionHooks& other);

 private:
  std::mutex mutex_;
  std::map<int64_t, Hook> hooks_;
  std::atomic<bool> any_{false};
};

}  // namespace switchml
