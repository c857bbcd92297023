// What users want to be told before a group ends in a failure: a dump of what was under way, say. Free of torch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace switchml {

/// Thread-safe.
class AbortHooks {
 public:
  using Hook = std::function<void()>;

  /// `id` is the caller's; a second hook of the same id takes the first one's place.
  void add(int64_t id, Hook hook);
  /// Without effect where there is none.
  void remove(int64_t id);
  /// Calls every hook in the order of their ids, and forgets them: a group fails once. What a hook throws is logged.
  /// Without a lock, so a hook may add and remove hooks.
  void run();
  /// Takes those of the group that this one replaces.
  void take_over(AbortHooks& other);

 private:
  std::mutex mutex_;
  std::map<int64_t, Hook> hooks_;
};

}  // namespace switchml
