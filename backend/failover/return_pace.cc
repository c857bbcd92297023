#include "failover/return_pace.h"

#include <algorithm>

namespace switchml {

void ReturnPace::lost(Time now) {
  if (returned_ != Time{} && now - returned_ < kSteady) {
    double_pause();
  } else {
    pause_ = kFirstPause;
  }
}

void ReturnPace::wait_longer(Time now) {
  double_pause();
  wait(now);
}

void ReturnPace::double_pause() { pause_ = std::min<Duration>(2 * pause_, kLongestPause); }

}  // namespace switchml
