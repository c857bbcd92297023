#include "timer/spin_budget.h"

#include <algorithm>

namespace switchml {

void SpinBudget::report(bool paid, long preemptions, Time now) {
  const bool preempted = preemptions_ >= 0 && preemptions > preemptions_;
  preemptions_ = preemptions;
  ++waits_;
  if (paid) ++paid_;
  if (preempted) {
    const bool again = now - preempted_ < apart_;
    preempted_ = now;
    if (again) return pause(now);
  }
  if (waits_ < kTrial) return;
  if (4 * paid_ < kTrial) return pause(now);
  pause_ = kFirstPause;
  waits_ = paid_ = 0;
}

void SpinBudget::report_sleep(Duration waited) {
  length_ = waited <= most_ ? std::max(length_, std::min(most_, waited + waited / 2)) : std::min(most_, kLeast);
}

void SpinBudget::pause(Time now) {
  resumes_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  waits_ = paid_ = 0;
  preemptions_ =
      -1;  // preemptions meanwhile say nothing: a thread that wakes others and sleeps loses the processor to them
}

}  // namespace switchml
