#include "path/payload.h"

#include <algorithm>

#include "base/limits.h"
#include "base/payload_size.h"
#include "wire/layout.h"

namespace switchml {

size_t auto_payload(size_t path_frame_bytes) {
  const size_t room = path_frame_bytes > wire::kExactHeaderBytes ? path_frame_bytes - wire::kExactHeaderBytes : 0;
  return std::clamp(allowed_payload(room), kMinPayloadBytes, kLoopbackPayloadBytes);
}

}  // namespace switchml
