#include "shm/non_temporal_trial.h"

#include <algorithm>

namespace switchml::shm {

int LatencyScore::after(int score, Duration took) {
  return took >= kSlow ? std::min(kMost, score + 3) : std::max(0, score - 1);
}

void NonTemporalTrial::begin(size_t chunks) {
  is_long_ = chunks >= kLong;
  start_leg(leg_);  // what lies between two collectives is not to be timed
}

void NonTemporalTrial::finished(size_t chunks, Time now, bool slow_lines) {
  if (!slow_lines) return forget();
  if (!is_long_) return;
  since_ += chunks;
  if (!is_trying()) {
    if (since_ >= kBetween) start_leg(0);
    return;
  }
  if (skipped_ < kSkipped) {
    skipped_ += chunks;
    began_ = now;
    return;
  }
  timed_ += chunks;
  if (timed_ >= kTimed) end_leg((now - began_) / static_cast<Duration::rep>(timed_));
}

void NonTemporalTrial::forget() {
  best_ = false;
  since_ = kBetween;
  start_leg(-1);
}

void NonTemporalTrial::start_leg(int leg) {
  leg_ = leg;
  skipped_ = timed_ = 0;
}

void NonTemporalTrial::end_leg(Duration each) {
  took_[leg_ % 2] = each;
  const bool compares = leg_ % 2 == 1;
  if (leg_ + 1 < kLegs && (!compares || is_better())) return start_leg(leg_ + 1);
  if (is_better()) best_ = !best_;
  since_ = 0;
  start_leg(-1);
}

}  // namespace switchml::shm
