#include "timer/receive_coalescing.h"

namespace switchml {

void ReceiveCoalescing::sample(Duration rtt, Time now) {
  rtt = std::max(rtt, Duration(0));
  if (now - begin_ >= kWindow) {
    previous_ = now - begin_ < 2 * kWindow ? present_ : Duration::max();
    present_ = rtt;
    begin_ = now;
  }
  present_ = std::min(present_, rtt);
  if (now - last_ > paused_ + kSilence) silent_until_ = now;
  last_ = now;
  if (now - rtt < silent_until_) return;
  smoothed_ += smoothed_ == Duration(0) ? rtt : (rtt - smoothed_) / kSmoothing;
}

Duration ReceiveCoalescing::pause(Time now) {
  paused_ = Duration(0);
  const Duration least = shortest();
  if (now < resumes_ || smoothed_ <= least) return paused_;
  const Duration share = (smoothed_ - least) / kShare;
  if (share >= kLeastPause) paused_ = std::min(share, kMostPause);
  return paused_;
}

void ReceiveCoalescing::report(uint64_t come, uint64_t under_way, Time now) {
  if (2 * come <= under_way) {
    if (++good_ >= kGoodInARow) rest_ = kFirstRest;
    return;
  }
  good_ = 0;
  resumes_ = now + rest_;
  rest_ = std::min(2 * rest_, kLongestRest);
}

}  // namespace switchml
