// The thread that steps a rank's members with the real clock.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "engine/spin_wait.h"
#include "shm/member.h"

namespace switchml::shm {

class MemberThread {
 public:
  /// Members of one rank on boards that have the same bells, at least one, in the order in which they are stepped; they
  /// outlive it. `spin`: how long it may look for work before it sleeps (spin_time()); 0: never,
  /// and in the middle of large tensors it gives way to other threads a few times instead. Throws NoThread.
  MemberThread(std::vector<Member*> members, Duration spin);
  /// Stops and joins; what was submitted or asked for last is taken. Collectives must have been failed before
  /// (request_failure) or are left unfinished.
  ~MemberThread();
  MemberThread(const MemberThread&) = delete;
  MemberThread& operator=(const MemberThread&) = delete;

 private:
  void run();
  bool step();

  const std::vector<Member*> members_;
  const bool gives_way_;
  SpinWait look_around_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml::shm
