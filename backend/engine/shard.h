// A shard: one thread's share of the engine, written as a machine that is stepped: step(now) does what can be done
// without waiting. It reads no clock and starts no thread, so that a simulator drives the very same code
// (shard_thread.h runs it).
//
// Collectives go in up to two streams, so that one of few chunks is not stuck behind one of many: the short one, and
// the bulk one, which has most of the slots. Each is in the order in which its collectives are called. A session of few
// slots has the short one only. Which lanes of slots a stream has, and what a chunk looks like, is the format's
// (format/format.h). All lanes have an order that is the same on all ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "engine/engine.h"
#include "engine/kept_results.h"
#include "engine/lanes.h"
#include "engine/retransmitter.h"
#include "engine/send_window.h"
#include "engine/switch_liveness.h"
#include "engine/task_queue.h"
#include "format/format.h"
#include "timer/receive_coalescing.h"
#include "transport/transport.h"

namespace switchml {

class Shard {
 public:
  /// `transport` has joined the session as shard `index`. on_failure is told once, from inside step() or fail().
  Shard(int index, const EngineOptions& options, std::unique_ptr<Transport> transport, Time now,
        std::function<void(const Status&)> on_failure);

  /// Thread-safe: queues this shard's part of a collective, in chunks of so many bytes (engine/shares.h; 0: of the
  /// payload). After a failure it is finished with the reason at the next step.
  void submit(std::shared_ptr<SharedCollective> collective, ElementRange part, size_t chunk_bytes = 0);
  /// Thread-safe: the next step fails everything with `status` (the first one counts).
  void request_failure(const Status& status);

  /// Takes submissions, receives a burst, sends, expires timers. True if there may be more to receive: step again
  /// before waiting. Only the shard's thread.
  bool step(Time now);
  /// Something was submitted or asked for since the last step. Thread-safe.
  bool has_attention() const { return attention_.load(std::memory_order_acquire); }
  /// No collective is under way. Only the shard's thread.
  bool is_idle() const { return !has_attention() && tasks_.empty() && !lanes_.any_in_flight(); }
  /// Whether the switch owes it results. Only the shard's thread.
  bool waits_for_results() const { return !suspended_ && lanes_.any_in_flight(); }
  /// How long results may be left to gather before the next step; 0: not at all. Where it is not, and nothing has come
  /// by then, the next one is. Only the shard's thread.
  Duration coalescing(Time now);
  /// Nothing happens before this time unless a frame or a submission arrives.
  Time next_wakeup() const;

  /// Thread-safe: runs in the next step, before anything else.
  void post(std::function<void(Time now)> call);

  // ---- see Relocatable; only the shard's thread ----
  void suspend();
  void set_waiting_for(const std::string& what) { waiting_for_ = what; }
  std::vector<uint32_t> accepted() const;
  std::vector<uint8_t> last_result(int index) const { return kept_.last(index); }
  void supply(const std::vector<uint8_t>& frame, Time now);
  void resume(const Route& route, std::unique_ptr<Transport> transport, Time now);

  /// Ends a wait of the shard's thread. Thread-safe.
  void wake();
  /// What wake() calls too; null: nothing. Thread-safe.
  void when_woken(std::function<void()> call);
  /// The one that frames go through now. Only the shard's thread.
  Transport& transport() { return *link_; }
  /// A link that resume() brought has the place of the first one. Only the shard's thread.
  bool is_away() const { return away_ != nullptr; }
  const WorkerCounters& counters() const { return counters_; }
  const Status& status() const { return status_; }
  size_t memory_bytes() const { return memory_bytes_; }
  int index() const { return index_; }
  int slots() const { return session_.slots_per_shard(); }

 private:
  struct Submission {
    std::shared_ptr<SharedCollective> collective;
    ElementRange part;
    size_t chunk_bytes = 0;
  };
  /// Chunks under way from which on a stream is one that results may gather for.
  static constexpr int kFlow = 32;

  // ---- shard.cc ----
  void take_submissions(Time now);
  void fail(const Status& status);
  std::string missing_text(Time now) const;
  void give_up_switch(const Status& status);
  void restart_window();

  // ---- shard_frames.cc ----
  void pump(Time now);
  bool open_next(Lane& lane, Time now);
  void transmit(InFlight& flight, Time now, bool asks = false);
  void repeat(int index, Time now) { transmit(lanes_.at(index), now); }
  /// The same of a chunk that may be there, and wait for other ranks'; by a direct link it is.
  void ask_again(int index, Time now) {
    if (!transport().is_direct()) transmit(lanes_.at(index), now, true);
  }
  void flush();
  void send(const SwitchLiveness::Request& request);
  bool receive(Time now);
  void on_frame(const RxFrame& frame, Time now);
  void on_data(const RxFrame& frame, Time now);
  void on_result(const ResultView& result, Time now);
  InFlight* awaited(uint16_t slot, uint32_t seq);
  void accept(InFlight& flight, const ResultView& result, Time now);
  void on_damaged(InFlight& flight, Time now);
  void fail_mismatch(const InFlight& flight, const char* or_else);
  /// The chunk in this slot of the shard was lost, or its result was marked.
  void on_congestion(int index, Time now);
  void on_reply(const RxFrame& frame, Time now);
  void fail_asked(Time now);

  // ---- shard_timeout.cc ----
  void expire(Time now);
  void check_deadline(Time now);
  void check_liveness(Time now);
  void judge_repeats(bool waited);
  void warn_of_slowness(Time now);
  void meet_again(Time now);
  /// Says with joins from now on how the switch reaches this transport.
  bool introduce(Time now);
  void introduce_if_unknown(Time now);
  void repeat_all(Time now);
  SwitchLiveness::Use earliest_use();

  const int index_;
  const EngineOptions options_;
  SessionParameters session_;
  const std::unique_ptr<Transport> home_;  // owns the frames
  std::unique_ptr<Transport> away_;        // Replaces home_ after a move.
  Transport* link_;
  std::mutex link_mutex_;             // others wake the link while the shard's thread replaces it
  std::function<void()> when_woken_;  // guarded by it too
  bool suspended_ = false;
  bool in_place_ = false;    // a switch was told where to write results
  std::string waiting_for_;  // while suspended, for messages
  std::function<void(const Status&)> on_failure_;
  WorkerCounters counters_;
  const std::unique_ptr<Format> format_;
  Lanes lanes_;
  TaskQueue tasks_;
  KeptResults kept_;
  size_t memory_bytes_ = 0;

  ReceiveCoalescing coalescing_;
  uint64_t gathered_at_ = 0;    // packets received when results were left to gather last
  int gathered_in_flight_ = 0;  // chunks under way then

  std::vector<TxFrame> tx_;
  size_t tx_bytes_ = 0;

  Time next_look_ = kNever;  // When it checks next that the queue pair of the switch is connected.
  Retransmitter retransmitter_;
  SendWindow window_;
  bool marked_ = false;    // the frame that came last
  uint64_t unjudged_ = 0;  // repeats that ask_again() has sent since the last result
  SwitchLiveness liveness_;

  Status status_;
  std::mutex mutex_;  // guards the three below, the only thread crossings into a shard
  std::vector<std::function<void(Time)>> posted_;
  std::vector<Submission> submitted_;
  Status requested_failure_;
  std::atomic<bool> attention_{false};
};

}  // namespace switchml
