#include "packets.h"

namespace switchml::scale {

namespace {
enum Kind : uint32_t { kArrival, kRepair };
}

void Packets::run(Traffic* traffic) {
  traffic_ = traffic;
  for (int host = 0; host < fabric_->hosts(); ++host) offer(host);
  while (!events_->empty() && !traffic->over()) {
    const Event event = events_->pop();
    event.kind == kRepair ? go(event.to) : step(event.to);
  }
}

void Packets::offer(int host) {
  size_t& under_way = under_way_[static_cast<size_t>(host)];
  while (under_way < window_bytes_) {
    Packet packet;
    if (!traffic_->next(host, &packet)) return;
    under_way += packet.bytes;
    if (unused_.empty()) {
      unused_.push_back(static_cast<uint32_t>(flying_.size()));
      flying_.emplace_back();
    }
    const uint32_t place = unused_.back();
    unused_.pop_back();
    const uint64_t choice = events_->pushed();  // Each packet takes any path: flows would collide.
    flying_[place] = {packet, fabric_->path(static_cast<int>(packet.from), static_cast<int>(packet.to), choice), 0};
    go(place);
  }
}

// Sends it on the next link.
void Packets::go(uint32_t place) {
  Flying& flying = flying_[place];
  Event event;
  event.to = place;
  event.at = fabric_->send(flying.path.links[flying.link], flying.packet.bytes, events_->now());
  event.kind = kArrival;
  if (event.at == kNoInstant) {
    ++repairs_;
    flying.link = 0;
    event.at = events_->now() + round_trip(flying);
    event.kind = kRepair;
  }
  events_->push(event);
}

void Packets::step(uint32_t place) {
  Flying& flying = flying_[place];
  if (++flying.link < flying.path.count) return go(place);
  const Packet packet = flying.packet;
  unused_.push_back(place);
  under_way_[packet.from] -= packet.bytes;
  traffic_->arrived(packet, events_->now());
  offer(static_cast<int>(packet.to));
  offer(static_cast<int>(packet.from));
}

Instant Packets::round_trip(const Flying& flying) const {
  return 2 * flying.path.count * (fabric_->hop() + fabric_->host_time(0)) + fabric_->host_time(flying.packet.bytes);
}

}  // namespace switchml::scale
