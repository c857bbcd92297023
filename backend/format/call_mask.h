// The call mask: a keyed hash of all that ranks must agree about, to find out whether they contribute to the same call.
#pragma once

#include <cstdint>

#include "base/siphash.h"

namespace switchml {

/// The common properties of all contributions to one use of a slot. Ranks that differ in any get an error.
struct MaskInput {
  uint32_t epoch = 0;
  uint32_t seq = 0;
  uint16_t slot = 0;
  uint8_t op = 0;
  uint8_t type = 0;
  uint8_t stage = 0;            // Kind of chunk within its collective.
  uint64_t count = 0;           // Elements of the whole collective.
  uint64_t first = 0;           // First element of the chunk.
  uint64_t exponents_hash = 0;  // Hash of the exponents with which the chunk was quantized.
};

/// 32 pseudo-random bits under the ranks' secret. Thread-safe. [WIT-11]
uint32_t call_mask(const SipKey& key, const MaskInput& input);

}  // namespace switchml
