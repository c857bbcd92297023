// How long a thread that waits may busy-poll before it sleeps. Busy-polling saves the wake-up where the wait is
// short, and takes a processor from others where it is not: so it is allowed only as long as it pays and no other
// thread wants the processor, and about as long as recent waits took, as KVM's halt polling does. Pure: time and counts
// are arguments.
#pragma once

#include "base/clock.h"

namespace switchml {

class SpinBudget {
 public:
  /// Kernel threads take a processor now and then; a program that wants it for itself does so every few milliseconds.
  static constexpr Duration kApart = milliseconds(20);
  /// The length after a wait that was too long: enough for a wake-up that is under way.
  static constexpr Duration kLeast = microseconds(50);
  /// `most`: of one wait; 0: never. Preemptions further apart than `apart` do not count; Duration::max(): each does.
  explicit SpinBudget(Duration most, Duration apart = kApart) : most_(most), apart_(apart), length_(most) {}

  /// How long a wait that begins now may busy-poll; 0: it has to sleep at once.
  Duration allowance(Time now) const { return now < resumes_ ? Duration(0) : length_; }
  /// How a wait with an allowance ended: `paid`: what was waited for came in that time. `preemptions`: how often the
  /// thread has lost its processor to another one so far; that never falls.
  void report(bool paid, long preemptions, Time now);
  /// A wait that did not pay has lasted so long, with its sleep: the next ones may busy-poll a half longer if that is
  /// allowed, else for kLeast.
  void report_sleep(Duration waited);

  /// The first pause; each that follows without a success in between is twice as long, up to the longest.
  static constexpr Duration kFirstPause = milliseconds(10);
  static constexpr Duration kLongestPause = seconds(1);
  /// At least one in four of so many waits in a row must have paid.
  static constexpr int kTrial = 32;

 private:
  void pause(Time now);

  Duration most_;
  Duration apart_;
  Duration length_;
  Duration pause_ = kFirstPause;
  Time resumes_{};
  int waits_ = 0;  // waits of the present trial
  int paid_ = 0;
  Time preempted_{};       // when
  long preemptions_ = -1;  // -1: not known yet
};

}  // namespace switchml
