// Sleeping on a socket so that another thread can end the sleep.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "socket/fd.h"

namespace switchml {

/// One thread waits; any thread wakes. A wake costs one atomic exchange, and a system call only if a thread sleeps.
///
/// The state says what a wake() finds: no wait (kIdle), a thread that sleeps or is about to (kWaiting), a wake noted
/// already (kWoken). A wake always leaves kWoken behind, so a wait() that begins later returns at once; the one that
/// turns kWaiting into kWoken owes the sleeper a write to the eventfd.
class Waker {
 public:
  /// valid() is false, and errno set, if the system has no descriptor left.
  Waker();
  bool valid() const { return event_.valid(); }

  /// Until `fd` is readable or has an error, a wake, or `timeout` (negative: none); may return early.
  void wait(int fd, Duration timeout);
  void wake();

 private:
  enum State : int { kIdle, kWaiting, kWoken };
  std::atomic<int> state_{kIdle};
  Fd event_;
};

}  // namespace switchml
