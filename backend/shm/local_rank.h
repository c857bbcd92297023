// One rank's part in the reductions of its host, and of all hosts where the board has owners, written as a machine that
// is stepped: step(now) does what can be done without waiting. It reads no clock (time_lines() is given one) and starts
// no thread (local_rank_thread.h runs it).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "engine/engine.h"
#include "shm/arena.h"
#include "shm/board.h"
#include "shm/non_temporal_trial.h"
#include "shm/places.h"
#include "slots/chunk_plan.h"

namespace switchml::shm {

/// For a board with owners: how its chunks reach the other hosts.
struct HostUplink {
  /// Takes the chunks that this rank owns; null: it owns none. Fails when the local rank does. Must be gone, with all
  /// that it was given ended, before the board's memory is.
  Engine* engine = nullptr;
  /// Of the session's packets: chunks of the board fill them.
  size_t payload_bytes = 1024;
  bool exact = false;  // of the session
  /// Of the group's ranks; those of this host are the board's, in their order.
  std::optional<Places> places;
  /// Of the engine, for the chunks of this board.
  StreamChoice stream = StreamChoice::kByLength;
};

class LocalRank {
 public:
  /// `board` outlives it, and this is its only local rank of that rank. on_failure is told once, from inside step().
  /// `uplink`: where the board has owners.
  LocalRank(const Board& board, int rank, std::function<void(const Status&)> on_failure, HostUplink uplink = {});

  /// Thread-safe. After a failure the collective is finished with the reason at the next step.
  void submit(Collective collective);
  /// Thread-safe. Says on this board, by a chunk without elements, that `collective` is called on another one, so that
  /// ranks find out which choose different boards. Its end is that of the chunk. With `done` null nobody waits for it.
  void announce(Collective collective);
  /// How long the reading of a word takes.
  using LatencyTimer = Duration (*)(const std::atomic<uint64_t>& word);
  /// Finds out so whether lines that ranks write for each other are slow, and has them written with non-temporal stores
  /// where that is faster (non_temporal_trial.h). On all ranks of a board without owners, or on none, before the first
  /// step.
  void time_lines(LatencyTimer timer) { latency_timer_ = timer; }
  /// Other ranks then read and write tensors there where they are. Outlives it. Before the first step; not with owners.
  void share_tensors(Arena& arena) { arena_ = &arena; }
  /// A step of this local rank ends early where that one, of the board beside, has work; the same thread steps both.
  /// Before the first step.
  void let_overtake(LocalRank& other) {
    hurried_ = beside_ = &other;
    other.beside_ = this;
  }
  /// Before the first step.
  void warn_when_slow(SlowWarning slow) { slow_ = std::move(slow); }
  /// Thread-safe: the next step fails everything with `status` (the first one counts).
  void request_failure(const Status& status);

  /// Does a bounded part of what there is to do; true if there may be more. One thread at a time.
  bool step(Time now);
  /// Nothing happens before this time unless another rank does something, or something is submitted.
  Time next_wakeup() const { return called_ == 0 ? kNever : earliest_deadline_; }
  /// Whether nothing has been submitted that is not over. Between steps.
  bool is_idle() const { return tasks_.empty() && !attention_.load(std::memory_order_acquire); }
  /// Whether a step would do anything now.
  bool has_work() const;
  /// Whether it waits for other ranks, with which it is in the middle of something.
  bool waits_for_others() const { return called_ > 0; }
  /// Whether it has more to offer, but no slot to put it into.
  bool has_full_window() const { return offering_ < tasks_.size() && is_window_full(); }
  /// Until there is work, at most `timeout`; may return early. The thread of step().
  void sleep(Duration timeout) { sleep({this}, timeout); }
  /// The same for local ranks of one rank on boards that have the same doorbells; at least one.
  static void sleep(const std::vector<LocalRank*>& local_ranks, Duration timeout);
  /// Ends a sleep that runs or is to come. Thread-safe.
  void wake() {
    attention_.store(true, std::memory_order_release);
    board_.wake(rank_);
  }

  const WorkerCounters& counters() const { return counters_; }

