// The allowed sizes of payload.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/limits.h"

namespace switchml {

/// `bytes` rounded down to a payload size that is allowed: 256, 512, a multiple of 128 from 1024 to 2048 (for 1408 of
/// Ethernet's 1500 bytes, and the most of a tunnel's), or a multiple of 1024 up to kMaxPayloadBytes. 0 if there is
/// none.
size_t allowed_payload(size_t bytes);
inline bool is_allowed_payload(size_t bytes) { return bytes != 0 && allowed_payload(bytes) == bytes; }
/// An allowed payload size, in digits.
std::optional<size_t> parse_payload_size(const std::string& text);

/// The allowed sizes up to `most`, for messages.
std::string allowed_payloads(size_t most = kMaxPayloadBytes);

}  // namespace switchml
