#include "timer/congestion_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace switchml {

namespace {

// RFC 9406, section 4.3, but for the least delay.
constexpr int kSamplesOfRound = 8;
constexpr int kSuspiciousRounds = 5;
constexpr double kSuspiciousGrowth = 1.0 / 4;
constexpr int kShareOfRoundTrip = 8;
constexpr Duration kLeastDelay = microseconds(100);  // there: 4 ms
constexpr Duration kMostDelay = milliseconds(16);
// A gap between answers counts as so many of the shortest round trips at most: the rest is a wait for a rank.
constexpr int kLongestGap = 10;
constexpr double kEndless = std::numeric_limits<double>::max();

}  // namespace

// n flows of a n-th each see the same loss p. Reno's window is as the root of its growth over p, the cubic one as the
// fourth root of C over p^3: so growth has to be n^2 and n^4 times less. slowness_ is the first.
CongestionWindow::CongestionWindow(int least, int most, int flows)
    : least_(least),
      most_(most),
      slowness_(static_cast<double>(flows) * flows),
      window_(std::clamp(kInitial / flows, least_, most_)),
      threshold_(kEndless) {}

void CongestionWindow::on_answered(Duration round_trip, bool limits, Time now) {
  least_round_trip_ = std::min(least_round_trip_, round_trip);
  const Duration gap = now - last_;
  last_ = now;
  if (!limits) return;
  elapsed_ += std::min(gap, kLongestGap * least_round_trip_);
  is_beginning() ? begin(round_trip, now) : avoid(round_trip);
  window_ = std::min(window_, most_);
}

void CongestionWindow::begin(Duration round_trip, Time now) {
  if (now - round_trip >= round_began_) look_at_round(now);
  shortest_ = std::min(shortest_, round_trip);
  ++samples_;
  window_ += slow_rounds_ == kNoRounds ? 1 : kSuspiciousGrowth;
  if (samples_ < kSamplesOfRound || previous_ == Duration::max()) return;
  if (slow_rounds_ != kNoRounds) {
    if (shortest_ < suspected_) slow_rounds_ = kNoRounds;  // it was something else
    return;
  }
  const Duration delay = std::clamp<Duration>(previous_ / kShareOfRoundTrip, kLeastDelay, kMostDelay);
  if (shortest_ < previous_ + delay) return;
  suspected_ = shortest_;
  slow_rounds_ = 0;
}

// What was sent after the last look has come: a round is over.
void CongestionWindow::look_at_round(Time now) {
  round_began_ = now;
  if (samples_ > 0) previous_ = shortest_;
  shortest_ = Duration::max();
  samples_ = 0;
  if (slow_rounds_ == kNoRounds || ++slow_rounds_ < kSuspiciousRounds) return;
  threshold_ = window_;
  prior_ = window_;
  begin_epoch(window_);
}

void CongestionWindow::begin_epoch(double top) {
  top_ = top;
  reno_ = window_;
  elapsed_ = Duration(0);
  origin_ = std::cbrt(std::max(0.0, top - window_) / (kC / slowness_ / slowness_));
}

double CongestionWindow::cubic(double t) const {
  const double past_top = t - origin_;
  return kC / slowness_ / slowness_ * past_top * past_top * past_top + top_;
}

// RFC 9438, sections 4.2 to 4.5.
void CongestionWindow::avoid(Duration round_trip) {
  const double growth = reno_ < prior_ ? 3 * (1 - kBeta) / (1 + kBeta) : 1;
  reno_ += growth / slowness_ / window_;
  const double t = to_seconds(elapsed_);
  if (cubic(t) < reno_) {
    window_ = std::max(window_, reno_);
    return;
  }
  const double target =
      std::clamp(cubic(t + to_seconds(std::min(round_trip, kLongestGap * least_round_trip_))), window_, 1.5 * window_);
  window_ += (target - window_) / window_;
}

bool CongestionWindow::on_congestion(Time sent, Time now) {
  if (sent < shrunk_at_) return false;
  shrunk_at_ = now;
  // Who comes late to a full link gets room (fast convergence).
  const double top = !is_beginning() && window_ < top_ ? window_ * (1 + kBeta) / 2 : window_;
  prior_ = window_;
  window_ = std::max(window_ * kBeta, least_);
  threshold_ = window_;
  begin_epoch(top);
  return true;
}

}  // namespace switchml
