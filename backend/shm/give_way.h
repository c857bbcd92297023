// Giving way to other threads before a sleep, where ranks share processors: the one that is waited for may be next.
#pragma once

#include <sched.h>

#include "base/clock.h"
#include "engine/spin_wait.h"

namespace switchml::shm {

/// Of one thread.
class GiveWay {
 public:
  /// `yields`: in a row, as long as that pays.
  explicit GiveWay(int yields) : yields_(yields) {}

  /// Whether `work` says, once others have had the processor, that there is some.
  template <typename Work>
  bool operator()(const Work& work) {
    Time now = monotonic_now();
    if (budget_.allowance(now) == Duration(0)) return false;
    bool paid = false;
    bool is_long = false;
    for (int i = 0; i < yields_ && !paid && !is_long; ++i) {
      const Time before = now;
      ::sched_yield();
      paid = work();
      now = monotonic_now();
      is_long = now - before >= kLongYield;
    }
    if (is_long) ++long_yields_;
    budget_.report(paid, long_yields_, now);
    return paid;
  }

 private:
  /// What no rank does at a time: somebody else has had the processor, and keeps it for milliseconds where it is given
  /// to him. Who sleeps gets it back when he is woken.
  static constexpr Duration kLongYield = milliseconds(2);

  int yields_;
  SpinBudget budget_{Duration(1), Duration::max()};
  long long_yields_ = 0;
};

}  // namespace switchml::shm
