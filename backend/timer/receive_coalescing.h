// How long packets may wait in a socket so that a thread takes several at a time (interrupt coalescing, as network
// cards do it): to wake up costs more than to take one. Where packets stand in queues on their way, a share of that
// time can be waited without a link becoming idle. It is the round trip's time less the shortest one of late. Where the
// time goes elsewhere, into waiting for a processor say, all packets are there after a pause, and it was too long. Into
// waiting for a rank that is late: then nothing comes for a while, and what was sent before the end of that silence
// says nothing about queues. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace switchml {

class ReceiveCoalescing {
 public:
  /// A round trip of a packet that was sent once; it ended at `now`.
  void sample(Duration rtt, Time now);

  /// How long to wait before looking; 0: not at all.
  Duration pause(Time now);
  /// The thread has not waited, whatever pause() has said.
  void forget_pause() { paused_ = Duration(0); }
  /// What a pause has led to: of so many packets under way at its begin, so many had come when the last one was taken.
  void report(uint64_t come, uint64_t under_way, Time now);

  /// The shortest round trip of this window and the one before; the greatest Duration before the first sample.
  Duration shortest() const { return std::min(present_, previous_); }

  static constexpr Duration kWindow = seconds(30);
  static constexpr int kShare = 4;                            // a fourth of the time in queues
  static constexpr Duration kLeastPause = microseconds(100);  // a shorter one does not pay
  static constexpr Duration kMostPause = milliseconds(16);
  /// Nothing has come for so long after a pause: silence.
  static constexpr Duration kSilence = milliseconds(8);
  static constexpr int kSmoothing = 8;  // a sample's weight is one in so many, as in RFC 6298
  /// A rest from pauses after one that was too long; each further such one in a row doubles it, up to the longest.
  static constexpr Duration kFirstRest = milliseconds(10);
  static constexpr Duration kLongestRest = seconds(1);
  static constexpr int kGoodInARow = 8;  // pauses after which a too long one counts as the first again

 private:
  Duration present_ = Duration::max();  // shortest of the present window, of the one before
  Duration previous_ = Duration::max();
  Time begin_{};
  Duration smoothed_{};  // 0: no sample
  Duration paused_{};    // as pause() said last
  Time last_{};          // when a sample has come
  Time silent_until_{};
  Time resumes_{};
  Duration rest_ = kFirstRest;
  int good_ = 0;
};

}  // namespace switchml
