// How long a line that another core has written last takes to come.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace switchml::shm {

/// Reads `word` once; how long that took, two glances at the clock included (20 to 40 ns together where they are no
/// system calls). Thread-safe.
Duration time_to_read(const std::atomic<uint64_t>& word);

}  // namespace switchml::shm
