#include "shm/core_latency.h"

namespace switchml::shm {

// The clock is read in order with loads: where the C library takes it from a counter of the processor, it says so.
Duration time_to_read(const std::atomic<uint64_t>& word) {
  const Time begin = monotonic_now();
  static_cast<void>(word.load(std::memory_order_acquire));
  return monotonic_now() - begin;
}

}  // namespace switchml::shm
