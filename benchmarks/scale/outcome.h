// What a simulation has found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "event_queue.h"

namespace switchml::scale {

struct Outcome {
  std::vector<Instant> took;  // by job: until its last worker had all of the result
  std::string wrong;          // empty: all results are right, and complete
  uint64_t chunks = 0;        // of results that were compared
  uint64_t retransmissions = 0;
  uint64_t timeouts = 0;
  uint64_t duplicates_answered = 0;  // by switches
  uint64_t handed_over = 0;
  uint64_t slot_bytes = 0;  // of the switch that has most
};

}  // namespace switchml::scale
