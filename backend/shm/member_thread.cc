#include "shm/member_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>

namespace switchml::shm {

namespace {

constexpr Duration kLongest = milliseconds(500);

}  // namespace

MemberThread::MemberThread(Member& member, Duration spin)
    : member_(member), look_around_(spin), thread_([this] { run(); }) {}

MemberThread::~MemberThread() {
  stop_.store(true, std::memory_order_release);
  member_.wake();
  thread_.join();
}

void MemberThread::run() {
  pthread_setname_np(pthread_self(), "switchml-shm");
  // A new thread inherits its parent's floating-point state; flush-to-zero or another rounding would change the bits.
  std::fesetenv(FE_DFL_ENV);
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  const auto work = [this] { return member_.has_work(); };
  while (!stopped()) {
    if (member_.step(monotonic_now())) continue;
    if (member_.waits_for_others() && look_around_(work, stopped)) continue;
    const Time wakeup = member_.next_wakeup();
    const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
    if (patience > Duration(0)) member_.sleep(patience);
  }
  member_.step(monotonic_now());  // what was submitted or asked for last
}

}  // namespace switchml::shm
