#include "base/payload_size.h"

#include <algorithm>

#include "base/parse.h"

namespace switchml {

size_t allowed_payload(size_t bytes) {  // [PKT-14]
  if (bytes >= 2048) return std::min(bytes / 1024 * 1024, kMaxPayloadBytes);
  if (bytes >= 1024) return bytes / 128 * 128;
  if (bytes >= 512) return 512;
  return bytes >= kMinPayloadBytes ? kMinPayloadBytes : 0;
}

std::optional<size_t> parse_payload_size(const std::string& text) {
  const auto value = parse_integer(text, static_cast<long>(kMinPayloadBytes), static_cast<long>(kMaxPayloadBytes));
  if (!value || !is_allowed_payload(static_cast<size_t>(*value))) return std::nullopt;
  return static_cast<size_t>(*value);
}

std::string allowed_payloads(size_t most) {
  return "256, 512, a multiple of 128 from 1024 to 2048, or of 1024 up to " + std::to_string(most);
}

}  // namespace switchml
