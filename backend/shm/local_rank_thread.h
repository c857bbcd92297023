// Steps a rank's local ranks with the real clock: by a thread of their own, or by a caller in its place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/idle_wait.h"
#include "shm/local_rank.h"

namespace switchml::shm {

class LocalRankThread {
 public:
  /// Local ranks of one rank on boards that have the same doorbells, at least one, in the order in which they are
  /// stepped; they outlive it. `spin`: not 0 if it may look for work before it sleeps (IdleWait); else it
  /// gives way to other threads a few times instead, in the middle of large tensors and in turns. Throws NoThread.
  LocalRankThread(std::vector<LocalRank*> local_ranks, Duration spin);
  /// Stops and joins; what was submitted or asked for last is taken. Collectives must have been failed before
  /// (request_failure) or are left unfinished. No turn is under way.
  ~LocalRankThread();
  LocalRankThread(const LocalRankThread&) = delete;
  LocalRankThread& operator=(const LocalRankThread&) = delete;

  /// Has it look at what a local rank was given. After each submit() and request_failure(). Thread-safe.
  void notify();
  /// Null where something is under way, or another caller is at it. Thread-safe.
  std::unique_ptr<CallerTurn> begin_turn();

 private:
  class Turn;
  void run();
  bool is_idle() const;
  bool has_work() const;
  /// Steps; where that has moved nothing, waits for a moment until there may be something to do. `yields_only_amid`:
  /// it yields only in the middle of large tensors.
  template <typename Over>
  void step_or_wait(Time now, IdleWait& wait, bool yields_only_amid, const Over& over);
  bool step(Time now);

  const std::vector<LocalRank*> local_ranks_;
  IdleWait threads_wait_;
  CallersIdleWait callers_wait_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable work_;
  bool taken_ = false;  // a thread steps the local ranks; guarded by mutex_
  std::thread thread_;
};

}  // namespace switchml::shm
