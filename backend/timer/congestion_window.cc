#include "timer/congestion_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace switchml {

namespace {

// RFC 9406, section 4.3, but for MIN_RTT_THRESH, which is 4 ms there.
constexpr int kRttSamples = 8;
constexpr int kCssRounds = 5;
constexpr double kCssGrowth = 1.0 / 4;
constexpr int kMinRttDivisor = 8;
constexpr Duration kMinRttThresh = microseconds(100);
constexpr Duration kMaxRttThresh = milliseconds(16);
// A gap between answers counts as at most so many of the shortest round trips: the rest is a wait for a rank.
constexpr int kLongestGap = 10;

}  // namespace

// n flows of a n-th each see the same loss p. Reno's window is as the root of its growth over p, the cubic one as the
// fourth root of C over p^3: so growth has to be n^2 and n^4 times less. flow_scale_ is the first.
CongestionWindow::CongestionWindow(int least, int most, int flows)
    : least_(least),
      most_(most),
      flow_scale_(static_cast<double>(flows) * flows),
      cwnd_(std::clamp(kInitialWindow / flows, least_, most_)),
      ssthresh_(std::numeric_limits<double>::max()) {}

void CongestionWindow::on_answered(Duration round_trip, bool app_limited, Time now) {
  min_rtt_ = std::min(min_rtt_, round_trip);
  const Duration gap = now - last_answer_;
  last_answer_ = now;
  if (app_limited) return;
  epoch_time_ += std::min(gap, kLongestGap * min_rtt_);
  in_slow_start() ? slow_start(round_trip, now) : congestion_avoidance(round_trip);
  cwnd_ = std::min(cwnd_, most_);
}

// RFC 9406, section 4.2.
void CongestionWindow::slow_start(Duration round_trip, Time now) {
  if (now - round_trip >= round_began_) on_round_end(now);
  current_round_min_rtt_ = std::min(current_round_min_rtt_, round_trip);
  ++rtt_samples_;
  cwnd_ += css_rounds_ == kNotInCss ? 1 : kCssGrowth;
  if (rtt_samples_ < kRttSamples || last_round_min_rtt_ == Duration::max()) return;
  if (css_rounds_ != kNotInCss) {
    if (current_round_min_rtt_ < css_baseline_min_rtt_) css_rounds_ = kNotInCss;  // a spurious exit from slow start
    return;
  }
  const Duration rtt_thresh = std::clamp<Duration>(last_round_min_rtt_ / kMinRttDivisor, kMinRttThresh, kMaxRttThresh);
  if (current_round_min_rtt_ < last_round_min_rtt_ + rtt_thresh) return;
  css_baseline_min_rtt_ = current_round_min_rtt_;
  css_rounds_ = 0;
}

// Chunks that were sent after the last round's end have been answered.
void CongestionWindow::on_round_end(Time now) {
  round_began_ = now;
  if (rtt_samples_ > 0) last_round_min_rtt_ = current_round_min_rtt_;
  current_round_min_rtt_ = Duration::max();
  rtt_samples_ = 0;
  if (css_rounds_ == kNotInCss || ++css_rounds_ < kCssRounds) return;
  ssthresh_ = cwnd_;
  cwnd_prior_ = cwnd_;
  begin_epoch(cwnd_);
}

void CongestionWindow::begin_epoch(double w_max) {
  w_max_ = w_max;
  w_est_ = cwnd_;
  epoch_time_ = Duration(0);
  k_ = std::cbrt(std::max(0.0, w_max - cwnd_) / (kC / flow_scale_ / flow_scale_));  // RFC 9438, figure 2
}

// RFC 9438, figure 1.
double CongestionWindow::w_cubic(double t) const {
  const double past_k = t - k_;
  return kC / flow_scale_ / flow_scale_ * past_k * past_k * past_k + w_max_;
}

// RFC 9438, sections 4.2 to 4.5; the first branch is its Reno-friendly region.
void CongestionWindow::congestion_avoidance(Duration round_trip) {
  const double alpha_cubic = w_est_ < cwnd_prior_ ? 3 * (1 - kBetaCubic) / (1 + kBetaCubic) : 1;
  w_est_ += alpha_cubic / flow_scale_ / cwnd_;
  const double t = to_seconds(epoch_time_);
  if (w_cubic(t) < w_est_) {
    cwnd_ = std::max(cwnd_, w_est_);
    return;
  }
  const double target =
      std::clamp(w_cubic(t + to_seconds(std::min(round_trip, kLongestGap * min_rtt_))), cwnd_, 1.5 * cwnd_);
  cwnd_ += (target - cwnd_) / cwnd_;
}

// RFC 9438, sections 4.6 and 4.7 (fast convergence).
bool CongestionWindow::on_congestion(Time sent, Time now) {
  if (sent < shrunk_at_) return false;
  shrunk_at_ = now;
  const double w_max = !in_slow_start() && cwnd_ < w_max_ ? cwnd_ * (1 + kBetaCubic) / 2 : cwnd_;
  cwnd_prior_ = cwnd_;
  cwnd_ = std::max(cwnd_ * kBetaCubic, least_);
  ssthresh_ = cwnd_;
  begin_epoch(w_max);
  return true;
}

}  // namespace switchml
