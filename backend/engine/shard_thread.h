// The thread that steps one or several shards with the real clock, or a caller in its place.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/idle_wait.h"
#include "engine/shard.h"
#include "engine/spin_wait.h"
#include "engine/stepped_thread.h"
#include "socket/fd.h"
#include "transport/side_work.h"
#include "transport/waker.h"

namespace switchml {

class ShardThread final : public SteppedThread {
 public:
  /// `spin`: how long it may look for results before it sleeps (spin_wait.h, kSpin); 0: never. `processors`: those that
  /// it runs on; empty, or if the system refuses: those of the caller. Throws NoThread. Of several shards the first
  /// one's transport ends its waits with a frame for any of them. `side_work`: what results wait for on this host, or
  /// null. It is borrowed, and a caller does it during its turn as well.
  explicit ShardThread(std::vector<std::shared_ptr<Shard>> shards, Duration spin = Duration(0),
                       const std::vector<int>& processors = {}, SideWork* side_work = nullptr);
  /// Stops and joins. The shards' collectives must have been failed before (request_failure) or are left unfinished.
  ~ShardThread() override;

  /// Ends the thread and takes the shards' last steps. Idempotent. Shards may call each other until all are stopped, so
  /// none may be destroyed before.
  using SteppedThread::stop;

 private:
  void settle_in() const override;
  bool lets_callers_work() override;
  void begin_work_of_caller() override;
  void end_work_of_caller() override;
  Duration rest() const override { return patience(); }
  bool is_idle() const override;
  bool has_work() const override;
  bool step(Time now) override;
  void step_or_wait(Time now, bool in_turn, const std::function<bool()>& over) override;
  void end_wait() override { shards_.front()->wake(); }

  Duration coalescing();
  bool waits_for_results() const;
  Duration patience() const;
  void sleep(Duration time);
  Transport& link() const { return shards_.front()->transport(); }

  const std::vector<std::shared_ptr<Shard>> shards_;
  SpinWait busy_poll_;
  CallersIdleWait callers_wait_;
  const std::vector<int> processors_;
  const bool lets_callers_work_;
  std::atomic<bool> is_asked_{false};  // A caller has wanted a turn.
  SideWork* const side_work_;
  bool does_side_work_ = false;
  Waker waker_;  // Of a caller that does.
  Fd both_;      // What it waits for: frames for a shard, and side work.
};

}  // namespace switchml
