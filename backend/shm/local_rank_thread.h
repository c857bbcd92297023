// Who steps a rank's local ranks with the real clock: a thread of their own, or a caller in its place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/spin_wait.h"
#include "shm/give_way.h"
#include "shm/local_rank.h"

namespace switchml::shm {

class LocalRankThread {
 public:
  /// Local ranks of one rank on boards that have the same doorbells, at least one, in the order in which they are
  /// stepped; they outlive it. `spin`: how long it may look for work before it sleeps (kSpin); 0: never, and it
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
  /// How one waits before it sleeps: it busy-polls, or gives way so many times, only in the middle of large tensors
  /// perhaps, and only as long as that pays.
  struct Waits {
    SpinWait busy_poll;
    GiveWay give_way;
    bool only_amid;
  };
  Waits& waits_of_caller();
  /// Steps; where that has moved nothing, waits for a moment until there may be something to do.
  template <typename Over>
  void step_or_wait(Waits& waits, const Over& over);
  bool step();

  const std::vector<LocalRank*> local_ranks_;
  const Duration spin_;
  Waits waits_;                         // the thread's
  std::optional<Waits> callers_waits_;  // of the last one, in turns
  std::thread::id last_caller_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable work_;
  bool taken_ = false;  // somebody steps the local ranks; guarded by mutex_
  std::thread thread_;
};

}  // namespace switchml::shm
