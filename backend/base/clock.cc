#include "base/clock.h"

#include <ctime>

namespace switchml {

Time monotonic_now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return Time(seconds(ts.tv_sec) + nanoseconds(ts.tv_nsec));
}

}  // namespace switchml
