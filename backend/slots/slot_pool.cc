#include "slots/slot_pool.h"

#include "base/assert.h"
#include "base/limits.h"
#include "wire/packet.h"

namespace switchml {

SlotPool::SlotPool(int first, int size, uint32_t first_seq)
    : first_(first), size_(size), first_seq_(first_seq), uses_(static_cast<size_t>(size)) {
  SWITCHML_ASSERT(first >= 0 && size >= 1 && first + size <= kMaxSlots && first_seq != 0);
}

SlotPool::Opened SlotPool::open() {
  SWITCHML_ASSERT(can_open());
  const int index = next_;
  Use& use = uses_[static_cast<size_t>(index)];
  use.seq = use.seq == 0 ? first_seq_ : wire::next_seq(use.seq);  // [SLOT-1, SLOT-2]
  use.open = true;
  next_ = next_ + 1 == size_ ? 0 : next_ + 1;  // [LANE-2]
  ++in_flight_;
  return {index, static_cast<uint16_t>(first_ + index), use.seq};
}

int SlotPool::oldest_open() const {
  if (in_flight_ == 0) return -1;
  // Slots open in turn, so going round from the next one meets them in the order of the stream.
  int index = next_;
  do {
    if (is_open(index)) return index;
    index = index + 1 == size_ ? 0 : index + 1;
  } while (index != next_);
  return -1;
}

SlotPool::Verdict SlotPool::judge(uint16_t slot, uint32_t seq) const {
  if (!contains(slot)) return Verdict::kForeign;
  const Use& use = uses_[static_cast<size_t>(index_of(slot))];
  if (use.seq != seq) return Verdict::kStale;                  // [SLOT-14]
  return use.open ? Verdict::kAccepted : Verdict::kDuplicate;  // [SLOT-14]
}

SlotPool::Verdict SlotPool::accept(uint16_t slot, uint32_t seq) {
  const Verdict verdict = judge(slot, seq);
  if (verdict == Verdict::kAccepted) {
    uses_[static_cast<size_t>(index_of(slot))].open = false;
    uses_[static_cast<size_t>(index_of(slot))].accepted = seq;
    --in_flight_;
  }
  return verdict;
}

}  // namespace switchml
