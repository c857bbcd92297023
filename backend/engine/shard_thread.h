// The thread that steps one or several shards with the real clock.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "engine/shard.h"
#include "engine/spin_wait.h"

namespace switchml {

class ShardThread {
 public:
  /// `spin`: how long it may look for results before it sleeps (spin_wait.h, kSpin); 0: never. `processors`: those that
  /// it runs on; empty, or if the system refuses: those of the caller. Throws NoThread. Of several shards the first
  /// one's transport ends its waits with a frame for any of them.
  explicit ShardThread(std::vector<std::shared_ptr<Shard>> shards, Duration spin = Duration(0),
                       const std::vector<int>& processors = {});
  /// Stops and joins. The shards' collectives must have been failed before (request_failure) or are left unfinished.
  ~ShardThread();
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  /// Ends the thread and takes the shards' last steps. Idempotent. Shards may call each other until all are stopped, so
  /// none may be destroyed before.
  void stop();

 private:
  void run();
  void settle_in() const;
  bool step();
  Duration coalescing();
  bool waits_for_results() const;
  Duration patience() const;
  Transport& link() { return shards_.front()->transport(); }

  const std::vector<std::shared_ptr<Shard>> shards_;
  SpinWait busy_poll_;
  const std::vector<int> processors_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml
