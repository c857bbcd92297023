// The transport of the modelled ways: packets from host to host on the fabric, better than any real one. A host has at
// most a window of bytes under way; it knows of arrivals at once, acknowledgements cost nothing; and it knows of losses
// a round trip of the empty network later (an ideal selective repeat).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event_queue.h"
#include "fabric.h"

namespace switchml::scale {

struct Packet {
  uint32_t from = 0;  // This and `to` are hosts.
  uint32_t to = 0;
  uint32_t bytes = 0;
  uint32_t segment = 0;  // This and the fields below have the way's meaning.
  uint32_t number = 0;
  uint32_t hops = 0;
};

/// The source of packets.
class Traffic {
 public:
  virtual ~Traffic() = default;
  /// The next packet of a host; false: it has none now.
  virtual bool next(int host, Packet* packet) = 0;
  /// Takes a packet. Calls Packets::offer() for hosts that have something to send now.
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
    uint32_t link = 0;  // Index of its present link in the path.
  };
  void go(uint32_t place);
  void step(uint32_t place);
  Instant round_trip(const Flying& flying) const;

  Fabric* fabric_;
  EventQueue* events_;
  const size_t window_bytes_;
  Traffic* traffic_ = nullptr;
  std::vector<size_t> under_way_;  // Host -> bytes.
  std::vector<Flying> flying_;
  std::vector<uint32_t> unused_;  // Indices into flying_.
  uint64_t repairs_ = 0;
};

}  // namespace switchml::scale
