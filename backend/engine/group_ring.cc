#include "engine/group_ring.h"

#include "base/assert.h"

namespace switchml {

GroupRing::GroupRing(size_t capacity, size_t max_blocks, size_t max_elements)
    : memory_bytes_(capacity * (max_blocks + max_elements)), buffers_(capacity), finished_(capacity, false) {
  for (GroupBuffer& buffer : buffers_) {
    buffer.exponents.resize(max_blocks);
    buffer.specials = memory_.allocate(max_elements);
  }
}

GroupBuffer* GroupRing::take(uint64_t task, size_t group, ElementRange range) {
  SWITCHML_ASSERT(!full());
  const size_t index = (first_ + used_) % buffers_.size();
  GroupBuffer* buffer = &buffers_[index];
  buffer->task = task;
  buffer->group = group;
  buffer->range = range;
  buffer->ready = false;
  buffer->has_specials = false;
  buffer->specials_sent = 0;
  buffer->specials_done = 0;
  buffer->chunks_done = 0;
  finished_[index] = false;
  ++used_;
  return buffer;
}

GroupBuffer* GroupRing::find(uint64_t task, size_t group) {
  for (size_t i = 0; i < used_; ++i) {
    GroupBuffer* buffer = &buffers_[(first_ + i) % buffers_.size()];
    if (buffer->task == task && buffer->group == group) return buffer;
  }
  return nullptr;
}

void GroupRing::finish(GroupBuffer* buffer) {
  finished_[static_cast<size_t>(buffer - buffers_.data())] = true;
  while (used_ > 0 && finished_[first_]) {
    first_ = (first_ + 1) % buffers_.size();
    --used_;
  }
}

}  // namespace switchml
