// What it costs that one core reads what another has just written. Cores that share a cache do it there; others fetch
// each line from the other's caches, unless it was written past these. The cores of a virtual machine may be either,
// and become the other at any time.
#pragma once

#include <optional>
#include <vector>

namespace switchml::bench {

/// Several measurements of each, interleaved, then sorted.
struct HandOver {
  std::vector<double> round_trip_ns;   // of a line, to the other core and back
  std::vector<double> cached_us;       // to write 128 KiB in the caches, and for the other core to read it
  std::vector<double> past_caches_us;  // the same where it is written past them
};

/// Between the first two processors that this process may use; nothing where there is only one.
std::optional<HandOver> measure_hand_over();

}  // namespace switchml::bench
