// Calls as the flight log keeps them.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "c10d/flight_log.h"
#include "c10d/group_core.h"

namespace switchml {

/// From now to `deadline`, rounded up; 0: there is none.
std::chrono::milliseconds time_until(Time deadline);

/// The number of a call that is about to be issued, for FlightLog. `timeout`: 0 is none.
uint64_t log_call(const GroupCore& core, Call call, uint64_t sequence, const std::vector<at::Tensor>& inputs,
                  const std::vector<std::vector<at::Tensor>>& outputs, std::chrono::milliseconds timeout);

/// The other end of a message that is logged as `flight`; nothing where `peer` is not known (negative) yet.
void log_peer(const GroupCore& core, uint64_t flight, Call call, int peer, int tag);

}  // namespace switchml
