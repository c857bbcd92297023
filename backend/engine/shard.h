// A shard: one thread's share of the engine, written as a machine that is stepped: step(now) does what can be done
// without waiting. It reads no clock and starts no thread, so that a simulator drives the very same code
// (shard_thread.h runs it).
//
// A stream has two lanes of slots. The call lane carries one chunk per superblock of every collective, ahead of the
// data: it announces the collective (ranks that disagree find out by its witness) and agrees on exponents. The data
// lane carries elements, tensor after tensor without a gap. All lanes have an order that is the same on all ranks.
//
// There are two streams, so that a collective of few chunks is not stuck behind one of many: the short one, and the
// bulk one, which has most of the slots. Each is in the order in which its collectives are called, and the short one's
// call lane announces those of the bulk stream too, so that ranks that disagree find out whichever streams they chose.
// A session of few slots has the short one only.
//
// In a native session there are no exponents: each stream has one lane, in which elements follow one another, and the
// short one's announces what has no chunks in it (shard_native.cc).
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
#include "engine/retransmitter.h"
#include "engine/superblock_ring.h"
#include "engine/switch_liveness.h"
#include "engine/task.h"
#include "quant/witness.h"
#include "slots/slot_pool.h"
#include "timer/congestion_window.h"
#include "timer/receive_coalescing.h"
#include "transport/transport.h"
#include "wire/packet.h"

namespace switchml {

/// A slot that waits for its result. Its frame keeps the very bytes that were sent, for as long as it is open.
struct InFlight {
  Task* task = nullptr;
  Stage stage = Stage::kCall;
  size_t superblock = 0;
  ElementRange range;
  size_t words = 0;         // that mean something; of integers
  size_t sent_bytes = 0;    // behind the header: these, and zeros behind them where the switch wants whole chunks
  size_t result_bytes = 0;  // native: of the result, behind the header
  uint16_t slot = 0;
  uint32_t seq = 0;
  uint32_t mask = 0;  // native: the call
  int lane = 0;
  int index = 0;             // slot of this shard
  uint8_t* frame = nullptr;  // header, then words or elements
  // Native, over RDMA: in place of the elements there, those of a tensor; and where the result may be written.
  const uint8_t* elements = nullptr;
  bool has_target = false;
  int witness_failures = 0;
};

struct Lane {
  Lane(int number_in, int first, int size, int first_index_in, uint32_t first_seq)
      : number(number_in), first_index(first_index_in), pool(first, size, first_seq) {}
  int number;
  int first_index;  // of its first slot among the shard's
  SlotPool pool;
};

/// Collectives in the order in which they were called, and what their chunks go through.
struct Stream {
  Stream(Task::Stream kind_in, size_t calls_in, size_t data_in, SuperblockRing ring_in)
      : kind(kind_in), calls(calls_in), data(data_in), ring(std::move(ring_in)) {}
  Task::Stream kind;
  size_t calls;  // its lanes
  size_t data;
  SuperblockRing ring;
  uint64_t call_cursor = 0;  // collective whose call chunks are being opened; those of other streams are passed over
  uint64_t data_cursor = 0;
};

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
  /// Whether the switch owes it results. Only the shard's thread.
  bool waits_for_results() const { return !suspended_ && any_in_flight(); }
  /// How long results may be left to gather before the next step; 0: not at all. Where it is not, and nothing has come
  /// by then, the next one is. Only the shard's thread.
  Duration coalescing(Time now);
  /// Nothing happens before this time unless a frame or a submission arrives.
  Time next_wakeup() const;

  /// Thread-safe: runs in the next step, before anything else.
  void post(std::function<void(Time now)> call);

  // ---- shard_move.cc: see Relocatable. Only the shard's thread ----
  void suspend();
  void set_waiting_for(const std::string& what) { waiting_for_ = what; }
  std::vector<uint32_t> accepted() const;
  std::vector<uint8_t> last_result(int index) const;
  void supply(const std::vector<uint8_t>& frame, Time now);
  void resume(const Route& route, std::unique_ptr<Transport> transport, Time now);

  /// Ends a wait of the shard's thread. Thread-safe.
  void wake();
  /// The one that frames go through now. Only the shard's thread.
  Transport& transport() { return *link_; }
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
  void finish_tasks();
  void on_task_progress(Task& task);
  Task* task_at(uint64_t serial);
  void make_lanes(int first_slot);
  void make_streams(const LaneSlots& shares);
  Lane& lane_of(uint16_t slot);
  Lane& calls_of(const Stream& stream) { return lanes_[stream.calls]; }
  Lane& data_of(const Stream& stream) { return lanes_[stream.data]; }
  SuperblockRing& ring_of(const Task& task) { return streams_[task.is_bulk() ? 1 : 0].ring; }
  bool any_in_flight() const;
  InFlight* oldest(const Lane& lane);
  std::string missing_text(Time now) const;

