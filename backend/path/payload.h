// How many bytes of payload to ask a switch for.
#pragma once

#include <cstddef>

namespace switchml {

/// What "auto" means on a path with `path_frame_bytes` as its largest worthwhile frame (the least over all ranks): what
/// fits it, so that no packet is cut up, at least kMinPayloadBytes; at most kLoopbackPayloadBytes, which only a path
/// within a host carries. With Ethernet's 1500 bytes that is 1408.
size_t auto_payload(size_t path_frame_bytes);
/// Over TCP chunks of a smaller tensor are smaller (Shares::chunk_bytes), as long as a chunk's own cost is small beside
/// its elements'.
inline constexpr size_t kLeastTcpChunk = 4096;  // [NCHUNK-1]

}  // namespace switchml
