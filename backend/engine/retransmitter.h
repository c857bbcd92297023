// Which chunks a shard sends again, and when.
//
// - A timer for each slot, from measured round trips. Waiting for a slow rank looks like loss: so when timers expire,
//   only the oldest chunk of a lane is sent again. The others are only if something sent after them was answered. So a
//   lane that waits for a straggler costs one packet per timeout.
// - Gaps: Results of chunks that were sent later say that a chunk was lost.
// - In turn: The oldest chunk may wait for a rank that failed over a later one that shows that ranks disagree.
//   Each rank must get to see that, so now and then one more chunk is sent again.
//
// Pure: time is an argument, and the shard sends. Chunks are named by their slot's index in the shard. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "slots/slot_pool.h"
#include "timer/rtt_estimator.h"
#include "timer/timer_wheel.h"

namespace switchml {

/// One thread.
class Retransmitter {
 public:
  /// `slots`: the shard's; timeouts as in RttEstimator.
  Retransmitter(int slots, Duration rto_min, Duration rto_max, Time now);
  /// The next lane, of the slots that follow. `pool`, which says what is open, outlives this.
  void add_lane(const SlotPool& pool);

  /// A chunk was opened in this slot.
  void on_opened(int index);
  /// It was sent; whether it had been before. Its timer runs from now on.
  bool on_sent(int index, Time now);
  /// Precondition: it was sent.
  Time last_sent(int index) const { return chunks_[static_cast<size_t>(index)].last_sent; }
  /// It was answered. Its round trip, if it was sent only once: else it is not known which copy was (Karn's algorithm).
  std::optional<Duration> on_answered(int index, Time now);
  /// What came for it was damaged: the switch has its result, whatever the oldest chunk waits for.
  void on_damaged(int index) { chunks_[static_cast<size_t>(index)].has_result = true; }
  /// It goes to another switch, which knows nothing of it.
  void on_moved(int index);
  /// Stops all timers, until chunks are sent again.
  void stop();

  /// Calls fire(index) for each timer that has expired; fire() calls on_timeout().
  template <typename F>
  void sweep(Time now, F&& fire) {
    wheel_.sweep(now, fire);
  }
  /// Whether the chunk is to be sent again after its timer has expired; if not, its timer runs anew.
  bool on_timeout(int index, Time now);
  Time next_deadline() const { return wheel_.next_deadline(); }

  /// Calls repeat(index), which sends it again, for each chunk that later results of its lane show to be lost. That is
  /// every loss of a window at once, because the stream waits for the last of them.
  template <typename F>
  void repair_gaps(F&& repeat) {
    for (const Lane& lane : lanes_) repair_gaps(lane, repeat);
  }
  /// One more chunk, none of which is the oldest of its lane; -1: there is none.
  int next_in_turn();

 private:
  /// Results of this many later transmissions of the lane say that a chunk was lost and not just overtaken.
  static constexpr uint64_t kReorderWindow = 3;

  struct Chunk {
    Time last_sent{};
    uint64_t order = 0;  // Number of the last transmission within its lane.
    int attempts = 0;    // transmissions so far
    int backoff = 0;     // timer doublings
    int lane = 0;
    bool has_result = false;  // The switch has it, certainly.
  };
  struct Lane {
    int first_index;
    const SlotPool* pool;
    uint64_t next_order = 1;
    uint64_t answered_order = 0;  // highest order of a first transmission that was answered
  };

  template <typename F>
  void repair_gaps(const Lane& lane, F&& repeat);
  bool is_oldest(int index) const;
  Lane& lane_of(const Chunk& chunk) { return lanes_[static_cast<size_t>(chunk.lane)]; }
  const Lane& lane_of(const Chunk& chunk) const { return lanes_[static_cast<size_t>(chunk.lane)]; }

  RttEstimator rtt_;
  TimerWheel wheel_;
  std::vector<Chunk> chunks_;
  std::vector<Lane> lanes_;
  int turn_ = 0;  // the chunk that next_in_turn() gave last
};

// What was sent once was sent in the order of the stream, so the first of those that is too young ends the search.
// Without loss that is the oldest.
template <typename F>
void Retransmitter::repair_gaps(const Lane& lane, F&& repeat) {
  const int first = lane.pool->oldest_open();
  if (first < 0) return;
  for (int i = 0; i < lane.pool->size(); ++i) {
    const int place = (first + i) % lane.pool->size();
    if (!lane.pool->is_open(place)) continue;
    const Chunk& chunk = chunks_[static_cast<size_t>(lane.first_index + place)];
    if (chunk.order + kReorderWindow <= lane.answered_order) {
      repeat(lane.first_index + place);
    } else if (chunk.attempts == 1) {
      return;
    }
  }
}

}  // namespace switchml
