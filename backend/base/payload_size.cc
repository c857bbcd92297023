#include "base/payload_size.h"

#include <algorithm>

#include "base/limits.h"

namespace switchml {

size_t allowed_payload(size_t bytes) {
  if (bytes >= 2048) return std::min(bytes / 1024 * 1024, kMaxPayloadBytes);
  if (bytes >= 1024) return bytes / 128 * 128;
  if (bytes >= 512) return 512;
  return bytes >= kMinPayloadBytes ? kMinPayloadBytes : 0;
}

}  // namespace switchml
