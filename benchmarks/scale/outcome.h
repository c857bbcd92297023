// The results of a simulation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "event_queue.h"

namespace switchml::scale {

struct Outcome {
  std::vector<Instant> took;  // Job -> time until its last worker had all of the result.
  std::string wrong;          // Empty: all results are right, and complete.
  uint64_t chunks = 0;        // Compared chunks of results.
  uint64_t retransmissions = 0;
  uint64_t timeouts = 0;
  uint64_t duplicates_answered = 0;  // The switches' counter.
  uint64_t handed_over = 0;
  uint64_t slot_bytes = 0;  // Largest slot memory of a switch.
};

}  // namespace switchml::scale
