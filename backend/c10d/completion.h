// Threads that complete collectives: they write results back, set futures and so run users' callbacks. A callback may
// issue a collective and wait for it, which needs another thread to complete that one, and so on. So each task has a
// level: 0 for a call of the application, one more than the callback's for a call that a callback makes. One thread at
// a time runs tasks of a level, in their order, and nothing that a callback issues waits behind other callbacks.
//
// | what a running task waits for | what completes that |
// |---|---|
// | a future or work of a call that it made | a thread of the next level, at once |
// | any work of ours, by SwitchWork::wait | another thread of its level, at once |
// | anything else, so Python's lock | if nothing moves for 10, 20, 40, ... ms: one more thread of each level, up to 7 |
//
// Threads without work for 2 s end, but for one. Free of torch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/status.h"

namespace switchml {

class CompletionPool {
 public:
  using Task = std::function<void()>;
  /// Deeper calls share the last level.
  static constexpr size_t kLevels = 16;
  /// Threads that one level gets beside those that are in a Wait.
  static constexpr size_t kMostPerLevel = 8;

  CompletionPool();
  /// join().
  ~CompletionPool();
  CompletionPool(const CompletionPool&) = delete;
  CompletionPool& operator=(const CompletionPool&) = delete;

  /// Makes the first thread. An error where the system gives none; may be tried again.
  Status start();

  /// Runs `task` on a thread of the pool, in the order of posting on its level. A task must not throw. Never blocks;
  /// thread-safe. Range: 0 <= level < kLevels. After join(), or where no thread can be made, the task runs at once, on
  /// the caller's thread.
  void post(Task task, size_t level = 0);

  /// The level of calls that this thread makes: 0 outside of all pools.
  static size_t level_here();

  /// Lives while a thread waits for a completion. On a thread of a pool another one takes its place.
  class Wait;

  /// Runs everything posted, then ends the threads. From a thread of the pool itself it ends all others. Idempotent.
  void join();

  /// Runs everything posted, and ends the threads; what is posted later has new ones.
  void rest();

  /// Whether the calling thread belongs to a pool, or runs a task in the place of one.
  static bool on_its_thread();

  /// Threads now, for tests and statistics.
  size_t threads() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

class CompletionPool::Wait {
 public:
  Wait();
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
};

}  // namespace switchml
