// The transport of the modelled ways: packets from host to host on the fabric, better than any real one. A host has at
// most a window of bytes under way; it knows at once what has arrived, acknowledgements cost nothing; and of what is
// lost it knows a round trip of the empty network later (an ideal selective repeat).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event_queue.h"
#include "fabric.h"

namespace switchml::scale {

struct Packet {
  uint32_t from = 0;  // hosts
  uint32_t to = 0;
  uint32_t bytes = 0;
  uint32_t segment = 0;  // of the tensor; what these mean is the way's business
  uint32_t number = 0;
  uint32_t hops = 0;
};

/// What hosts send.
class Traffic {
 public:
  virtual ~Traffic() = default;
  /// The next packet of a host; false: it has none now.
  virtual bool next(int host, Packet* packet) = 0;
  /// Whoever has something to send now is told to Packets::offer().
  virtual void arrived(const Packet& packet, Instant now) = 0;
  virtual bool over() const = 0;
};

class Packets {
 public:
  Packets(Fabric* fabric, EventQueue* events, size_t window_bytes)
      : fabric_(fabric),
        events_(events),
        window_bytes_(window_bytes),
        under_way_(static_cast<size_t>(fabric->hosts())) {}

  void run(Traffic* traffic);
  /// The host may have something to send.
  void offer(int host);
  uint64_t repairs() const { return repairs_; }

 private:
  struct Flying {
    Packet packet;
    Path path;
    uint32_t link = 0;  // of the path: the one that it is on
  };
  void go(uint32_t place);
  void step(uint32_t place);
  Instant round_trip(const Flying& flying) const;

  Fabric* fabric_;
  EventQueue* events_;
  const size_t window_bytes_;
  Traffic* traffic_ = nullptr;
  std::vector<size_t> under_way_;  // bytes, by host
  std::vector<Flying> flying_;
  std::vector<uint32_t> unused_;  // places
  uint64_t repairs_ = 0;
};

}  // namespace switchml::scale
