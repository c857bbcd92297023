// How many chunks may be under way, so that flows that share a link get like shares of it, and TCP beside them too:
// CUBIC (RFC 9438), as Linux's TCP has it. Lost chunks, and marks where a link sets them (ECN, RFC 3168), say that it
// is full; before that, at the beginning, that round trips take longer (HyStart++, RFC 9406).
//
// - A worker may have several flows on its way. Each grows so much slower that all of them get what one would.
// - A round trip includes the wait for the slowest rank, which says nothing about links: see on_answered().
// - A timeout is no sign, because a rank that is late looks the same; a lost chunk is found by what overtook it.
// - HyStart++'s bounds of 4 and 16 ms are for the Internet. Here queues that hold 100 us count.
//
// Pure: time is an argument.
#pragma once

#include "base/clock.h"

namespace switchml {

/// One thread.
class CongestionWindow {
 public:
  /// Of one of `flows` flows that share their way, each of `least` to `most` chunks. 1 <= least <= most, flows >= 1.
  CongestionWindow(int least, int most, int flows);

  /// That may be under way.
  int chunks() const { return static_cast<int>(window_); }

  /// A chunk that was sent once was answered, after `round_trip`. `limits`: more would have been sent, had the window
  /// let it; it does not grow otherwise.
  void on_answered(Duration round_trip, bool limits, Time now);
  /// A chunk that was sent at `sent` was lost or marked. Whether the window shrinks: what was sent before it did last
  /// is no news.
  bool on_congestion(Time sent, Time now);

 private:
  static constexpr double kInitial = 10;  // chunks of all flows together (RFC 6928)
  static constexpr double kBeta = 0.7;    // what congestion leaves
  static constexpr double kC = 0.4;       // chunks/s^3

  bool is_beginning() const { return window_ < threshold_; }
  void begin(Duration round_trip, Time now);
  void look_at_round(Time now);
  void avoid(Duration round_trip);
  void begin_epoch(double top);
  double cubic(double t) const;

  const double least_;
  const double most_;
  const double slowness_;  // of one flow: how much slower it grows than the only one would
  double window_;
  double threshold_;  // below it the window begins: it doubles each round trip

  // ---- the epoch since the last congestion ----
  double top_ = 0;      // window at which it was
  double prior_ = 0;    // window before it shrank
  double origin_ = 0;   // s after its begin, at which the curve is back at the top
  double reno_ = 0;     // the window that Reno would have
  Duration elapsed_{};  // of it, without waits for ranks
  Time last_{};         // answer
  Time shrunk_at_ = Time::min();

  // ---- the beginning: rounds of one round trip each (HyStart++) ----
  static constexpr int kNoRounds = -1;
  Time round_began_ = Time::min();
  int samples_ = 0;
  Duration shortest_ = Duration::max();  // round trip of this round, of the one before, and of all
  Duration previous_ = Duration::max();
  Duration least_round_trip_ = Duration::max();
  Duration suspected_ = Duration::max();  // shortest of the round that seemed slow
  int slow_rounds_ = kNoRounds;           // that the suspicion has lasted
};

}  // namespace switchml
