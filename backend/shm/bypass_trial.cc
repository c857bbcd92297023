#include "shm/bypass_trial.h"

namespace switchml::shm {

void BypassTrial::begin(size_t chunks) {
  is_long_ = chunks >= kLong;
  start_leg(leg_);  // what lies between two collectives is not to be timed
}

void BypassTrial::finished(size_t chunks, Time now) {
  if (!is_long_) return;
  since_ += chunks;
  if (skipped_ < kSkipped) {
    skipped_ += chunks;
    began_ = now;
    return;
  }
  timed_ += chunks;
  if (timed_ < kTimed) return;
  const Duration each = (now - began_) / static_cast<Duration::rep>(timed_);
  if (is_trying()) {
    end_leg(each);
  } else if (since_ >= (best_ ? kBetweenBypassing : kBetween) || (has_become_slow(each) && since_ >= kSoonest)) {
    start_leg(0);
  } else {
    timed_ = 0;
    began_ = now;
  }
}

void BypassTrial::start_leg(int leg) {
  leg_ = leg;
  skipped_ = timed_ = 0;
}

void BypassTrial::end_leg(Duration each) {
  took_[leg_ % 2] = each;
  const bool compares = leg_ % 2 == 1;
  if (leg_ + 1 < kLegs && (!compares || is_better())) return start_leg(leg_ + 1);
  decide(is_better());
  start_leg(-1);
}

void BypassTrial::decide(bool change) {
  if (change) best_ = !best_;
  usual_ = took_[change ? 1 : 0];
  since_ = 0;
  slow_ = 0;
}

// Twice in a row: once is somebody else's time slice.
bool BypassTrial::has_become_slow(Duration each) {
  slow_ = usual_ > Duration(0) && each > usual_ + usual_ / 2 ? slow_ + 1 : 0;
  return slow_ >= 2;
}

}  // namespace switchml::shm
