// What tells whether ranks contribute to the same call: a keyed hash of all that they must agree about.
#pragma once

#include <cstdint>

#include "base/siphash.h"

namespace switchml {

/// What all contributions to one use of a slot have in common. Equal on all ranks, or they are told.
struct MaskInput {
  uint32_t epoch = 0;
  uint32_t seq = 0;
  uint16_t slot = 0;
  uint8_t op = 0;
  uint8_t type = 0;
  uint8_t stage = 0;            // kind of chunk within its collective
  uint64_t count = 0;           // elements of the whole collective
  uint64_t first = 0;           // first element of the chunk
  uint64_t exponents_hash = 0;  // of the exponents that the chunk was quantized with
};

/// 32 pseudo-random bits under the ranks' secret. Thread-safe. [WIT-11]
uint32_t call_mask(const SipKey& key, const MaskInput& input);

}  // namespace switchml
