// The checksum of a native packet: XXH3 (the xxHash library) of header and elements, under the session's key. It tells
// damaged packets, and those of who does not have the key; it is no signature.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/layout.h"

namespace switchml::wire {

/// Writes the header with its checksum in front of `bytes` bytes of elements that are there already.
void seal_native(NativeHeader header, uint64_t session_key, uint8_t* frame, size_t bytes);
/// Whether the checksum of a whole frame holds. Whether it is a retransmission is not covered. Precondition: `size` is
/// at least that of the header.
bool native_intact(const uint8_t* frame, size_t size, uint64_t session_key);

}  // namespace switchml::wire
