// One rank's tensors as the chunks of a board: how a call is cut up, what the rank says of each chunk, what goes into
// its frame, and what it takes of a result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "shm/arena.h"
#include "shm/board.h"
#include "shm/host_map.h"
#include "shm/store_choice.h"
#include "slots/chunk_plan.h"

namespace switchml::shm {

/// Where a tensor is in the segment, for all ranks, and how far it is from one piece to the next; 0: elsewhere.
struct ArenaRange {
  uint64_t at = 0;
  uint64_t stride = 0;
};

/// A collective, cut up.
struct ChunkedCall {
  Collective collective;
  bool is_announcement = false;  // it has one chunk, without elements
  uint64_t agreed = 0;
  size_t elements_per_chunk = 0;
  size_t chunks = 0;         // one or more
  bool keeps_input = false;  // when it was offered, no earlier call was under way that could change its input
  ArenaRange from;           // its input
  ArenaRange to;             // its result

  ElementRange chunk(size_t index) const {
    const size_t begin = index * elements_per_chunk;
    if (is_announcement) return {begin, 0};  // [HOST-6]
    return {begin, std::min(elements_per_chunk, collective.count - begin)};
  }
};

class TensorChunks {
 public:
  /// `board` and `host_map` outlive it. The others: of the session with other hosts, where there are any.
  TensorChunks(const Board& board, int rank, const HostMap& host_map, size_t payload_bytes, bool exact,
               size_t partial_sum_ranks)
      : board_(board),
        rank_(rank),
        host_map_(host_map),
        payload_bytes_(payload_bytes),
        exact_(exact),
        partial_sum_ranks_(partial_sum_ranks) {}
  /// Tensors that lie there are read and written by other ranks in place. Outlives it.
  void share_tensors(Arena& arena) { arena_ = &arena; }

  /// Cuts up `call->collective`.
  void plan(ChunkedCall* call) const;
  /// What this rank says of a chunk.
  ChunkCall describe(const ChunkedCall& call, ElementRange chunk) const;
  /// Copies what other ranks may read of this one's part of a chunk, of which it says `said`, into its frame; `clock`
  /// tells how long that takes.
  void fill(const ChunkedCall& call, ElementRange chunk, const ChunkCall& said, uint8_t* frame, Clock clock);
  /// Makes what the verdict on a ready chunk asks of this rank.
  void make(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const;
  /// Copies what the caller wants of a published chunk, or makes it. Returns the bytes of a sum in place.
  size_t take(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const;
  /// Voids those of chunks [first, end) that this rank has offered and that are not published: other ranks must not go
  /// on with what this one's caller may change now, nor change it later. `why`: what the board is told.
  void withdraw(uint64_t first, uint64_t end, const Status& why) const;

 private:
  ArenaRange arena_range(const std::vector<const void*>& pieces, size_t bytes) const;
  ArenaRange range_of_input(const Collective& collective) const;
  ArenaRange range_of_result(const Collective& collective) const;
  size_t elements_per_chunk(const Collective& collective) const;
  bool is_root(const Collective& collective) const;
  size_t pieces_of(const ChunkCall& call) const;
  const uint8_t* own_input(const ChunkedCall& call, ElementRange chunk) const;
  uint8_t* own_result(const ChunkedCall& call, ElementRange chunk) const;
  size_t copy_input(const ChunkedCall& call, ElementRange chunk, const ChunkCall& said, uint8_t* frame) const;
  void make_own(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const;
  void take_result(const ChunkedCall& call, ElementRange chunk, uint64_t seq) const;

  const Board& board_;
  const int rank_;
  const HostMap& host_map_;
  const size_t payload_bytes_;
  const bool exact_;
  const size_t partial_sum_ranks_;
  Arena* arena_ = nullptr;
  StoreChoice stores_;
};

}  // namespace switchml::shm
