// The thread that steps a member with the real clock.
#pragma once

#include <atomic>
#include <thread>

#include "engine/spin_wait.h"
#include "shm/member.h"

namespace switchml::shm {

class MemberThread {
 public:
  /// `member` outlives it. `spin`: how long it may look for work before it sleeps (spin_time()); 0: never.
  MemberThread(Member& member, Duration spin);
  /// Stops and joins; what was submitted or asked for last is taken. Collectives must have been failed before
  /// (request_failure) or are left unfinished.
  ~MemberThread();
  MemberThread(const MemberThread&) = delete;
  MemberThread& operator=(const MemberThread&) = delete;

 private:
  void run();

  Member& member_;
  SpinWait look_around_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml::shm
