// Waiting for what other threads and processes do.
#pragma once

#include <unistd.h>

#include <functional>

#include "base/clock.h"

namespace switchml {

/// True as soon as the condition holds, false after 10 s.
inline bool eventually(const std::function<bool()>& condition) {
  const Time end = monotonic_now() + seconds(60);
  while (!condition()) {
    if (monotonic_now() > end) return false;
    usleep(5000);
  }
  return true;
}

}  // namespace switchml
