#include "shm/member_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cfenv>

namespace switchml::shm {

namespace {

constexpr Duration kLongest = milliseconds(500);
constexpr Duration kSpin = microseconds(50);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Duration spin_time(int ranks) {
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return known && ranks <= CPU_COUNT(&allowed) ? kSpin : Duration(0);
}

MemberThread::MemberThread(Member& member, Duration spin) : member_(member), spin_(spin), thread_([this] { run(); }) {}

MemberThread::~MemberThread() {
  stop_.store(true, std::memory_order_release);
  member_.wake();
  thread_.join();
}

void MemberThread::run() {
  pthread_setname_np(pthread_self(), "switchml-shm");
  // A new thread inherits its parent's floating-point state; flush-to-zero or another rounding would change the bits.
  std::fesetenv(FE_DFL_ENV);
  while (!stop_.load(std::memory_order_acquire)) {
    const Time now = monotonic_now();
    if (member_.step(now)) continue;
    if (spin_ > Duration(0) && member_.waits_for_others() && spin(now + spin_)) continue;
    const Time wakeup = member_.next_wakeup();
    const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
    if (patience > Duration(0)) member_.sleep(patience);
  }
  member_.step(monotonic_now());  // what was submitted or asked for last
}

// Whether there is work before `until`.
bool MemberThread::spin(Time until) const {
  do {
    for (int i = 0; i < 64; ++i) {
      if (member_.has_work()) return true;
      relax();
    }
  } while (monotonic_now() < until && !stop_.load(std::memory_order_relaxed));
  return false;
}

}  // namespace switchml::shm
