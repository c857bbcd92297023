#include "timer/moderation.h"

namespace switchml {

void Moderation::sample(Duration rtt, Time now) {
  rtt = std::max(rtt, Duration(0));
  if (now - begin_ >= kWindow) {
    previous_ = now - begin_ < 2 * kWindow ? present_ : Duration::max();
    present_ = rtt;
    begin_ = now;
  }
  present_ = std::min(present_, rtt);
}

Duration Moderation::pause(Duration rtt, Time now) const {
  const Duration least = shortest();
  if (now < resumes_ || rtt <= least) return Duration(0);
  const Duration share = (rtt - least) / kShare;
  return share < kLeastPause ? Duration(0) : std::min(share, kMostPause);
}

void Moderation::report(uint64_t come, uint64_t under_way, Time now) {
  if (2 * come <= under_way) {
    if (++good_ >= kGoodInARow) rest_ = kFirstRest;
    return;
  }
  good_ = 0;
  resumes_ = now + rest_;
  rest_ = std::min(2 * rest_, kLongestRest);
}

}  // namespace switchml
