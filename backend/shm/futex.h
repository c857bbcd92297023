// Sleeping on a word of shared memory, between processes.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace switchml::shm {

/// Sleeps while `word` is `expected`, at most `timeout`; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout);
/// Wakes one process that sleeps on `word`.
void futex_wake(const std::atomic<uint32_t>& word);

}  // namespace switchml::shm
