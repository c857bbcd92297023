#include "c10d/completion_hooks.h"

#include <utility>

namespace switchml {

void CompletionHooks::add(int64_t id, Hook hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::swap(hooks_[id], hook);
  any_.store(true, std::memory_order_relaxed);
}

void CompletionHooks::remove(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hooks_.erase(id);
  any_.store(!hooks_.empty(), std::memory_order_relaxed);
}

void CompletionHooks::run(uint64_t key, std::optional<float> duration_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, hook] : hooks_) hook(key, duration_ms);
}

void CompletionHooks::take_over(CompletionHooks& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  hooks_.swap(other.hooks_);
  any_.store(!hooks_.empty(), std::memory_order_relaxed);
  other.any_.store(!other.hooks_.empty(), std::memory_order_relaxed);
}

}  // namespace switchml
