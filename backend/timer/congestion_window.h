// Congestion window, in chunks: how many may be in flight, so that flows that share a link get equal shares of it, also
// beside TCP. It is CUBIC (RFC 9438) as in Linux's TCP, with HyStart++ (RFC 9406) in slow start. Lost chunks are the
// congestion signal, and ECN marks (RFC 3168) where a link sets them.
//
// - A worker may have several flows on one path. Each grows so much slower that all of them get what one would.
// - A round trip includes the wait for the slowest rank, which says nothing about links: see on_answered().
// - A timeout is no signal, because a late rank looks the same. Later answers that overtake a lost chunk reveal it.
// - HyStart++'s bounds of 4 and 16 ms are for the Internet. Here queues that hold 100 us count.
//
// Pure: time is an argument.
#pragma once

#include "base/clock.h"

namespace switchml {

/// One thread.
class CongestionWindow {
 public:
  /// One of `flows` flows on one path, each of `least` to `most` chunks. 1 <= least <= most, flows >= 1.
  CongestionWindow(int least, int most, int flows);

  int chunks() const { return static_cast<int>(cwnd_); }

  /// A chunk that was sent once was answered, after `round_trip`. `app_limited`: the window did not limit what was
  /// sent, and does not grow (RFC 9438, section 5.8).
  void on_answered(Duration round_trip, bool app_limited, Time now);
  /// A chunk that was sent at `sent` was lost or marked. Returns whether the window shrinks: it does so once for all
  /// chunks that were sent before it last shrank.
  bool on_congestion(Time sent, Time now);

 private:
  static constexpr double kInitialWindow = 10;  // chunks of all flows together (RFC 6928)
  static constexpr double kBetaCubic = 0.7;     // RFC 9438, section 4.6
  static constexpr double kC = 0.4;             // chunks/s^3; RFC 9438, section 5

  bool in_slow_start() const { return cwnd_ < ssthresh_; }
  void slow_start(Duration round_trip, Time now);
  void on_round_end(Time now);
  void congestion_avoidance(Duration round_trip);
  void begin_epoch(double w_max);
  double w_cubic(double t) const;

  const double least_;
  const double most_;
  const double flow_scale_;  // one of several flows grows slower by this factor
  double cwnd_;
  double ssthresh_;

  // ---- congestion avoidance: the epoch since the last congestion (RFC 9438, section 4.1.2) ----
  double w_max_ = 0;
  double cwnd_prior_ = 0;
  double k_ = 0;  // s
  double w_est_ = 0;
  Duration epoch_time_{};  // waits for ranks are left out
  Time last_answer_{};
  Time shrunk_at_ = Time::min();

  // ---- slow start: rounds of one round trip each (RFC 9406, section 4.2) ----
  static constexpr int kNotInCss = -1;
  Time round_began_ = Time::min();
  int rtt_samples_ = 0;
  Duration current_round_min_rtt_ = Duration::max();
  Duration last_round_min_rtt_ = Duration::max();
  Duration min_rtt_ = Duration::max();
  Duration css_baseline_min_rtt_ = Duration::max();
  int css_rounds_ = kNotInCss;  // rounds in conservative slow start
};

}  // namespace switchml
