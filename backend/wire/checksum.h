// The checksum of a native packet: XXH3 (the xxHash library) of header and elements, under the session's key. It tells
// damaged packets, and those of who does not have the key; it is no signature.
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
void seal_native(NativeHeader header, ChecksumRule rule, uint8_t* frame, size_t bytes);
/// Whether the checksum of a frame holds that parse_native() takes. Whether it is a retransmission is not covered.
bool native_intact(const uint8_t* frame, size_t size, ChecksumRule rule);

}  // namespace switchml::wire
