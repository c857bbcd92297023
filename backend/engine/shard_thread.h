// The thread that steps a shard with the real clock.
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
  /// `spin`: how long it may look for results before it sleeps (spin_time()); 0: never. `processors`: those that it
  /// runs on; empty, or if the system refuses: those of the caller. Throws NoThread.
  explicit ShardThread(std::shared_ptr<Shard> shard, Duration spin = Duration(0),
                       const std::vector<int>& processors = {});
  /// Stops and joins. The shard's collectives must have been failed before (request_failure) or are left unfinished.
  ~ShardThread();
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  /// Ends the thread and takes the shard's last step. Idempotent. Shards may call each other until all are stopped, so
  /// none may be destroyed before.
  void stop();

  Shard& shard() { return *shard_; }
  const Shard& shard() const { return *shard_; }

 private:
  void run();

  std::shared_ptr<Shard> shard_;
  SpinWait look_around_;
  const std::vector<int> processors_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml
