// How many bytes of payload to ask a switch for.
#pragma once

#include <cstddef>

namespace switchml {

/// `bytes` rounded down to 256, 512 or a multiple of 1024 up to kMaxPayloadBytes; 0 if too small.
size_t round_payload(size_t bytes);

/// What "auto" means on a path whose largest worthwhile frame is `path_frame_bytes` (the least over all ranks): what
/// fits it, at least kLeastAutoPayloadBytes; at most kLoopbackPayloadBytes, which only a path within a host carries.
size_t auto_payload(size_t path_frame_bytes);

}  // namespace switchml
