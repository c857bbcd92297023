// What a packet says of slots, be it with integers or with elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "wire/packet.h"

namespace switchml::sim {

struct SlotFrame {
  bool exact = false;
  bool result = false;  // False: a contribution.
  uint8_t flags = 0;
  uint8_t job = 0;
  uint8_t worker = 0;
  uint32_t epoch = 0;
  uint16_t slot = 0;
  uint32_t seq = 0;
  // ---- exact: common fields of all contributions to a use ----
  uint32_t call = 0;
  uint32_t kind = 0;  // Type, operation and divisor.
  size_t bytes = 0;   // Bytes that the elements take behind the header, those of the result of partial sums.
};

/// None if it is no well-formed contribution or result.
std::optional<SlotFrame> slot_frame(const uint8_t* frame, size_t size);

/// The hash of the frame without the fields that differ between transmissions or, as its session, after a move.
uint64_t hash_of_contents(const uint8_t* frame, size_t size, const SlotFrame& seen);

}  // namespace switchml::sim
