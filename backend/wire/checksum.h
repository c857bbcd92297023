// Checksums, by XXH3 (the xxHash library). The checksum of an exact packet covers header and elements, keyed with the
// session's key: it finds damaged packets and those made without the key. That of a control message finds damage only.
// Neither is a signature.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/layout.h"

namespace switchml::wire {

/// The rule for the checksums of a session's packets.
struct ChecksumRule {
  uint64_t session_key = 0;
  /// Whether elements are covered too. Else the rule covers headers and targets: over RDMA cards check elements, over
  /// sealed links tags do. [RDMA-5, SEAL-19]
  bool covers_elements = true;
};

/// Writes the header with its checksum in front of `bytes` bytes of target or elements, which must be there already as
/// far as the rule covers them. `elements`: where these lie, if they are not in the frame.
void seal_exact(ExactHeader header, ChecksumRule rule, uint8_t* frame, size_t bytes, const uint8_t* elements = nullptr);
/// Whether the checksum holds of a frame that parse_exact() takes. The repeat flag is not covered.
bool exact_intact(const uint8_t* frame, size_t size, ChecksumRule rule);

/// Writes the checksum of a control message behind its `size` bytes, and returns the size with it. [CTL-8]
size_t seal_control(uint8_t* frame, size_t size);
/// Whether the checksum at the end of a control message of at least kControlCheckBytes holds.
bool control_intact(const uint8_t* frame, size_t size);

}  // namespace switchml::wire
