// Checksums, by XXH3 (the xxHash library). That of an exact packet goes over header and elements, under the session's
// key: it tells damaged packets, and those that come without the key. That of a control message tells damage alone.
// Both are no signatures.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/layout.h"

namespace switchml::wire {

/// What the packets of a session are checked by.
struct ChecksumRule {
  uint64_t session_key = 0;
  /// Whether elements are covered too. Over RDMA cards check them: only headers and targets are. [RDMA-5]
  bool covers_elements = true;
};

/// Writes the header with its checksum in front of `bytes` bytes of target or elements. What the rule covers of them is
/// there already.
void seal_exact(ExactHeader header, ChecksumRule rule, uint8_t* frame, size_t bytes);
/// Whether the checksum of a frame holds that parse_exact() takes. Whether it is a retransmission is not covered.
bool exact_intact(const uint8_t* frame, size_t size, ChecksumRule rule);

/// Writes the checksum of a control message behind its `size` bytes, and returns its size with that. [CTL-8]
size_t seal_control(uint8_t* frame, size_t size);
/// Whether the checksum at the end of a control message of at least kControlCheckBytes holds.
bool control_intact(const uint8_t* frame, size_t size);

}  // namespace switchml::wire
