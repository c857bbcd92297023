// The lanes of a shard, and what is under way in their slots. Pure state; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/format.h"
#include "slots/slot_pool.h"

namespace switchml {

struct Lane : LaneShape {
  Lane(const LaneShape& shape, int number_in, int first_slot, int first_index_in, uint32_t first_seq)
      : LaneShape(shape), number(number_in), first_index(first_index_in), pool(first_slot, slots, first_seq) {}
  int number;
  int first_index;  // The index in the shard of its first slot.
  SlotPool pool;
  uint64_t cursor = 0;  // Serial number of the task being opened.
};

class Lanes {
 public:
  /// They take the session's slots from `first_slot` on, one after the other. first_seq as in EngineOptions.
  Lanes(const std::vector<LaneShape>& shapes, int first_slot, uint32_t first_seq);
  Lanes(const Lanes&) = delete;  // others keep references to pools
  Lanes& operator=(const Lanes&) = delete;

  std::vector<Lane>::iterator begin() { return lanes_.begin(); }
  std::vector<Lane>::iterator end() { return lanes_.end(); }
  std::vector<Lane>::const_iterator begin() const { return lanes_.begin(); }
  std::vector<Lane>::const_iterator end() const { return lanes_.end(); }

  /// Opens the lane's next slot for a chunk. Precondition: lane.pool.can_open().
  InFlight& open(Lane& lane, Task& task, const Chunk& chunk);
  /// The lane of a slot of the session; null: it is not of this shard.
  Lane* of(uint16_t slot);
  /// A slot by its index in the shard.
  InFlight& at(int index) { return in_flight_[static_cast<size_t>(index)]; }
  /// A slot of the session. Precondition: lane.pool.contains(slot).
  InFlight& at(const Lane& lane, uint16_t slot) { return at(lane.first_index + lane.pool.index_of(slot)); }
  /// The result has been accepted: the slot is free.
  void accept(const InFlight& flight) { lanes_[static_cast<size_t>(flight.lane)].pool.accept(flight.slot, flight.seq); }

  int slots() const { return static_cast<int>(in_flight_.size()); }
  bool any_in_flight() const;
  /// The chunk that comes first in the order of the lane; null: nothing is under way.
  InFlight* oldest(const Lane& lane);
  /// Calls with(flight) for each that is under way, lane by lane.
  template <typename F>
  void for_each_open(const F& with) {
    for (const Lane& lane : lanes_) {
      for (int i = 0; i < lane.pool.size(); ++i) {
        if (lane.pool.is_open(i)) with(at(lane.first_index + i));
      }
    }
  }
  /// Chunks of elements of a stream that are under way.
  int in_flight(Task::Stream stream) const;

 private:
  std::vector<Lane> lanes_;
  std::vector<InFlight> in_flight_;  // Index: slot in the shard.
};

}  // namespace switchml
