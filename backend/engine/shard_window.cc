// How many chunks are under way where links lose what is too much (timer/congestion_window.h).
#include <algorithm>

#include "engine/shard.h"

namespace switchml {

namespace {
// A chunk, the three later ones whose answers show that it was lost (engine/retransmitter.h), and one in reserve: with
// fewer only timers would repair.
constexpr int kLeastWindow = 5;
}  // namespace

// Of all flows that share this worker's link.
void Shard::make_window() {
  window_.reset();
  owed_ = 0;
  if (!options_.congestion_control || session_.switch_endpoint.carrier != Carrier::kPackets) return;
  int most = 0;
  for (const Stream& stream : streams_) most += data_of(stream).pool.size();
  const int flows = session_.shards * static_cast<int>(options_.shares);
  window_.emplace(std::min(kLeastWindow, most), most, flows);
}

// A repeated chunk that was answered lets another one go, whose answer may show further losses: a shrunken window must
// not leave their repair to timers. Few chunks do not wait for many. Each lane may have one under way whatever others
// have, or ranks could wait for each other's lanes for ever.
bool Shard::window_allows(const Stream& stream) {
  if (!window_ || data_of(stream).pool.in_flight() == 0) return true;
  if (owed_ > 0) {
    --owed_;
    return true;
  }
  int under_way = 0;
  for (const Stream& each : streams_) {
    under_way += data_of(each).pool.in_flight();
    if (&each == &stream) break;
  }
  if (under_way < window_->chunks()) return true;
  window_limits_ = true;
  return false;
}

void Shard::repair_gaps(Time now) {
  retransmitter_.repair_gaps([this, now](int index) {
    on_congestion(index, now);
    repeat(index, now);
  });
}

void Shard::on_congestion(int index, Time now) {
  if (window_ && window_->on_congestion(retransmitter_.last_sent(index), now)) counters_.window_reductions.add(1);
}

}  // namespace switchml
