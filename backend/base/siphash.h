// SipHash-2-4, the keyed pseudo-random function of Aumasson and Bernstein (2012), 64-bit output.
#pragma once

#include <cstddef>
#include <cstdint>

namespace switchml {

/// A 128-bit secret: the 16 key bytes read as two little-endian words.
struct SipKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

/// The hash of `size` bytes of any alignment. About 1 ns a byte. Thread-safe.
uint64_t siphash24(const SipKey& key, const void* data, size_t size);

}  // namespace switchml
