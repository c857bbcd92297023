// Exponents of the groups between their call chunk and their last data chunk. A fixed ring: groups are taken and given
// back in the order of the stream, so it bounds both memory and how far exponents run ahead of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "slots/chunk_plan.h"
#include "transport/frame_memory.h"

namespace switchml {

struct GroupBuffer {
  uint64_t task = 0;   // serial number of the collective
  size_t group = 0;    // group of that collective
  ElementRange range;  // of the group
  bool ready = false;  // exponents are known
  bool has_specials = false;
  std::vector<uint8_t> exponents;  // one per block
  uint8_t* specials = nullptr;     // the ring's; a quant::Special per element of the group, used where has_specials
  size_t specials_sent = 0;        // chunks
  size_t specials_done = 0;
  size_t chunks_done = 0;
};

class GroupRing {
 public:
  /// Buffers for `capacity` groups of up to max_blocks blocks and max_elements elements.
  GroupRing(size_t capacity, size_t max_blocks, size_t max_elements);

  bool full() const { return used_ == buffers_.size(); }
  /// Takes the next buffer. Precondition: !full().
  GroupBuffer* take(uint64_t task, size_t group, ElementRange range);
  /// The buffer of (collective, group), or null.
  GroupBuffer* find(uint64_t task, size_t group);
  /// The group's last chunk is done. Buffers become free again in order.
  void finish(GroupBuffer* buffer);
  size_t memory_bytes() const { return memory_bytes_; }

 private:
  FrameMemory memory_;  // few groups have specials: what no group needs is not touched
  size_t memory_bytes_;
  std::vector<GroupBuffer> buffers_;
  std::vector<bool> finished_;
  size_t first_ = 0;
  size_t used_ = 0;
};

}  // namespace switchml
