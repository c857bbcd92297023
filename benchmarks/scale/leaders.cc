#include "leaders.h"

#include <vector>

#include "way.h"

namespace switchml::scale {

namespace {

enum Leg : uint32_t { kUp = 1U << 30, kDown = 1U << 29, kRing = 0 };  // Flags of Packet::hops.

class Leaders final : public QueuedWay {
 public:
  Leaders(const WayOptions& options, const Fabric& fabric)
      : QueuedWay(options, static_cast<uint32_t>(fabric.hosts())),
        racks_(static_cast<uint32_t>(fabric.racks())),
        rack_hosts_(static_cast<uint32_t>(fabric.hosts()) / racks_),
        segments_{options.bytes, racks_, options.payload_bytes},
        ready_(racks_ * racks_),
        held_(racks_ * racks_) {
    const uint64_t chains = 2 * racks_ * (rack_hosts_ - 1);
    expect(&jobs()[0], segments_.all_packets() * (chains + 2 * (racks_ - 1)));
    for (uint32_t rack = 0; rack < racks_; ++rack) begin(rack);
  }

 private:
  void arrived(const Packet& packet, Instant now) override {
    if ((packet.hops & kUp) != 0) {
      up(packet);
    } else if ((packet.hops & kDown) != 0) {
      if ((packet.hops ^ kDown) > 1) put(packet.to, packet.to + 1, packet, packet.hops - 1);
    } else {
      ring(packet);
    }
    note_arrival(&jobs()[0], now);
  }
  // Segments in the order in which the leader needs them.
  void begin(uint32_t rack) {
    for (uint32_t i = 0; i < racks_; ++i) {
      Packet packet;
      packet.segment = (rack + racks_ - i) % racks_;
      for (packet.number = 0; packet.number < segments_.packets(packet.segment); ++packet.number) {
        const uint32_t last = (rack + 1) * rack_hosts_ - 1;
        if (rack_hosts_ > 1) put(last, last - 1, packet, kUp | (rack_hosts_ - 1));
        if (rack_hosts_ == 1) reduced(rack, packet);
      }
    }
  }
  void up(const Packet& packet) {
    if ((packet.hops ^ kUp) > 1) return put(packet.to, packet.to - 1, packet, packet.hops - 1);
    reduced(packet.to / rack_hosts_, packet);
  }
  // The leader has its rack's sum of this packet's segment, up to this packet.
  void reduced(uint32_t rack, const Packet& packet) {
    const size_t at = rack * racks_ + packet.segment;
    if (++ready_[at] < segments_.packets(packet.segment)) return;
    Packet own = packet;
    if (rack == packet.segment) {
      for (own.number = 0; own.number < segments_.packets(own.segment); ++own.number)
        onward(rack, own, 2 * (racks_ - 1));
    }
    for (const Packet& held : held_[at]) ring(held);
    held_[at].clear();
  }
  void ring(const Packet& packet) {
    const uint32_t rack = packet.to / rack_hosts_;
    const size_t at = rack * racks_ + packet.segment;
    if (ready_[at] < segments_.packets(packet.segment)) return held_[at].push_back(packet);
    const bool is_sum = packet.hops <= racks_;  // The sum of all racks.
    if (is_sum && rack_hosts_ > 1) put(packet.to, packet.to + 1, packet, kDown | (rack_hosts_ - 1));
    if (packet.hops > 1) onward(rack, packet, packet.hops - 1);
  }
  void onward(uint32_t rack, const Packet& packet, uint32_t hops) {
    put(rack * rack_hosts_, (rack + 1) % racks_ * rack_hosts_, packet, hops);
  }
  void put(uint32_t from, uint32_t to, const Packet& packet, uint32_t hops) {
    const uint32_t bytes = segments_.packet_bytes(packet.segment, packet.number);
    enqueue({from, to, bytes, packet.segment, packet.number, hops});
  }

  const uint32_t racks_, rack_hosts_;
  const Segments segments_;
  std::vector<uint32_t> ready_;            // (rack, segment) -> packets that the leader has from its rack.
  std::vector<std::vector<Packet>> held_;  // (rack, segment) -> the ring's packets that wait for these.
};

}  // namespace

Outcome run_leaders(const WayOptions& options, Fabric* fabric, EventQueue* events) {
  return Leaders(options, *fabric).run(fabric, events, options.window_bytes);
}

}  // namespace switchml::scale
