// How ranks of one host come to share memory: the first of them makes a segment and hands it out, the others fetch it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "shm/board.h"
#include "shm/segment_server.h"
#include "store/blob.h"

namespace switchml {

/// Whether ranks on one host are to reduce in memory, by their settings. Precondition: a valid configuration.
bool wants_memory(const Config& config, bool one_host);
/// Why transport=shm cannot be had by ranks with these host identities; ok if it can.
Status check_hosts(const Config& config, const std::vector<std::string>& hosts);

/// What the first rank holds until all have fetched it.
struct MemoryOffer {
  std::shared_ptr<shm::Segment> segment;
  std::unique_ptr<shm::SegmentServer> segment_server;
};
/// Bytes in which each of so many ranks of this host may allocate tensors, by its setting and the machine's memory; 0:
/// none can be had.
size_t arena_bytes(const Config& config, int ranks);
/// Makes the segment for such a board, and for tensors, and hands it out to processes that know what is written to
/// `blob`.
Result<MemoryOffer> offer_memory(const shm::BoardShape& shape, size_t arena_bytes, Blob* blob);
/// Fetches what the blob says; null where it speaks of no memory.
Result<std::shared_ptr<shm::Segment>> fetch_memory(const Blob& blob, const shm::BoardShape& shape, Time deadline);

}  // namespace switchml
