// The thread that steps a shard with the real clock.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "engine/shard.h"

namespace switchml {

class ShardThread {
 public:
  explicit ShardThread(std::unique_ptr<Shard> shard);
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

  std::unique_ptr<Shard> shard_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml
