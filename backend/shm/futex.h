// Sleeping on a word of shared memory, between processes.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace switchml::shm {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

/// Sleeps while `word` is `expected`, at most `timeout`; may return early.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, Duration timeout) {
  const Duration bounded = std::clamp<Duration>(timeout, Duration(0), std::chrono::hours(1));
  const auto whole = std::chrono::duration_cast<seconds>(bounded);
  const timespec limit{static_cast<time_t>(whole.count()), static_cast<long>((bounded - whole).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

/// Wakes one process that sleeps on `word`.
inline void futex_wake(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace switchml::shm
