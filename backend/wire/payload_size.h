// The sizes that the payload of a session can have.
#pragma once

#include <cstddef>

namespace switchml::wire {

/// `bytes` rounded down to a payload size that is allowed: 256, 512 or a multiple of 1024 up to kMaxPayloadBytes. 0 if
/// even the smallest is larger. Workers ask for such sizes and switches grant them.
size_t allowed_payload(size_t bytes);

}  // namespace switchml::wire
