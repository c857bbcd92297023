#include "engine/send_window.h"

#include <algorithm>

namespace switchml {

namespace {
// A chunk, the three later ones that show by their answers that it was lost (engine/retransmitter.h), and one in
// reserve: with fewer only timers would repair.
constexpr int kLeastWindow = 5;
}  // namespace

void SendWindow::restart(int flows) {
  window_.reset();
  owed_ = 0;
  if (flows == 0) return;
  int most = 0;
  for (const Lane& lane : lanes_) most += lane.has_elements ? lane.slots : 0;
  window_.emplace(std::min(kLeastWindow, most), most, flows);
}

// Few chunks do not wait for many. Each lane may have one under way whatever others have, or ranks could wait for each
// other's lanes for ever.
bool SendWindow::allows(const Lane& lane) {
  if (!window_ || lane.pool.in_flight() == 0) return true;
  if (owed_ > 0) {
    --owed_;
    return true;
  }
  int under_way = 0;
  for (const Lane& each : lanes_) {
    under_way += each.has_elements ? each.pool.in_flight() : 0;
    if (&each == &lane) break;
  }
  if (under_way < window_->chunks()) return true;
  app_limited_ = false;
  return false;
}

void SendWindow::on_answered(Duration round_trip, Time now) {
  if (window_) window_->on_answered(round_trip, app_limited_, now);
}

}  // namespace switchml
