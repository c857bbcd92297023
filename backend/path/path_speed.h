// How fast the paths between this rank and its switches are: how many chunks must be under way to keep the path to a
// switch and back full, so that a session can have as many slots, and which rate this host's link carries while all
// ranks send. Round trips are timed with packets without words, one at a time, then a train of whole chunks: what it
// takes longer than one round trip is what its chunks take one after the other, on whichever link, in whichever
// processor or at whichever rank is slowest. So where processors are the limit, more slots are not asked for.
//
// The packets are uses of slots that are numbered before the first of the stream, as those of path_check.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "transport/transport.h"

namespace switchml {

/// A session, joined as shard 0.
struct TimedLink {
  Transport* transport = nullptr;
  const SessionParameters* session = nullptr;
  bool on_this_host = false;  // its switch
};
struct PathSpeed {
  /// Chunks of the session's payload; 0: not known, because of losses, of slots that are too few to tell, or of several
  /// switches.
  size_t chunks = 0;
  /// Mbit/s, each way; 0: not known, because of losses or of slots that are too few.
  double rate = 0;
};
/// All ranks call it, behind check_path() with the same links, if that has found that the payload passes. Sessions are
/// alike, and their transports belong to one thread. kUnavailable if nothing comes back until `deadline`.
Result<PathSpeed> measure_paths(const std::vector<TimedLink>& links, Time deadline);

/// Chunks on a path, from times. `train` of them took `time` to come back, from when the first was sent; precondition:
/// train > 0, round_trip > 0. At most kMostChunksOnPath.
size_t chunks_on_path(Duration round_trip, Duration time, size_t train);
inline constexpr size_t kMostChunksOnPath = 1 << 16;

/// The slots that a session like `granted` needs so that as many chunks of long tensors are under way, with a fourth in
/// reserve, and `granted.slots` at least. At most as many as hold kMostPoolBytes, and as many results as a
/// receive buffer of `queue_bytes` can queue (or are granted already).
int slots_for(size_t chunks, uint64_t queue_bytes, const SessionParameters& granted);
inline constexpr size_t kMostPoolBytes = 1 << 20;  // [RATE-5]

}  // namespace switchml
