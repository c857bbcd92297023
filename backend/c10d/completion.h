// Threads that complete collectives: they write results back, set futures and so run users' callbacks. A callback may
// issue a collective and wait for it, which needs another thread to complete that one, and so on: whenever nothing has
// moved for a millisecond while tasks wait, the pool grows by a thread. Free of torch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace switchml {

class CompletionPool {
 public:
  using Task = std::function<void()>;

  CompletionPool();
  /// join().
  ~CompletionPool();
  CompletionPool(const CompletionPool&) = delete;
  CompletionPool& operator=(const CompletionPool&) = delete;

  /// Runs `task` on a thread of the pool, in the order of posting where threads are free. A task must not throw. Never
  /// blocks; thread-safe. After join() the task runs at once, on the caller's thread.
  void post(Task task);

  /// Runs everything posted, then ends the threads. From a thread of the pool itself it ends all others. Idempotent.
  void join();

  /// Whether the calling thread belongs to a pool.
  static bool on_its_thread();

  /// Threads now, for tests and statistics.
  size_t threads() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace switchml
