#include "engine/lanes.h"

#include <algorithm>

namespace switchml {

Lanes::Lanes(const std::vector<LaneShape>& shapes, int first_slot, uint32_t first_seq) {
  int index = 0;
  for (const LaneShape& shape : shapes) {
    const auto number = static_cast<int>(lanes_.size());
    lanes_.emplace_back(shape, number, first_slot + index, index, first_seq);
    for (int i = 0; i < shape.slots; ++i) {
      InFlight& flight = in_flight_.emplace_back();
      flight.lane = number;
      flight.index = index++;
    }
  }
}

InFlight& Lanes::open(Lane& lane, Task& task, const Chunk& chunk) {
  const SlotPool::Opened opened = lane.pool.open();
  InFlight& flight = at(lane.first_index + opened.index);
  static_cast<Chunk&>(flight) = chunk;
  flight.task = &task;
  flight.slot = opened.slot;
  flight.seq = opened.seq;
  flight.failed_checks = 0;
  flight.elements = nullptr;
  flight.has_target = false;
  ++task.in_flight;
  return flight;
}

Lane* Lanes::of(uint16_t slot) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [slot](const Lane& l) { return l.pool.contains(slot); });
  return lane == lanes_.end() ? nullptr : &*lane;
}

bool Lanes::any_in_flight() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.pool.in_flight() > 0; });
}

InFlight* Lanes::oldest(const Lane& lane) {
  const int index = lane.pool.oldest_open();
  return index < 0 ? nullptr : &at(lane.first_index + index);
}

int Lanes::in_flight(Task::Stream stream) const {
  for (const Lane& lane : lanes_) {
    if (lane.has_elements && lane.stream == stream) return lane.pool.in_flight();
  }
  return 0;
}

}  // namespace switchml
