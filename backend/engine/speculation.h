// A collective of few elements whose sums are sent at once, beside its call chunk and not after it: with a window of
// exponents around those that its blocks are expected to have. The call chunk brings the true exponents back in the
// same round trip, so every rank sees alike whether they lie in the windows; if so the sums are read, and they are
// those of the usual way in every bit; else the usual way follows, with the exponents that have come.
//
// Free of I/O and state; one instance per collective and shard.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.h"
#include "engine/exponent_window.h"
#include "engine/group_ring.h"
#include "slots/chunk_plan.h"

namespace switchml {

class Speculation {
 public:
  /// Speculated chunks of a shard's part of one collective, at most.
  static constexpr size_t kMaxChunks = 16;

  /// `call_slots`: of the call lane, which carries the speculated chunks behind the call chunk. Keeps references.
  Speculation(const Collective& collective, const ChunkPlan& plan, const SessionParameters& session, int call_slots);

  /// How many chunks it takes; 0: this collective is not speculated. A function of what all ranks agree about.
  size_t chunks() const { return chunks_; }
  /// Chunk c, 0 <= c < chunks(). Blocks may lie in two chunks.
  ElementRange chunk(size_t c) const;

  /// The windows' tops from what a collective at the same place had.
  void predict(const uint8_t* exponents, GroupBuffer* group) const;
  /// Hash of the windows, for the witness: they are equal on all ranks or no sum is accepted.
  uint64_t windows_hash(const GroupBuffer& group) const;
  /// Of a group whose exponents are known: the blocks that are outside of their windows.
  size_t blocks_outside(const GroupBuffer& group) const;

  /// Elements `range` into `words`; returns the number of words.
  size_t encode(ElementRange range, const GroupBuffer& group, uint8_t* words) const;
  /// Writes the sums into the collective's output, as far as output_begin/end ask for it. Precondition: no block is
  /// outside of its window, and the group has no specials.
  void decode(const uint8_t* words, ElementRange range, const GroupBuffer& group) const;

 private:
  void encode_piece(ElementRange range, uint8_t top, uint8_t* first, uint8_t* second) const;

  const Collective& collective_;
  const ChunkPlan& plan_;
  ExponentWindow window_;
  size_t chunk_elements_;
  size_t chunks_;
};

}  // namespace switchml
