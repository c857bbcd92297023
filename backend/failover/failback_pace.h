// When a group that goes on without its switch tries to return to one. What time it is, is an argument.
#pragma once

#include "base/clock.h"

namespace switchml {

/// One thread.
class FailbackPace {
 public:
  /// The switch is lost. Sooner than kSteady after a return: attempts are as far apart as then, and twice that.
  void lost(Time now);
  /// The next attempt is a pause from now; or a longer one, because nothing will have changed soon.
  void wait(Time now) { next_ = now + pause_; }
  void wait_longer(Time now);
  void returned(Time now) { returned_ = now; }

  /// When the next attempt is due.
  Time next() const { return next_; }

  static constexpr Duration kFirstPause = seconds(1);
  static constexpr Duration kLongestPause = seconds(60);
  static constexpr Duration kSteady = seconds(60);

 private:
  void double_pause();

  Duration pause_ = kFirstPause;
  Time next_{};
  Time returned_{};
};

}  // namespace switchml
