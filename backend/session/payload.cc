#include "session/payload.h"

#include <algorithm>

#include "base/limits.h"
#include "wire/packet.h"

namespace switchml {

size_t round_payload(size_t bytes) {
  if (bytes >= 1024) return std::min(bytes / 1024 * 1024, kMaxPayloadBytes);
  if (bytes >= 512) return 512;
  return bytes >= kMinPayloadBytes ? kMinPayloadBytes : 0;
}

size_t auto_payload(size_t path_frame_bytes) {
  const size_t room = path_frame_bytes > wire::kHeaderBytes ? path_frame_bytes - wire::kHeaderBytes : 0;
  return std::clamp(round_payload(room), kLeastAutoPayloadBytes, kLoopbackPayloadBytes);
}

}  // namespace switchml
