// A hashed timer wheel over a fixed set of timers, numbered 0..count-1. Arming, re-arming and cancelling take constant
// time and allocate nothing; expiry costs one step per tick passed and one per timer in a passed bucket. Time is an
// argument. A timer fires at its deadline or up to one tick later, never before; a timer further away than one turn of
// the wheel waits in its bucket for its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace switchml {

class TimerWheel {
 public:
  /// `count` timers, buckets of `tick` each; `now` is where the wheel begins. buckets: a power of two.
  TimerWheel(int count, Duration tick, int buckets, Time now);

  /// Arms timer `id`, or moves it if it is armed. A deadline in the past fires at the next sweep.
  void arm(int id, Time deadline);
  void cancel(int id);
  bool armed(int id) const { return timers_[static_cast<size_t>(id)].bucket >= 0; }

  /// Calls fire(int id) for each timer with a deadline not after `now`. Timers are disarmed before they fire and may
  /// be armed again inside the call. Time never goes backwards: an earlier `now` than before does nothing.
  template <typename F>
  void sweep(Time now, F&& fire) {
    due_.clear();
    collect(now);
    for (const int id : due_) {
      if (timers_[static_cast<size_t>(id)].bucket != kDue) continue;  // cancelled or armed anew by an earlier fire()
      timers_[static_cast<size_t>(id)].bucket = kIdle;
      fire(id);
    }
  }

  /// A time before which nothing fires: the start of the first bucket in use, kNever if no timer is armed.
  Time next_deadline() const;

 private:
  static constexpr int kIdle = -1;
  static constexpr int kDue = -2;
  struct Timer {
    Time deadline{};
    int previous = -1;
    int next = -1;
    int bucket = kIdle;
  };

  int64_t tick_of(Time t) const { return t.time_since_epoch().count() / tick_.count(); }
  void link(int id, int64_t tick);
  void unlink(int id);
  void collect(Time now);
  void collect_bucket(int bucket, Time now);

  Duration tick_;
  int mask_;
  int64_t current_;  // ticks before this one have been swept
  int armed_ = 0;
  std::vector<int> heads_;
  std::vector<Timer> timers_;
  std::vector<int> due_;
};

}  // namespace switchml
