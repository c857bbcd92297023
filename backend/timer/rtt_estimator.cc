#include "timer/rtt_estimator.h"

#include <algorithm>

#include "base/assert.h"

namespace switchml {

namespace {
constexpr Duration kGranularity = microseconds(100);
}

RttEstimator::RttEstimator(Duration min, Duration max) : min_(min), max_(max), rto_(std::min(max, 4 * min)) {
  SWITCHML_ASSERT(Duration(0) < min && min <= max);
}

void RttEstimator::sample(Duration rtt) {
  rtt = std::max(rtt, Duration(0));
  if (!sampled_) {
    sampled_ = true;
    srtt_ = rtt;
    rttvar_ = rtt / 2;
  } else {  // RFC 6298, 2.3: alpha = 1/8, beta = 1/4; RTTVAR first, with the old SRTT
    const Duration error = srtt_ > rtt ? srtt_ - rtt : rtt - srtt_;
    rttvar_ += (error - rttvar_) / 4;
    srtt_ += (rtt - srtt_) / 8;
  }
  // Round trips behind a full queue hardly vary, and the variation tends to nothing: then any hiccup would fire the
  // timer. What is lost in the middle of a stream is found by its gap, so a timer may be late.
  rto_ = std::clamp(srtt_ + std::max({kGranularity, 4 * rttvar_, srtt_}), min_, max_);
}

Duration RttEstimator::backed_off(int attempts) const {
  Duration timeout = rto_;
  for (int i = 0; i < attempts && timeout < max_; ++i) timeout *= 2;
  return std::min(timeout, max_);
}

}  // namespace switchml
