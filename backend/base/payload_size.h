// Which sizes of payload there are.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits.h"

namespace switchml {

/// `bytes` rounded down to a payload size that is allowed: 256, 512, a multiple of 128 from 1024 to 2048 (so that 1408
/// of Ethernet's 1500 bytes are used, and as much as can be of a tunnel's), or a multiple of 1024 up to
/// kMaxPayloadBytes. 0 if there is none.
size_t allowed_payload(size_t bytes);
/// Whether it is one of them.
inline bool is_allowed_payload(size_t bytes) { return bytes != 0 && allowed_payload(bytes) == bytes; }
/// One of them, in digits.
std::optional<size_t> parse_payload_size(const std::string& text);

/// For messages, where `most` is the largest.
std::string allowed_payloads(size_t most = kMaxPayloadBytes);

}  // namespace switchml
