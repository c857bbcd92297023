// Connects the cores that ship with the fabric: frames, virtual time, and numbers of nodes. A node is a switch, by the
// fabric's number, or a worker, numbered after them.
#pragma once

#include <cstring>
#include <vector>

#include "base/clock.h"
#include "event_queue.h"
#include "fabric.h"
#include "frames.h"
#include "socket/endpoint.h"

namespace switchml::scale {

enum class EventKind : uint32_t { kArrival, kTimer, kStart, kDeath, kSuspend, kHandOver, kResume };

/// Virtual time starts at 1 s: 0 means no time in places.
inline Time time_of(Instant at) { return Time(seconds(1)) + nanoseconds(at / kNanosecond); }
inline Instant instant_of(Time time) { return (time - Time(seconds(1))).count() * kNanosecond; }

inline Endpoint endpoint_of(uint32_t node) {
  Endpoint endpoint;
  endpoint.size = sizeof node;
  std::memcpy(endpoint.bytes, &node, sizeof node);
  return endpoint;
}
inline uint32_t node_at(const Endpoint& endpoint) {
  uint32_t node;
  std::memcpy(&node, endpoint.bytes, sizeof node);
  return node;
}

struct Carrier {
  Fabric& fabric;
  EventQueue& events;
  Frames& frames;
  std::vector<int> hosts = {};  // Worker -> host.
  size_t running = 0;           // Workers that have not ended.

  uint32_t first_worker() const { return static_cast<uint32_t>(fabric.switches()); }
  bool is_worker(uint32_t node) const { return node >= first_worker(); }
  uint32_t link(uint32_t from, uint32_t to) const {
    if (is_worker(from)) return fabric.host_up(hosts[from - first_worker()]);
    if (is_worker(to)) return fabric.host_down(hosts[to - first_worker()]);
    return fabric.between(static_cast<int>(from), static_cast<int>(to));
  }
  /// Sends a frame and gives up one use of it.
  void send(Frame* frame, uint32_t from, uint32_t to) {
    const Instant at = fabric.send(link(from, to), frame->size, events.now());
    if (at == kNoInstant) return frames.release(frame);
    push(EventKind::kArrival, at, to, from, frame);
  }
  void push(EventKind kind, Instant at, uint32_t to, uint32_t from = 0, void* data = nullptr) {
    Event event;
    event.at = at;
    event.kind = static_cast<uint32_t>(kind);
    event.to = to;
    event.from = from;
    event.data = data;
    events.push(event);
  }
  Time now() const { return time_of(events.now()); }
};

}  // namespace switchml::scale
