#include "shm/member_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cfenv>
#include <utility>

#include "base/thread.h"

namespace switchml::shm {

namespace {

constexpr Duration kLongest = milliseconds(500);
/// Where ranks share processors, the one that is waited for may want this one: in the middle of a large tensor, to let
/// it run costs less than to be woken by it. Few times, or ranks would take turns of few chunks.
constexpr int kYields = 2;

/// Whether there is work once others have had the processor.
template <typename Work>
bool give_way(const Work& work) {
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (work()) return true;
  }
  return false;
}

}  // namespace

MemberThread::MemberThread(std::vector<Member*> members, Duration spin)
    : members_(std::move(members)),
      gives_way_(spin == Duration(0)),
      look_around_(spin),
      thread_(make_thread("an engine", [this] { run(); })) {}

MemberThread::~MemberThread() {
  stop_.store(true, std::memory_order_release);
  members_.front()->wake();
  thread_.join();
}

void MemberThread::run() {
  pthread_setname_np(pthread_self(), "switchml-shm");
  // A new thread inherits its parent's floating-point state; flush-to-zero or another rounding would change the bits.
  std::fesetenv(FE_DFL_ENV);
  const auto stopped = [this] { return stop_.load(std::memory_order_acquire); };
  const auto any = [this](const auto& says) { return std::any_of(members_.begin(), members_.end(), says); };
  const auto work = [any] { return any([](const Member* one) { return one->has_work(); }); };
  while (!stopped()) {
    if (step()) continue;
    const bool waits = any([](const Member* one) { return one->waits_for_others(); });
    if (waits && look_around_(work, stopped)) continue;
    if (gives_way_ && any([](const Member* one) { return one->has_full_window(); }) && give_way(work)) continue;
    Time wakeup = kNever;
    for (const Member* member : members_) wakeup = std::min(wakeup, member->next_wakeup());
    const Duration patience = wakeup == kNever ? kLongest : std::min<Duration>(kLongest, wakeup - monotonic_now());
    if (patience > Duration(0)) Member::sleep(members_, patience);
  }
  step();  // what was submitted or asked for last
}

bool MemberThread::step() {
  bool moved = false;
  for (Member* member : members_) moved = member->step(monotonic_now()) || moved;
  return moved;
}

}  // namespace switchml::shm
