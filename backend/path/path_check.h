// Which payload the way from this rank to the switch and back carries in whole packets. The route's MTU, which a host
// knows, is that of its first hop; a tunnel or a switch further on may carry less and say nothing.
//
// Every rank contributes to one use of some slots at a time, numbered before the first of the stream (kPathCheckSeq),
// in packets of different lengths that must not be cut up. The results that come back tell what the whole way carries,
// for all ranks' contributions, between the switches of a tree, and down again. Nothing new for a switch.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "format/format.h"
#include "transport/transport.h"

namespace switchml {

/// Older than every number of the stream, which begins at 1 (docs/protocol.md, Checking the path).
inline constexpr uint32_t kPathCheckSeq = 0xfffffffe;  // [PATH-1]

/// The payloads to try, in bytes, largest first: `payload`, then smaller ones that are allowed, fewer than `slots`, of
/// which one is left for a packet without words. Of a switch that wants whole chunks `payload` alone.
std::vector<size_t> path_check_sizes(size_t payload, int slots, bool whole_chunks);

/// The packets that take such uses of a session's slots.
class PathProbe {
 public:
  /// Borrows the session.
  explicit PathProbe(const SessionParameters& session);
  PathProbe(const PathProbe&) = delete;
  PathProbe& operator=(const PathProbe&) = delete;

  /// Zeros, witness 0. Payload in bytes.
  std::vector<uint8_t> frame(size_t slot, size_t payload) const;
  /// The slot of a frame that is such a result; -1: it is none.
  int slot_of(const RxFrame& frame) const;

 private:
  WorkerCounters counters_;  // They count nothing: these uses are no collective's.
  const std::unique_ptr<Format> format_;
};
/// The slots that check_path() uses, from the first of the session on.
size_t path_check_slots(const SessionParameters& session);

/// All ranks call it, after all have joined, each with the transport of its shard 0, which loses what it receives
/// meanwhile. Returns the largest of path_check_sizes() that came back whole to this rank; less than the
/// session's payload only if that was sent many times in vain while smaller ones passed. Within a few round trips where
/// the payload passes, else about 10 of them and 350 ms. kUnavailable if nothing comes back until `deadline`, or only
/// packets without words do.
Result<size_t> check_path(Transport& transport, const SessionParameters& session, Time deadline);

}  // namespace switchml
