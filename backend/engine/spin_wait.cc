#include "engine/spin_wait.h"

#include <sys/resource.h>

namespace switchml {

namespace {
// A call into the kernel each time would cost more than some waits last.
constexpr Duration kCountInterval = milliseconds(1);
}  // namespace

void SpinWait::report(bool paid, Time now) {
  if (now - counted_ >= kCountInterval) {
    counted_ = now;
    rusage usage{};
    if (::getrusage(RUSAGE_THREAD, &usage) == 0) preemptions_ = usage.ru_nivcsw;
  }
  budget_.report(paid, preemptions_, now);
}

}  // namespace switchml
