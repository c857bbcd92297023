// The thread that steps a member with the real clock.
#pragma once

#include <atomic>
#include <thread>

#include "shm/member.h"

namespace switchml::shm {

/// How long a rank may look for work before it sleeps, if `ranks` share the processors that this process may use: 0
/// where others need them.
Duration spin_time(int ranks);

class MemberThread {
 public:
  /// `member` outlives it.
  MemberThread(Member& member, Duration spin);
  /// Stops and joins; what was submitted or asked for last is taken. Collectives must have been failed before
  /// (request_failure) or are left unfinished.
  ~MemberThread();
  MemberThread(const MemberThread&) = delete;
  MemberThread& operator=(const MemberThread&) = delete;

 private:
  void run();
  bool spin(Time until) const;

  Member& member_;
  const Duration spin_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace switchml::shm
