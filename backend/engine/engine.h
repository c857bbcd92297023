// What takes a rank's collectives and completes them, and the session of those that go through a switch
// (engine/switch_engine.h). Free of torch and of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/limits.h"
#include "base/status.h"
#include "format/collective.h"
#include "format/session_parameters.h"
#include "transport/side_work.h"

namespace switchml {

/// What a part of an engine waits for.
struct EngineWait {
  uint64_t chunk = 0;   // Number of the chunk in its stream: the sequence number of its packets.
  int slot = 0;         // The slot that the chunk has.
  std::string missing;  // What is missing, for people.
};

/// What is called when a call has waited so long for a rank or a switch: once for a call by each part of an engine that
/// works on it, from its thread; `missing` says what is. Null: nothing.
struct SlowWarning {
  Duration after = seconds(30);
  std::function<void(const Collective& call, const std::string& missing)> tell;
  /// Called a few times a second while a call waits. Null: nothing.
  std::function<void(const Collective& call, const EngineWait& wait)> show{};
  static constexpr Duration kShown = milliseconds(250);  // A call that has waited for less is not shown.
};

struct EngineOptions {
  SessionParameters session;
  /// Sessions with further aggregators, to which this one's collectives are shared out too. Exact as it is, of the
  /// same payload, ranks, shards and secret.
  std::vector<SessionParameters> others;
  /// The session a shard belongs to, as on_switch_lost counts them.
  size_t share = 0;
  size_t shares = 1;  // Number of sessions.
  /// Where other engines have shards of the same sessions: the first of this one's. Its collectives are its own shards'
  /// alone.
  int first_shard = 0;
  Duration rto_min = milliseconds(5);
  Duration rto_max = milliseconds(200);
  /// Where frames may be lost, no more chunks are under way than a congestion window lets (timer/congestion_window.h).
  /// Else as many as there are slots.
  bool congestion_control = true;
  /// Where the numbers of each slot's uses begin, the same on all ranks: 1, by docs/protocol.md. Tests begin near the
  /// end of the 32 bits.
  uint32_t first_seq = kFirstSeq;
  /// A switch that is asked and says nothing for so long is taken for dead.
  Duration switch_patience = seconds(10);
  SlowWarning slow;
  /// How long a thread may look for results before it sleeps (engine/spin_wait.h, kSpin); 0: not at all.
  Duration spin{0};
  /// Each shard of each session has a thread, so that each session can move to links of its own. Else the sessions
  /// share the threads.
  bool own_threads = false;
  /// By thread: the processors that it runs on. Empty, or one of them empty: those of the thread that starts the
  /// engine.
  std::vector<std::vector<int>> processors;
  /// Keep the last result of every slot, for ranks that have not got it when the switch is lost; so much more memory.
  bool keep_results = false;
  /// The work of this host's aggregator, for which results of all sessions wait; null: its thread does it alone. It
  /// outlives the engine. An engine of several threads does not use it.
  SideWork* side_work = nullptr;
  /// If set, the shards of a session with a switch that is silent, gone or without memory of it suspend themselves and
  /// say why, from an engine thread (each of them), instead of failing. `share`: 0 is `session`, 1 the first of
  /// `others`. Must not block.
  std::function<void(size_t share, const Status&)> on_switch_lost;
  /// Told once when the engine gives up on its session (timeout, mismatch, switch gone), from an engine thread.
  std::function<void(const Status&)> on_failure;
};

/// A calling thread in place of the engine's own: it does the work of the collectives that it submits meanwhile, and of
/// any others that come. When it goes, the engine's thread does what is left. Of one thread.
class CallerTurn {
 public:
  virtual ~CallerTurn() = default;
  /// Works until `over`, which only this work can make true, or for half a second. No other thread may do any of it
  /// meanwhile: `over` must not wait for anything.
  virtual void work_until(const std::function<bool()>& over) = 0;
};

class Engine {
 public:
  /// abort() and join.
  virtual ~Engine() = default;

  /// Queues a collective. All ranks submit the same collectives in the same order; a rank that does not is found out,
  /// and every rank gets kMismatch. Thread-safe; never blocks on the network. After a failure or abort()
  /// `done` runs at once with the reason. Precondition: integer_can(op, type); in memory, and in an exact session,
  /// exact_can(op, type).
  virtual void submit(Collective collective) = 0;

  /// Whether it takes kSumToFloat32, which exact_can() allows: always the same, on all ranks. [NSUM-5]
  virtual bool sums_to_float32() const { return false; }

  /// A watermark of an input has risen (Collective::ready). Thread-safe.
  virtual void wake() {}

  /// A turn for the calling thread, which will submit collectives of so many bytes, where it can have one and nothing
  /// is under way; else null. Must end before the engine does. Callbacks of collectives then run in that thread too.
  virtual std::unique_ptr<CallerTurn> begin_turn(size_t /*bytes*/) { return nullptr; }

  /// Fails everything queued or running with kAborted and `reason`. Thread-safe, idempotent.
  virtual void abort(const std::string& reason) = 0;
  /// The same with another reason: a rank is gone, say. The first reason counts.
  virtual void fail(const Status& status) = 0;

  /// Why the engine stopped, or ok. Thread-safe.
  virtual Status status() const = 0;

  /// Parts that work side by side, each with counters of its own: shards of the switch, boards in shared memory.
  virtual int shards() const = 0;
  virtual const WorkerCounters& counters(int shard) const = 0;
  /// Bytes of frames (to send and to receive) and superblocks held, all shards: a constant of the session, whatever
  /// the tensors' sizes.
  virtual size_t memory_bytes() const = 0;
};

}  // namespace switchml
