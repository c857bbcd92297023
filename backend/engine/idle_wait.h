// What a rank's threads do before they sleep: busy-poll where each thread has a processor, else yield it a few times,
// so that the rank that is waited for may run next. Either only as long as it pays.
#pragma once

#include <sched.h>

#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "engine/spin_wait.h"

namespace switchml {

/// One thread.
class IdleWait {
 public:
  /// The longest busy-poll, if recent waits took no longer than that.
  static constexpr Duration kLongestSpin = microseconds(250);
  /// Busy-polls if `spin` is not 0; else it yields up to `yields` times in a row instead.
  IdleWait(Duration spin, int yields)
      : spins_(spin > Duration(0)), spin_(spins_ ? kLongestSpin : spin), yields_(yields) {}

  /// True once found() is. If it returns false: sleep. `stop` ends busy-polling; yields only if `may_yield`.
  template <typename Found, typename Stop>
  bool operator()(const Found& found, const Stop& stop, bool may_yield = true) {
    return spins_ ? spin_(found, stop) : may_yield && yield(found);
  }
  /// The sleep after it has ended because of found().
  void slept() {
    if (spins_) spin_.slept();
  }

 private:
  /// A rank keeps the processor for less. Another program that is given it keeps it for milliseconds, while a thread
  /// that sleeps gets it back when it is woken.
  static constexpr Duration kLongYield = milliseconds(2);

  template <typename Found>
  bool yield(const Found& found) {
    Time now = monotonic_now();
    if (yield_budget_.allowance(now) == Duration(0)) return false;
    bool paid = false;
    bool is_long = false;
    for (int i = 0; i < yields_ && !paid && !is_long; ++i) {
      const Time before = now;
      ::sched_yield();
      paid = found();
      now = monotonic_now();
      is_long = now - before >= kLongYield;
    }
    if (is_long) ++long_yields_;
    yield_budget_.report(paid, long_yields_, now);
    return paid;
  }

  const bool spins_;
  SpinWait spin_;
  const int yields_;
  SpinBudget yield_budget_{Duration(1), Duration::max()};
  long long_yields_ = 0;
};

/// The IdleWait of the thread that calls: a thread's experience is worth nothing to the next one.
class CallersIdleWait {
 public:
  CallersIdleWait(Duration spin, int yields) : spin_(spin), yields_(yields) {}

  IdleWait& of_this_thread() {
    const std::thread::id caller = std::this_thread::get_id();
    if (std::exchange(last_caller_, caller) != caller) wait_.emplace(spin_, yields_);
    return *wait_;
  }

 private:
  const Duration spin_;
  const int yields_;
  std::optional<IdleWait> wait_;
  std::thread::id last_caller_;
};

}  // namespace switchml
