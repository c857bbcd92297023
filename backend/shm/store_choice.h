// Whether what ranks write for each other had better bypass the caches. Where cores share a cache, a frame is read
// from there; where they do not (other core complexes, other sockets), a line that one has just written may come to the
// other several times slower than from memory. A virtual machine's cores may be moved from one to the other at any
// time, without notice. But ranks see how long such lines take: while they are slow, both ways are tried now and
// then in the middle of large tensors, and the faster one is used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "shm/board.h"

namespace switchml::shm {

/// How long the reading of a word takes. Thread-safe.
using LatencyTimer = Duration (*)(const std::atomic<uint64_t>& word);
/// Reads `word` once; how long that took, two readings of the clock included (20 to 40 ns together where they are no
/// system calls).
Duration time_to_read(const std::atomic<uint64_t>& word);

/// What the lines that ranks read from each other have taken lately, as a number that all of them move: 0 (fast, as at
/// first) ... kMost (slow). It settles at one end where more than a quarter of them are slow, or less.
class LatencyScore {
 public:
  /// What takes as long, the reading of the clock included, comes from a core that shares no cache with this one: then
  /// 120 to 180 ns were measured, else 30 to 100. Where another machine, or a slow clock, makes everything slow, there
  /// is a trial now and then.
  static constexpr Duration kSlow = nanoseconds(120);
  static constexpr int kMost = 96;
  static int after(int score, Duration took);
  /// Whether lines are slow, where they were so before or not.
  static bool is_slow(int score, bool was_slow) { return was_slow ? score > kMost / 4 : score > kMost * 3 / 4; }
};

/// Fed with the progress of one rank, it says what all are to do. The sums have the same bits either way. Reads no
/// clock. One thread.
class NonTemporalTrial {
 public:
  /// A collective of so many chunks begins. Small ones are not measured, nor is anything tried on them.
  void begin(size_t chunks);
  /// So many more chunks of it had been finished by `now`, and lines are slow at present. The moment they are not,
  /// nothing bypasses the caches.
  void finished(size_t chunks, Time now, bool slow_lines);
  /// Whether the chunks that are written from now on bypass the caches.
  bool bypasses() const { return leg_ % 2 == 1 && is_long_ ? !best_ : best_; }

  /// Chunks of a leg of a trial: those that were still written the other way, and those that are timed.
  static constexpr size_t kSkipped = 8;
  static constexpr size_t kTimed = 24;
  /// Legs of a trial: the present way, the other one, and, if that was better, both once more: it must win twice.
  static constexpr int kLegs = 4;
  /// The least chunks of a collective that is measured.
  static constexpr size_t kLong = 64;
  /// Chunks from one trial to the next, while lines stay slow. The first one is made when they become so.
  static constexpr size_t kBetween = 4096;

 private:
  bool is_trying() const { return leg_ >= 0; }
  /// At least an eighth is better: less is chance. And twice in a row: once may be another program's time slice.
  bool is_better() const { return took_[1] < took_[0] - took_[0] / 8; }
  void forget();
  void start_leg(int leg);
  void end_leg(Duration each);

  bool best_ = false;
  bool is_long_ = false;
  int leg_ = -1;             // the trial's; -1: none is being made
  size_t since_ = kBetween;  // chunks since the last trial
  size_t skipped_ = 0;       // chunks of this leg that do not count
  size_t timed_ = 0;         // those that do
  Time began_{};             // when the first of those was begun
  Duration took_[2] = {};    // a chunk of the present way and of the other one, in the last two legs
};

/// One rank's part in it: each times lines of the others, and rank 0's trial goes for all. Idle without a timer.
class StoreChoice {
 public:
  StoreChoice(const Board& board, int rank) : board_(board), rank_(rank) {}
  void time_lines(LatencyTimer timer) { timer_ = timer; }
  /// Once for each chunk that this rank reduces.
  void time_a_line(uint64_t seq);
  /// A result has come: number `index` of a collective of so many chunks.
  void on_chunk(size_t index, size_t chunks);
  /// Says on the board how all are to write from now on.
  void choose(Time now);

 private:
  const Board& board_;
  const int rank_;
  LatencyTimer timer_ = nullptr;
  NonTemporalTrial trial_;
  bool slow_lines_ = false;
  size_t finished_ = 0;  // chunks that the trial has not been told of
};

}  // namespace switchml::shm
