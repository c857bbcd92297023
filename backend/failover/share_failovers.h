// The failover of all shares of a group's tensors, and, on rank 0, what follows a controller's plan.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "failover/failover.h"

namespace switchml {

/// Thread-safe. Rank 0 of a group with a controller has a thread for it.
class ShareFailovers {
 public:
  /// `options`: of the first share; its session is the first of `sessions`, which are those of the engine, in order.
  /// All borrowed: they live longer. Throws NoThread.
  ShareFailovers(SwitchEngine& engine, Rendezvous& store, FailoverOptions options,
                 const std::vector<SessionParameters>& sessions);
  /// stop().
  ~ShareFailovers();

  /// Failover's, of a share.
  void begin(size_t share, const std::string& why) { shares_[share]->begin(why); }
  /// What another rank told all.
  void heard(int rank, const std::string& text);
  /// A rank has left the group: no rank waits for it any more.
  void heard_leave(int rank);
  /// Whether the streams of some share go past its switch.
  bool moved() const;
  /// The sessions that the group has, or had last.
  std::vector<SessionParameters> sessions() const;
  /// This rank has made its last call. Another one may lack a result of it, and lose the switch: so until all others
  /// are as far, or have left, or Config::failure_timeout has passed, this one still goes along. Idempotent.
  void await_others();
  /// Nothing begins any more. What others wait for is said first (at most 2 s); then a move that is under way fails.
  void stop();

 private:
  void follow_plans();
  void follow(const Blob& places);

  SwitchEngine& engine_;
  const FailoverOptions options_;
  std::vector<std::unique_ptr<Failover>> shares_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  News news_;  // Knows which ranks have made their last call.
  std::thread thread_;
};

}  // namespace switchml
