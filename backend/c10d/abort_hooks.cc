#include "c10d/abort_hooks.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace switchml {

void AbortHooks::add(int64_t id, Hook hook) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(hooks_[id], hook);
  }
  // The old one goes here: what it holds may need Python's lock, and the holder of that may want ours.
}

void AbortHooks::remove(int64_t id) {
  std::map<int64_t, Hook>::node_type removed;  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  removed = hooks_.extract(id);
}

void AbortHooks::take_over(AbortHooks& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  hooks_.swap(other.hooks_);
}

void AbortHooks::run() {
  std::map<int64_t, Hook> hooks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hooks.swap(hooks_);
  }
  for (const auto& [id, hook] : hooks) {
    try {
      hook();
    } catch (const std::exception& error) {
      SWITCHML_LOG(kError) << "abort hook " << id << " threw: " << error.what();
    }
  }
}

}  // namespace switchml
