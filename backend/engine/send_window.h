// How many chunks a shard has under way where links lose what is too much (timer/congestion_window.h). Reads no clock;
// one thread.
#pragma once

#include <optional>

#include "base/clock.h"
#include "engine/lanes.h"
#include "timer/congestion_window.h"

namespace switchml {

class SendWindow {
 public:
  explicit SendWindow(const Lanes& lanes) : lanes_(lanes) {}

  /// Begins anew, on a link that is shared by so many flows. 0: from now on the slots alone limit what is under way.
  void restart(int flows);
  bool is_on() const { return window_.has_value(); }

  /// A round of sending begins, or ends: what was owed and not used is owed no more.
  void begin_round() { app_limited_ = true; }
  void end_round() { owed_ = 0; }
  /// Whether this lane may send one more chunk of elements.
  bool allows(const Lane& lane);

  /// A chunk was answered that was sent only once.
  void on_answered(Duration round_trip, Time now);
  /// A chunk was answered that was sent several times: another one may go, whatever the window: its answer may show
  /// further losses. A shrunken window must not leave their repair to timers.
  void on_repeat_answered() { ++owed_; }
  /// A chunk sent at `sent` was lost, or its result was marked. Whether the window shrinks for it.
  bool on_congestion(Time sent, Time now) { return window_ && window_->on_congestion(sent, now); }

 private:
  const Lanes& lanes_;
  std::optional<CongestionWindow> window_;
  int owed_ = 0;             // chunks that may go beyond the window, in this round
  bool app_limited_ = true;  // the window has not held back any chunk in this round
};

}  // namespace switchml
