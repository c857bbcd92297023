// Steps a rank's local ranks with the real clock: by a thread of their own, or by a caller in its place.
#pragma once

#include <memory>
#include <vector>

#include "engine/idle_wait.h"
#include "engine/stepped_thread.h"
#include "shm/local_rank.h"

namespace switchml::shm {

class LocalRankThread final : public SteppedThread {
 public:
  /// Local ranks of one rank on boards that have the same doorbells, at least one, in the order in which they are
  /// stepped; they outlive it. `spin`: not 0 if it may look for work before it sleeps (IdleWait); else it
  /// gives way to other threads a few times instead, in the middle of large tensors and in turns. Throws NoThread.
  LocalRankThread(std::vector<LocalRank*> local_ranks, Duration spin);
  /// Stops and joins; what was submitted or asked for last is taken. Collectives must have been failed before
  /// (request_failure) or are left unfinished. No turn is under way.
  ~LocalRankThread() override;

 private:
  void settle_in() const override;
  bool is_idle() const override;
  bool has_work() const override;
  bool step(Time now) override;
  void step_or_wait(Time now, bool in_turn, const std::function<bool()>& over) override;
  void end_wait() override { local_ranks_.front()->wake(); }

  const std::vector<LocalRank*> local_ranks_;
  IdleWait threads_wait_;
  CallersIdleWait callers_wait_;
};

}  // namespace switchml::shm
