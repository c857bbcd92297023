// The cost of reading memory that another core has just written. Cores that share a cache do it there; others fetch
// each line from the other's caches, unless it was written past these. The cores of a virtual machine may be either,
// and become the other at any time.
#pragma once

#include <optional>
#include <vector>

namespace switchml::bench {

/// Several measurements each, interleaved, then sorted.
struct HandOver {
  std::vector<double> round_trip_ns;   // A line goes to the other core and back.
  std::vector<double> cached_us;       // 128 KiB are written in the caches, and the other core reads them.
  std::vector<double> past_caches_us;  // The same, written past the caches.
};

/// Measures between the first two processors that this process may use; none: there is only one.
std::optional<HandOver> measure_hand_over();

}  // namespace switchml::bench