 private:
  /// Where a tensor is in the segment, for all ranks, and how far it is from one piece to the next; 0: elsewhere.
  struct ArenaRange {
    uint64_t at = 0;
    uint64_t stride = 0;
  };
  struct Task {
    Collective collective;
    uint64_t first_seq = 0;  // once something of it has been offered
    uint64_t agreed = 0;
    size_t elements_per_chunk = 0;
    size_t chunks = 0;  // at least one
    size_t offered = 0;
    size_t finished = 0;
    bool is_announcement = false;
    bool is_slow = false;  // slow_ has been told
    bool is_known = true;  // Else its sizes come first, as a collective of their own.
    ArenaRange from;       // its input
    ArenaRange to;         // its result
    Status refused;        // By Exchange::on_sizes_known: there is nothing of it but its end.
    /// Somebody waits for its end. Until `done` is taken from it.
    bool is_awaited() const { return !is_announcement || collective.done != nullptr; }
  };
  struct Submission {
    Collective collective;
    bool is_announcement;
  };

  void submit(Submission submission);
  void take_submissions();
  void accept(Submission submission);
  void enqueue(Task task);
  Collective sizes_of(const Collective& collective, const Exchange& exchange);
  void on_sizes_known(const std::vector<uint64_t>& of_all);
  void plan(Task* task) const;
  ArenaRange arena_range(const std::vector<const void*>& pieces, size_t bytes) const;
  ArenaRange range_of_input(const Collective& collective) const;
  ArenaRange range_of_result(const Collective& collective) const;
  void say_ranges(const Task& task, ElementRange chunk, ChunkCall* call) const;
  void withdraw_tensors(const Status& status);
  size_t pieces_of(const ChunkCall& call) const;
  static size_t bytes_of_piece(const ChunkCall& call);
  void fill(const Task& task, size_t first, size_t elements) const;
  bool is_root(const Collective& collective) const;
  size_t elements_per_chunk(const Collective& collective) const;
  bool is_window_full() const;
  bool is_ready(const Task& task) const;
  bool can_offer() const;
  bool offer_one();
  bool has_memory(uint64_t seq);
  bool finish_one();
  void choose_stores(Time now);
  bool reduce_one();
  void time_a_line(uint64_t seq);
  bool can_hand_up() const;
  bool hand_one_up();
  Collective chunk_for_all(const Task& task, uint64_t seq) const;
  void take_result(const Task& task, size_t chunk, const uint8_t* result);
  static void write(ElementType type, const OutputRange& to, ElementRange chunk, const uint8_t* result);
  uint64_t awaited() const;
  bool is_roused() const;
  void check_deadline(Time now);
  std::string gone() const;
  void check_others();
  void warn_of_slowness(Time now);
  void check_board();
  Status differs_from(const std::string& whom) const;
  std::string name_of(int rank) const;
  std::string missing_text(Time now) const;
  void fail(const Status& status);

  const Board& board_;
  const int rank_;
  std::function<void(const Status&)> on_failure_;
  const HostUplink uplink_;
  const Places places_;
  WorkerCounters counters_;
  Arena* arena_ = nullptr;
  const LocalRank* hurried_ = nullptr;
  const LocalRank* beside_ = nullptr;
  std::vector<bool> populated_;  // by slot
  std::deque<Task> tasks_;
  size_t called_ = 0;    // of them: those that somebody waits for
  size_t offering_ = 0;  // collective of the next offer
  uint64_t next_ = 1;    // chunk to offer next
  uint64_t oldest_ = 1;  // chunk whose result is awaited next
  LatencyTimer latency_timer_ = nullptr;
  NonTemporalTrial trial_;  // rank 0's goes for all
  bool slow_lines_ = false;
  size_t finished_ = 0;  // chunks that it has not been told of
  uint64_t mine_ = 0;    // with an uplink: the chunk that this rank hands up next
  Time earliest_deadline_ = kNever;
  Time stuck_since_ = kNever;  // since when no result has been taken though one is awaited
  SlowWarning slow_;
  Status status_;

  std::mutex mutex_;  // guards the two below
  std::vector<Submission> submitted_;
  Status requested_failure_;
  std::atomic<bool> attention_{false};
};

}  // namespace switchml::shm
