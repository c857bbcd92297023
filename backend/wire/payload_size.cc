#include "wire/payload_size.h"

#include <algorithm>

#include "base/limits.h"

namespace switchml::wire {

size_t allowed_payload(size_t bytes) {
  if (bytes >= 1024) return std::min(bytes / 1024 * 1024, kMaxPayloadBytes);
  if (bytes >= 512) return 512;
  return bytes >= kMinPayloadBytes ? kMinPayloadBytes : 0;
}

}  // namespace switchml::wire
