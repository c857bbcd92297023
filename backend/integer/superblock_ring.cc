#include "integer/superblock_ring.h"

#include "base/assert.h"

namespace switchml {

SuperblockRing::SuperblockRing(size_t capacity, size_t max_blocks, size_t max_elements)
    : memory_bytes_(capacity * (max_blocks + max_elements)), buffers_(capacity), finished_(capacity, false) {
  for (Superblock& buffer : buffers_) {
    buffer.exponents.resize(max_blocks);
    buffer.classes = memory_.allocate(max_elements);
  }
}

Superblock* SuperblockRing::take(uint64_t task, size_t superblock, ElementRange range) {
  SWITCHML_ASSERT(!full());
  const size_t index = (first_ + used_) % buffers_.size();
  Superblock* buffer = &buffers_[index];
  buffer->task = task;
  buffer->number = superblock;
  buffer->range = range;
  buffer->ready = false;
  buffer->has_nonfinite = false;
  buffer->nonfinite_sent = 0;
  buffer->nonfinite_done = 0;
  buffer->chunks_done = 0;
  finished_[index] = false;
  ++used_;
  return buffer;
}

Superblock* SuperblockRing::find(uint64_t task, size_t superblock) {
  for (size_t i = 0; i < used_; ++i) {
    Superblock* buffer = &buffers_[(first_ + i) % buffers_.size()];
    if (buffer->task == task && buffer->number == superblock) return buffer;
  }
  return nullptr;
}

void SuperblockRing::finish(Superblock* buffer) {
  finished_[static_cast<size_t>(buffer - buffers_.data())] = true;
  while (used_ > 0 && finished_[first_]) {
    first_ = (first_ + 1) % buffers_.size();
    --used_;
  }
}

}  // namespace switchml