  // ---- shard_tx.cc: from tensors to frames ----
  void pump(Time now);
  void announce(Task& task, Time now);
  bool open_call(Stream& stream, Time now);
  bool open_data(Stream& stream, Time now);
  bool skip_to_data_task(Stream& stream);
  void open_nonfinite(Task& task, Superblock* superblock, Lane& lane, Time now);
  InFlight& open_slot(Lane& lane, Task& task, Stage stage, size_t superblock, ElementRange range);
  static uint8_t* words_of(const InFlight& flight) { return flight.frame + wire::kHeaderBytes; }
  uint32_t mask_of(const InFlight& flight, uint64_t exponents_hash) const;
  void seal(InFlight& flight, size_t words, uint64_t exponents_hash, Time now);
  void transmit(InFlight& flight, Time now, bool asks = false);
  TxFrame frame_of(const InFlight& flight, bool is_repeat) const;
  void repeat(int index, Time now) { transmit(in_flight_[static_cast<size_t>(index)], now); }
  /// The same of a chunk that may be there, and wait for other ranks'.
  void ask_again(int index, Time now) { transmit(in_flight_[static_cast<size_t>(index)], now, true); }
  void flush();
  void send(const SwitchLiveness::Request& request);

  // ---- shard_rx.cc: from frames to tensors ----
  bool receive(Time now);
  void on_frame(const RxFrame& frame, Time now);
  void on_reply(const RxFrame& frame, Time now);
  void fail_asked(Time now);
  void on_words(const RxFrame& frame, Time now);
  void on_result(const wire::DataPacket& packet, Time now);
  InFlight* awaited(uint16_t slot, uint32_t seq);
  void accept(InFlight& flight, const uint8_t* frame, size_t size, Time now);
  bool witness_holds(const InFlight& flight, const wire::DataPacket& packet) const;
  void on_bad_witness(InFlight& flight, Time now);
  void consume(InFlight& flight, const wire::DataPacket& packet);

  // ---- shard_window.cc: how many chunks are under way ----
  void make_window();
  bool window_allows(const Stream& stream);
  void repair_gaps(Time now);
  /// The chunk in this slot of the shard was lost, or its result was marked.
  void on_congestion(int index, Time now);

  // ---- shard_native.cc: elements as they are ----
  bool open_native(Stream& stream, Time now);
  void announce_native(Task& task, Time now);
  void seal_native(InFlight& flight, size_t bytes, bool wants_result, Time now);
  void place_native(InFlight& flight, bool wants_result);
  const uint8_t* without_target(const InFlight& flight) const;
  void on_elements(const RxFrame& frame, Time now);
  void on_native_result(const wire::NativePacket& packet, Time now);
  void on_disagreement(const InFlight& flight);

  // ---- shard_move.cc ----
  void give_up_switch(const Status& status);
  void keep(const InFlight& flight, const uint8_t* frame, size_t size);
  void readdress(const InFlight& flight) const;

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
  const uint32_t nonce_;  // what the witness covers: the first epoch
  const EngineOptions options_;
  SessionParameters session_;
  const std::unique_ptr<Transport> home_;  // owns the frames
  std::unique_ptr<Transport> away_;        // in place of it, after a move
  Transport* link_;
  std::mutex link_mutex_;  // others wake the link while the shard's thread replaces it
  bool suspended_ = false;
  bool in_place_ = false;    // a switch was told where to write results
  std::string waiting_for_;  // while suspended, for messages
  std::function<void(const Status&)> on_failure_;
  quant::Witness witness_;
  ReceiveCoalescing coalescing_;
  uint64_t gathered_at_ = 0;    // packets received when results were left to gather last
  int gathered_in_flight_ = 0;  // chunks under way then
  WorkerCounters counters_;
  size_t memory_bytes_ = 0;

  std::vector<Lane> lanes_;          // as in LaneSlots
  std::vector<Stream> streams_;      // the short one, the bulk one
  std::vector<InFlight> in_flight_;  // by slot of this shard
  std::deque<std::unique_ptr<Task>> tasks_;
  uint64_t first_serial_ = 0;   // of tasks_.front()
  size_t short_under_way_ = 0;  // collectives of the short stream that lack chunks or results

  std::vector<uint8_t> kept_;  // results, a stride each
  std::vector<uint32_t> kept_size_;

  std::vector<TxFrame> tx_;
  size_t tx_bytes_ = 0;

  Time next_look_ = kNever;          // at whether the transport still knows the switch
  Time earliest_deadline_ = kNever;  // not after any collective's deadline
  Retransmitter retransmitter_;
  std::optional<CongestionWindow> window_;  // none: as many chunks as there are slots
  bool marked_ = false;                     // the frame that came last
  uint64_t unjudged_ = 0;                   // repeats that ask_again() has sent since the last result
  int owed_ = 0;                            // chunks that may go beyond the window, in this step
  bool window_limits_ = false;              // what was sent last
  SwitchLiveness liveness_;

  Status status_;
  std::mutex mutex_;  // guards the three below, the only thread crossings into a shard
  std::vector<std::function<void(Time)>> posted_;
  std::vector<Submission> submitted_;
  Status requested_failure_;
  std::atomic<bool> attention_{false};
};

}  // namespace switchml
