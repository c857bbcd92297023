// Retransmission timeout from measured round trips (RFC 6298, and at least two of them). Pure: samples and results are
// durations, no clock is read. Karn's rule is the caller's: never sample a packet that was sent more than once.
#pragma once

#include "base/clock.h"

namespace switchml {

class RttEstimator {
 public:
  /// 0 < min <= max. Before the first sample the timeout is min(max, 4 * min).
  RttEstimator(Duration min, Duration max);

  /// A round trip of a packet that was sent once. Negative samples count as 0.
  void sample(Duration rtt);

  /// SRTT + max(G, 4 * RTTVAR, SRTT), within [min, max].
  Duration rto() const { return rto_; }
  /// rto() doubled `attempts` times, at most max().
  Duration backed_off(int attempts) const;
  /// Smoothed round trip; 0 before the first sample.
  Duration srtt() const { return srtt_; }
  Duration max() const { return max_; }

 private:
  Duration min_;
  Duration max_;
  Duration srtt_{0};
  Duration rttvar_{0};
  Duration rto_;
  bool sampled_ = false;
};

}  // namespace switchml
