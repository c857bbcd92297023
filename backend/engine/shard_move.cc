// From one switch to another in the middle of the streams. What makes it possible: sequence numbers belong to the group
// and not to the switch, a frame keeps its bytes while it is open, and no rank is more than one use ahead of another on
// a slot, so that the last result of each slot is all that another rank can lack.
#include <algorithm>

#include "base/assert.h"
#include "engine/shard.h"
#include "wire/checksum.h"

namespace switchml {

void Shard::give_up_switch(const Status& status) {
  if (!options_.on_switch_lost) {
    fail(status);
    return;
  }
  suspend();
  options_.on_switch_lost(options_.share, status);
}

void Shard::suspend() {
  if (!status_.ok()) return;
  suspended_ = true;
  tx_.clear();
  tx_bytes_ = 0;
  retransmitter_.stop();
}

std::vector<uint32_t> Shard::accepted() const {
  std::vector<uint32_t> all;
  for (const Lane& lane : lanes_) {
    for (int i = 0; i < lane.pool.size(); ++i) all.push_back(lane.pool.accepted(i));
  }
  return all;
}

void Shard::keep(const InFlight& flight, const uint8_t* frame, size_t size) {
  const size_t stride = session_.header_bytes() + session_.payload_bytes;
  std::copy_n(frame, size, kept_.data() + static_cast<size_t>(flight.index) * stride);
  kept_size_[static_cast<size_t>(flight.index)] = static_cast<uint32_t>(size);
}

std::vector<uint8_t> Shard::last_result(int index) const {
  if (kept_size_.empty()) return {};
  const uint8_t* frame = kept_.data() + static_cast<size_t>(index) * (session_.header_bytes() + session_.payload_bytes);
  return {frame, frame + kept_size_[static_cast<size_t>(index)]};
}

// What another rank has kept came under the session that this one still has, or it would not lack it.
void Shard::supply(const std::vector<uint8_t>& frame, Time now) {  // [MOVE-4]
  marked_ = false;
  if (session_.native) {
    if (status_.ok()) on_elements({frame.data(), static_cast<uint32_t>(frame.size()), {}}, now);
    return;
  }
  wire::DataPacket packet;
  const bool result =
      wire::parse_data(frame.data(), frame.size(), wire::Kind::kResult, &packet) == wire::ParseError::kNone;
  if (!status_.ok() || !result || packet.words * kWordBytes > session_.payload_bytes) return;
  on_result(packet, now);
}

// The witness covers the words, the place in the stream and the call, and none of these change; the checksum covers
// all.
void Shard::readdress(const InFlight& flight) const {
  if (session_.native) {
    wire::NativeHeader header = wire::read_native_header(flight.frame);
    header.job = session_.job;  // [MOVE-5]
    header.epoch = session_.epoch;
    wire::seal_native(header, session_.checksum_rule(), flight.frame, flight.sent_bytes);  // [MOVE-5]
    return;
  }
  wire::Header header = wire::read_header(flight.frame);
  header.job = session_.job;
  header.epoch = session_.epoch;
  wire::write_header(header, flight.frame);
}

void Shard::resume(const Route& route, std::unique_ptr<Transport> transport, Time now) {
  if (!status_.ok()) return;
  SWITCHML_ASSERT(suspended_);
  static_cast<Route&>(session_) = route;
  {
    const std::lock_guard<std::mutex> lock(link_mutex_);
    link_ = transport ? transport.get() : home_.get();
    away_.swap(transport);
  }
  transport.reset();  // the link before this one
  suspended_ = false;
  waiting_for_.clear();
  liveness_.restart(now);
  make_window();
  if (session_.switch_endpoint.carrier == Carrier::kPlaces) introduce(now);
  for (Lane& lane : lanes_) {
    for (int i = 0; i < lane.pool.size(); ++i) {
      if (!lane.pool.is_open(i)) continue;
      InFlight& flight = in_flight_[static_cast<size_t>(lane.first_index + i)];
      readdress(flight);
      flight.witness_failures = 0;
      retransmitter_.on_moved(flight.index);
      transmit(flight, now);
    }
  }
  flush();
}

}  // namespace switchml
