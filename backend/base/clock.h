// Typed time. The clock is read through monotonic_now() alone. State machines (PURE in tests/check_layers.py) never
// read it: they take time as an argument of these types, and a simulator hands in a virtual one.
#pragma once

#include <chrono>

namespace switchml {

using Duration = std::chrono::nanoseconds;
/// Tag of the time line; it has no now() on purpose.
struct Timeline {
  using duration = Duration;
  using rep = Duration::rep;
  using period = Duration::period;
  static constexpr bool is_steady = true;
};
using Time = std::chrono::time_point<Timeline, Duration>;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

inline constexpr Time kNever = Time::max();

/// CLOCK_MONOTONIC. Thread-safe.
Time monotonic_now();
/// monotonic_now(), or the clock of a test.
using Clock = Time (*)();

/// Seconds as a floating-point number, for messages and statistics.
inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace switchml
