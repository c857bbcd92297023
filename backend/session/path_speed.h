// How many chunks must be under way to keep the path from this rank to the switch and back full, so that a session can
// have as many slots. Round trips are timed with packets without words, one at a time, then a train of whole chunks:
// what it takes longer than one round trip is what its chunks take one after the other, on whichever link, in whichever
// processor or at whichever rank is slowest. So where processors are the limit, more slots are not asked for.
//
// The packets are uses of slots that are numbered before the first of the stream, as those of path_check.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "transport/transport.h"

namespace switchml {

/// All ranks call it, behind check_path() with the same transports, if that has found that the payload passes. Chunks
/// of the session's payload; 0: not known, because of losses, or of slots that are too few to tell. kUnavailable if
/// nothing comes back until `deadline`.
Result<size_t> chunks_on_path(Transport& transport, const SessionParameters& session, Time deadline);

/// The same from times. `train` chunks took `time` to come back, from when the first was sent; precondition: train > 0,
/// round_trip > 0. At most kMostChunksOnPath.
size_t chunks_on_path(Duration round_trip, Duration time, size_t train);
inline constexpr size_t kMostChunksOnPath = 1 << 16;

/// The slots that a session like `granted` needs so that as many chunks of long tensors are under way, with a fourth in
/// reserve, and `granted.slots` at least. At most as many as hold kMostPoolBytes, and as many results as a socket can
/// queue whose receive buffer has `queue_bytes` (or are granted already).
int slots_for(size_t chunks, uint64_t queue_bytes, const SessionParameters& granted);
inline constexpr size_t kMostPoolBytes = 1 << 20;

}  // namespace switchml
