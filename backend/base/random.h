// Keys and secrets from the system's random source.
#pragma once

#include <sys/random.h>

#include <cstdint>

namespace switchml {

/// 64 unpredictable bits. Thread-safe.
inline uint64_t random_bits() {
  uint64_t value = 0;
  while (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

}  // namespace switchml
