// Looking around for work before sleeping: the loop, the clock and the system's counts around a SpinBudget. Engine
// threads wait so for packets (shard_thread.h), and ranks of one host for each other (shm/local_rank_thread.h).
#pragma once

#include "base/clock.h"
#include "timer/spin_budget.h"

namespace switchml {

/// How long a wait may busy-poll where each thread that does so has a processor: long enough for a wake-up that is
/// under way, short beside the slices in which a scheduler thinks.
inline constexpr Duration kSpin = SpinBudget::kLeast;

/// Belongs to one thread, which calls every method.
class SpinWait {
 public:
  explicit SpinWait(Duration most) : budget_(most), possible_(most > Duration(0)) {}

  /// Calls found() again and again until it says true, until `stop` does, or the allowance is used up. Whether it was
  /// found: if not, sleep.
  template <typename Found, typename Stop>
  bool operator()(const Found& found, const Stop& stop) {
    if (!possible_) return false;
    const Time begin = began_ = monotonic_now();
    const Duration allowance = budget_.allowance(begin);
    if (allowance == Duration(0)) return false;
    Time now = begin;
    bool paid = false;
    do {
      for (int i = 0; i < kLooks && !paid; ++i) {
        paid = found();
        if (!paid) relax();
      }
      now = monotonic_now();
    } while (!paid && now - begin < allowance && !stop());
    report(paid, now);
    return paid;
  }
  /// The sleep after a wait that was not found is over, for what was waited for.
  void slept() { budget_.report_sleep(monotonic_now() - began_); }

 private:
  static constexpr int kLooks = 16;  // between two glances at the clock
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  void report(bool paid, Time now);

  SpinBudget budget_;
  const bool possible_;
  Time began_{};    // the last wait
  Time counted_{};  // when the system was asked last
  long preemptions_ = 0;
};

}  // namespace switchml
