// Keys and secrets from the system's random source.
#pragma once

#include <sys/random.h>

#include <cstddef>
#include <cstdint>

namespace switchml {

/// Writes `size` unpredictable bytes, up to 256, to `out`. Thread-safe.
inline void random_bytes(uint8_t* out, size_t size) {
  while (getrandom(out, size, 0) != static_cast<ssize_t>(size)) {
  }
}

/// 64 unpredictable bits. Thread-safe.
inline uint64_t random_bits() {
  uint64_t value = 0;
  random_bytes(reinterpret_cast<uint8_t*>(&value), sizeof value);
  return value;
}

}  // namespace switchml
