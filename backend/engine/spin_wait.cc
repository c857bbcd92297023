#include "engine/spin_wait.h"

#include <sys/resource.h>

#include "base/processors.h"

namespace switchml {

namespace {
// Long enough for a wake-up that is under way, short beside the slices in which a scheduler thinks.
constexpr Duration kSpin = microseconds(50);
// A call into the kernel each time would cost more than some waits last.
constexpr Duration kCountInterval = milliseconds(1);
}  // namespace

Duration spin_time(int threads) { return threads <= concurrent_threads() ? kSpin : Duration(0); }

void SpinWait::report(bool paid, Time now) {
  if (now - counted_ >= kCountInterval) {
    counted_ = now;
    rusage usage{};
    if (::getrusage(RUSAGE_THREAD, &usage) == 0) preemptions_ = usage.ru_nivcsw;
  }
  budget_.report(paid, preemptions_, now);
}

}  // namespace switchml
