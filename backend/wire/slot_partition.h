// How the slots of all jobs are divided among the threads of a switch. The kernel computes the same from a packet's
// header (transport/udp_steering.h), so that a packet arrives where its slot is at home.
//
// Neighbouring slots stay together: workers send runs of them in one piece (GSO), which the kernel hands to one socket
// as a whole. Jobs begin at different threads, so that many small ones spread.
#pragma once

#include <cstdint>

namespace switchml::wire {

inline constexpr int kPartitionSlotsShift = 3;

/// 0 to partitions-1. Precondition: partitions > 0.
inline int slot_partition(uint8_t job, uint16_t slot, int partitions) {
  return static_cast<int>((static_cast<unsigned>(slot >> kPartitionSlotsShift) + job) %
                          static_cast<unsigned>(partitions));
}

}  // namespace switchml::wire
