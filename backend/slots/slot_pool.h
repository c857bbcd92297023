// A lane: a range of a session's slots through which chunks stream in order. Pure state machine: no I/O, no clock.
//
// All ranks open the same chunks in the same order [LANE-2, LANE-3], so they agree on (slot, seq) without talking. A
// slot is open from the moment its contribution is sent until its result is accepted [SLOT-14]; it is the acceptance
// that allows the slot's next use (self-clocking) [SLOT-13]. So no rank is ever more than one use ahead of another on a
// slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/limits.h"

namespace switchml {

class SlotPool {
 public:
  enum class Verdict {
    kAccepted,   // the awaited result; the slot is free again
    kDuplicate,  // the result of the use that completed last
    kStale,      // any other sequence number
    kForeign,    // a slot outside this lane
  };

  struct Opened {
    int index;      // 0..size-1, within the lane
    uint16_t slot;  // on the wire
    uint32_t seq;   // on the wire
  };

  /// Slots [first, first + size) of the session. size >= 1; first_seq, the number of each slot's first use, is not 0.
  SlotPool(int first, int size, uint32_t first_seq = kFirstSeq);

  /// Whether the next chunk in order can be sent: its slot's previous result has been accepted.
  bool can_open() const { return !uses_[static_cast<size_t>(next_)].open; }  // [SLOT-13]
  /// Opens the next chunk. Precondition: can_open().
  Opened open();

  /// What a result is. `accept` closes the slot; `judge` only tells.
  Verdict judge(uint16_t slot, uint32_t seq) const;
  Verdict accept(uint16_t slot, uint32_t seq);

  /// The open slot with the chunk that comes first in the stream, or -1.
  int oldest_open() const;

  bool contains(uint16_t slot) const { return slot >= first_ && slot < first_ + size_; }
  int index_of(uint16_t slot) const { return slot - first_; }
  int size() const { return size_; }
  int in_flight() const { return in_flight_; }
  /// The sequence number of the slot's last use with an accepted result; 0: none.
  uint32_t accepted(int index) const { return uses_[static_cast<size_t>(index)].accepted; }
  bool is_open(int index) const { return uses_[static_cast<size_t>(index)].open; }

 private:
  struct Use {
    uint32_t seq = 0;  // the use that is open, or was last; 0: never used
    uint32_t accepted = 0;
    bool open = false;
  };
  int first_;
  int size_;
  uint32_t first_seq_;
  int next_ = 0;  // index of the next chunk's slot
  int in_flight_ = 0;
  std::vector<Use> uses_;
};

}  // namespace switchml
