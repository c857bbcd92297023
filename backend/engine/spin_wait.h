// Looking around for work before sleeping: the loop and the clock around a SpinBudget. Engine threads wait so for
// packets (shard_thread.h), and ranks of one host for each other (shm/local_rank_thread.h).
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
      const Time before = now;
      now = monotonic_now();
      if (now - before >= kPreempted) ++preemptions_;
    } while (!paid && now - begin < allowance && !stop());
    budget_.report(paid, preemptions_, now);
    return paid;
  }
  /// The sleep after a wait that was not found is over, for what was waited for.
  void slept() { budget_.report_sleep(monotonic_now() - began_); }

 private:
  static constexpr int kLooks = 16;  // between two glances at the clock
  // Another program that has got the processor keeps it for longer; interrupts and threads of the kernel do not.
  static constexpr Duration kPreempted = microseconds(200);
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  SpinBudget budget_;
  const bool possible_;
  Time began_{};  // the last wait
  long preemptions_ = 0;
};

}  // namespace switchml
