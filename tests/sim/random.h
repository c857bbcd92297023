// The only source of chance in a simulation: one generator, the same numbers on every machine and compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace switchml::sim {

/// Mixes 64 bits so that each of them depends on all (the finisher of SplitMix64).
inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// A hash of bytes, eight at a time: tells frames apart, and traces.
inline uint64_t hash_bytes(const uint8_t* bytes, size_t size, uint64_t hash = 0) {
  hash += size;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, bytes, size);
  return mix(hash ^ rest);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed + 0x1234567)) {}

  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15U); }
  /// 0 to n-1. Precondition: n > 0.
  uint64_t below(uint64_t n) { return next() % n; }
  /// Both ends included.
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<uint64_t>(high - low) + 1)); }
  bool chance(double probability) {
    return probability > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }
  template <typename T, size_t n>
  const T& pick(const T (&choices)[n]) {
    return choices[below(n)];
  }

 private:
  uint64_t state_;
};

}  // namespace switchml::sim
