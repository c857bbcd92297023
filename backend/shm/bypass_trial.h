// Whether what ranks write for each other had better go past the caches. Where cores share a cache, a frame is read
// from there; where they do not (other core complexes, other sockets), a line that one has just written comes to the
// other several times slower than from memory. A virtual machine's cores may be moved from one to the other at any
// time, and nobody says so. So both are tried now and then in the middle of large tensors, and the faster one is used.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace switchml::shm {

/// Fed with the progress of one rank, it says what all are to do. The sums have the same bits either way. Reads no
/// clock. One thread.
class BypassTrial {
 public:
  /// A collective of so many chunks begins. Small ones are not measured, nor is anything tried on them.
  void begin(size_t chunks);
  /// So many more chunks of it had been finished by `now`.
  void finished(size_t chunks, Time now);
  /// For the chunks that are written from now on.
  bool bypasses() const { return leg_ % 2 == 1 && is_long_ ? !best_ : best_; }

  /// Chunks of a leg of a trial: those that were still written the other way, and those that are timed.
  static constexpr size_t kSkipped = 8;
  static constexpr size_t kTimed = 24;
  /// Of a trial: the present way, the other one, and, if that was better, both once more: it must be better then, too.
  static constexpr int kLegs = 4;
  /// The least chunks of a collective that is measured.
  static constexpr size_t kLong = 64;
  /// Chunks from one trial to the next, and to one at the earliest where chunks have become slower. That caches are
  /// shared no more shows in them; that they are shared again only in a trial.
  static constexpr size_t kBetween = 4096;
  static constexpr size_t kBetweenBypassing = 1024;
  static constexpr size_t kSoonest = 256;

 private:
  bool is_trying() const { return leg_ >= 0; }
  /// By an eighth at least: less is chance. And twice in a row: once may be somebody else's time slice.
  bool is_better() const { return took_[1] < took_[0] - took_[0] / 8; }
  void start_leg(int leg);
  void end_leg(Duration each);
  void decide(bool change);
  bool has_become_slow(Duration each);

  bool best_ = false;
  bool is_long_ = false;
  int leg_ = -1;             // of a trial; -1: none is being made
  size_t since_ = kBetween;  // chunks since the last trial; the first one is made soon
  size_t skipped_ = 0;       // chunks of this leg that do not count
  size_t timed_ = 0;         // those that do
  Time began_{};             // when the first of those was begun
  Duration took_[2] = {};    // a chunk of the present way and of the other one, in the last two legs
  Duration usual_{};         // a chunk of the present way, by the last trial; 0: not known
  int slow_ = 0;             // times in a row that it took much longer
};

}  // namespace switchml::shm
