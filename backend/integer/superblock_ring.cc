#include "integer/superblock_ring.h"

#include "base/assert.h"

namespace switchml {

SuperblockRing::SuperblockRing(size_t capacity, size_t max_blocks, size_t elements)
    : memory_bytes_(capacity * 2 * max_blocks + elements),
      elements_(elements),
      classes_(memory_.allocate(elements)),
      buffers_(capacity),
      finished_(capacity, false) {
  for (Superblock& buffer : buffers_) {
    buffer.exponents.resize(max_blocks);
    buffer.widths.resize(max_blocks);
  }
}

// Classes lie one after the other, around the end of the memory, but those of a superblock together.
size_t SuperblockRing::place_of(size_t count) const {
  const size_t place = used_ == 0 ? 0 : next_place_;
  const size_t left = elements_ - place % elements_;
  return count <= left ? place : place + left;
}

bool SuperblockRing::has_room(size_t count) const {
  if (used_ == 0) return true;
  return used_ < buffers_.size() && place_of(count) + count - buffers_[first_].place <= elements_;
}

Superblock* SuperblockRing::take(uint64_t task, size_t superblock, ElementRange range) {
  SWITCHML_ASSERT(has_room(range.count) && range.count <= elements_);
  const size_t index = (first_ + used_) % buffers_.size();
  Superblock* buffer = &buffers_[index];
  buffer->place = place_of(range.count);
  buffer->classes = classes_ + buffer->place % elements_;
  next_place_ = buffer->place + range.count;
  buffer->task = task;
  buffer->number = superblock;
  buffer->range = range;
  buffer->ready = false;
  buffer->has_nonfinite = false;
  buffer->nonfinite_sent = 0;
  buffer->nonfinite_done = 0;
  buffer->sent = 0;
  buffer->done = 0;
  finished_[index] = false;
  ++used_;
  return buffer;
}

Superblock* SuperblockRing::find(uint64_t task, size_t superblock) {
  for (size_t i = 0; i < used_; ++i) {
    if (at(i)->task != task) continue;
    const size_t of_it = i + superblock - at(i)->number;
    return superblock >= at(i)->number && of_it < used_ && at(of_it)->task == task ? at(of_it) : nullptr;
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
