// One rank's part in the reductions of its host, and of all hosts where the board has owners, written as a machine that
// is stepped: step(now) does what can be done without waiting. It starts no thread (local_rank_thread.h runs it) and
// reads no clock but the one of time_copies().
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
#include "shm/board.h"
#include "shm/host_map.h"
#include "shm/tensor_chunks.h"

namespace switchml::shm {

/// How the chunks of a board with owners reach the other hosts.
struct HostUplink {
  /// Takes the chunks that this rank owns; null: it owns none. Fails when the local rank does. Must be gone, with all
  /// that it was given ended, before the board's memory is.
  Engine* engine = nullptr;
  /// Payload of the session's packets: chunks of the board fill them.
  size_t payload_bytes = 1024;
  bool exact = false;  // the session is exact
  /// Where the group's ranks are; those of this host are the board's, in their order.
  std::optional<HostMap> host_map;
  /// The engine's stream for the chunks of this board.
  StreamChoice stream = StreamChoice::kByLength;
  size_t partial_sum_ranks = 0;  // The session's.
};

class LocalRank {
 public:
  /// `board` outlives it, and this is its only local rank of that rank. on_failure is told once, from inside step().
  /// `uplink`: where the board has owners.
  LocalRank(const Board& board, int rank, std::function<void(const Status&)> on_failure, HostUplink uplink = {});

  /// Thread-safe. After a failure the collective is finished with the reason at the next step.
  void submit(Collective collective);
  /// Thread-safe. Says on this board, by a chunk without elements, that `collective` is called on another one, so that
  /// ranks find out which choose different boards. Its end is that of the chunk. With `done` null no caller waits for
  /// it.
  void announce(Collective collective);
  /// Other ranks then read and write tensors in place. `arena` outlives it. Before the first step; not with owners.
  void share_tensors(Arena& arena) { tensors_.share_tensors(arena); }
  /// A step ends early when `priority`, of this rank on the board beside, has work. The same thread steps both. Before
  /// the first step.
  void yield_to(LocalRank& priority) {
    priority_rank_ = sibling_ = &priority;
    priority.sibling_ = this;
  }
  /// Tells how long copies take. Before the first step.
  void time_copies(Clock clock) { clock_ = clock; }
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
  struct Task : ChunkedCall {
    uint64_t first_seq = 0;  // once something of it has been offered
    size_t offered = 0;
    size_t finished = 0;
    bool is_slow = false;  // slow_ has been told
    bool is_known = true;  // false: a collective of its sizes comes first
    Status refused;        // why Exchange::on_sizes_known refused it: it has no chunk of elements then
    /// A caller waits for its end. Until `done` is taken from it.
    bool is_awaited() const { return !is_announcement || collective.done != nullptr; }
  };
  struct Submission {
    Collective collective;
    bool is_announcement;
  };

  void submit(Submission&& submission);
  void take_submissions();
  void accept(Submission&& submission);
  void enqueue(Collective&& collective, bool is_announcement, bool is_known);
  Collective sizes_of(const Collective& collective, const Exchange& exchange);
  void on_sizes_known(const std::vector<uint64_t>& of_all);
  bool is_window_full() const;
  bool is_ready(const Task& task) const;
  bool can_offer() const;
  bool offer_one();
  bool has_memory(uint64_t seq);
  bool finish_one();
  bool can_make() const;
  bool make_one();
  const Task& task_of(uint64_t seq) const;
  bool can_hand_up() const;
  bool hand_one_up();
  Collective chunk_for_all(const Task& task, uint64_t seq) const;
  void take_result(const Task& task);
  bool has_results_to_come() const;
  uint64_t awaited(uint64_t first) const;
  uint32_t fall_asleep() const;
  bool owes_part(int rank) const;
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
  const HostMap host_map_;
  WorkerCounters counters_;
  TensorChunks tensors_;
  const LocalRank* priority_rank_ = nullptr;
  const LocalRank* sibling_ = nullptr;
  std::vector<bool> populated_;  // indexed by slot
  std::deque<Task> tasks_;
  std::vector<Submission> taken_;  // Empty between steps; its memory stays.
  size_t called_ = 0;              // tasks that a caller waits for
  size_t offering_ = 0;            // collective of the next offer
  uint64_t next_ = 1;              // chunk to offer next
  uint64_t oldest_ = 1;            // the next result to take is this chunk's
  uint64_t mine_ = 1;  // the chunk of which this rank makes its part next, or, with owners, that it hands up
  Time earliest_deadline_ = kNever;
  Time stuck_since_ = kNever;  // since when no result has been taken though one is awaited
  Time looked_at_{};           // when it has looked last what is missing
  SlowWarning slow_;
  Clock clock_ = [] { return Time(); };
  Status status_;

  std::mutex mutex_;  // guards the two below
  std::vector<Submission> submitted_;
  Status requested_failure_;
  std::atomic<bool> attention_{false};
};

}  // namespace switchml::shm
