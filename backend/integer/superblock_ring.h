// Exponents of the superblocks between their call chunk and their last data chunk. A fixed ring: superblocks are taken
// and given back in the order of the stream, so it bounds both memory and how far exponents run ahead of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "integer/width.h"
#include "slots/chunk_plan.h"
#include "transport/frame_memory.h"

namespace switchml {

struct Superblock {
  uint64_t task = 0;   // Serial number of the collective.
  size_t number = 0;   // Number in the collective.
  ElementRange range;  // Elements of the collective.
  bool ready = false;  // Exponents are known.
  bool has_nonfinite = false;
  std::vector<uint8_t> exponents;  // One per block: BlockExponents::largest.
  std::vector<Width> widths;       // One per block.
  uint8_t* classes = nullptr;      // A Nonfinite per element, used where has_nonfinite; the ring's memory.
  size_t place = 0;                // Of the classes: how many elements the ring's memory has had before.
  size_t nonfinite_sent = 0;       // Chunks.
  size_t nonfinite_done = 0;
  size_t sent = 0;  // Elements, in chunks of data.
  size_t done = 0;
};

class SuperblockRing {
 public:
  /// Buffers for `capacity` superblocks of up to max_blocks blocks each, and of `elements` elements together.
  SuperblockRing(size_t capacity, size_t max_blocks, size_t elements);

  /// Whether there is room for a superblock of so many elements, at most as many as the ring has.
  bool has_room(size_t count) const;
  /// Allocates the next buffer. Precondition: has_room(range.count). Those of a task follow one another.
  Superblock* take(uint64_t task, size_t superblock, ElementRange range);
  Superblock* find(uint64_t task, size_t superblock);
  /// The superblock's last chunk is done. Buffers become free again in order.
  void finish(Superblock* buffer);
  size_t memory_bytes() const { return memory_bytes_; }

 private:
  size_t place_of(size_t count) const;
  Superblock* at(size_t i) { return &buffers_[(first_ + i) % buffers_.size()]; }

  FrameMemory memory_;  // Of the classes, which few superblocks need: untouched pages cost nothing.
  size_t memory_bytes_;
  size_t elements_;
  uint8_t* classes_;
  std::vector<Superblock> buffers_;
  std::vector<bool> finished_;
  size_t first_ = 0;
  size_t used_ = 0;
  size_t next_place_ = 0;
};

}  // namespace switchml
