// Frames to one peer that wait for room.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "socket/endpoint.h"

namespace switchml::rdma {

/// Copies, first in, first out.
class Backlog {
 public:
  bool empty() const { return held_.empty(); }
  /// False: it would be more than `most_bytes`.
  bool add(const TxFrame& frame, size_t most_bytes) {
    const size_t bytes = size_t{frame.size} + frame.rest_size;
    if (bytes_ + bytes > most_bytes) return false;
    bytes_ += bytes;
    Held held{{frame.data, frame.data + frame.size}, frame.size, frame.target};
    if (frame.rest != nullptr) held.bytes.insert(held.bytes.end(), frame.rest, frame.rest + frame.rest_size);
    held_.push_back(std::move(held));
    return true;
  }
  /// Valid until pop(). Precondition: there is one.
  TxFrame front(const Endpoint& to) const {
    const Held& held = held_.front();
    TxFrame frame{held.bytes.data(), held.head, &to};
    frame.rest_size = static_cast<uint32_t>(held.bytes.size() - held.head);
    if (frame.rest_size > 0) frame.rest = held.bytes.data() + held.head;
    frame.target = held.target;
    frame.may_change = true;
    return frame;
  }
  void pop() {
    bytes_ -= held_.front().bytes.size();
    held_.pop_front();
  }

 private:
  struct Held {
    std::vector<uint8_t> bytes;
    uint32_t head;  // bytes before the rest
    wire::Target target;
  };

  std::deque<Held> held_;
  size_t bytes_ = 0;
};

}  // namespace switchml::rdma
