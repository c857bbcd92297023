#include "failover/failback_pace.h"

#include <algorithm>

namespace switchml {

void FailbackPace::lost(Time now) {
  if (returned_ != Time{} && now - returned_ < kSteady) {
    double_pause();
  } else {
    pause_ = kFirstPause;
  }
}

void FailbackPace::wait_longer(Time now) {
  double_pause();
  wait(now);
}

void FailbackPace::double_pause() { pause_ = std::min<Duration>(2 * pause_, kLongestPause); }

}  // namespace switchml
