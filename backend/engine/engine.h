// What takes a rank's collectives and completes them, and the session of those that go through a switch
// (engine/switch_engine.h). Free of torch and of sockets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/element_type.h"
#include "base/limits.h"
#include "base/reduce_op.h"
#include "base/status.h"
#include "transport/transport.h"
#include "wire/checksum.h"
#include "wire/control.h"

namespace switchml {

/// Which stream carries a collective, where a shard has two (docs/protocol.md, The stream).
enum class StreamChoice : uint8_t {
  kByLength,  // a short one the short stream; a long one the bulk stream, and announced in the short one
  kShort,     // precondition: it has no more chunks than LaneSlots::data
  kBulk,      // without being announced: the caller sees to it that ranks find out which call differently
};

/// What happens to elements, where it is not an operation.
enum class Movement : uint8_t {  // [WIT-13]
  kNone,
  kBroadcast,  // the result is the input of one worker, the root
  kScatter,    // the result is this worker's of the root's `inputs`
  kGather,     // the result is parts of the inputs of all workers
};

/// Whether each worker has a piece of its own in the result.
inline constexpr bool has_piece_of_each(Movement movement) {
  return movement == Movement::kScatter || movement == Movement::kGather;
}

/// Where elements [begin, end) of a worker's input go.
struct Piece {
  void* output = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

/// One collective. The engine reads `input` and writes `output` from submit() until `done` runs; both stay the
/// caller's. They may be the same memory, or not overlap at all.
struct Collective {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  const void* input = nullptr;  // `count` elements, contiguous
  /// Where this worker speaks for several ranks, the input of each, instead of `input`; of a scatter, the root's for
  /// each worker. None may overlap `output`.
  std::vector<const void*> inputs;
  size_t count = 0;
  /// Only elements [output_begin, output_end) of the result are written, to output[0...). In place: 0, count.
  void* output = nullptr;
  size_t output_begin = 0;
  size_t output_end = 0;
  /// Other than kNone: `type` is kUInt8, and `op` is kSum. In a native session, or in memory; there alone with
  /// `arrange`.
  Movement movement = Movement::kNone;
  /// Of a broadcast or a scatter: who has an input, or inputs. Of a reduction: who alone wants the result, or -1.
  int root = -1;
  /// Of a reduction of which each worker wants a part of its own, in their order: where these end. The same on all.
  std::vector<size_t> ends;
  /// Of a gathering, by worker, instead of `output`; none: this one wants no result.
  std::vector<Piece> pieces;
  /// Of a gathering: elements of `input`, where these are fewer than `count`, which is the same on all ranks.
  size_t input_end = SIZE_MAX;
  /// Of a gathering for which ranks must know of each other's input first: what this one says, as many numbers on each.
  /// `arrange` gets those of all, by worker, and sets `count`, `input_end` and `pieces`. An error, which must be the
  /// same on all, is the end of the collective alone. It runs on an engine thread and must not block.
  std::vector<uint64_t> numbers;
  std::function<Status(const std::vector<uint64_t>& of_all, Collective* collective)> arrange;
  /// Floats, kSum: the result is divided by this after the sum (average: the number of ranks). 1 ... kMaxWorkers.
  uint32_t divisor = 1;
  /// The collective fails with kTimeout if it is not complete by then.
  Time deadline = kNever;
  /// For messages: which call of the group it belongs to, from 1 on.
  uint64_t sequence = 0;
  /// For messages, and part of what ranks must agree about: "all_reduce".
  std::string title = "all_reduce";
  /// Whatever else ranks must agree about (the root of a reduce, say); compared through the witness.
  uint64_t tag = 0;
  /// For messages, where this is only a part: the number of elements of the whole.
  size_t part_of = 0;
  /// All workers must choose alike. Ignored where there is one stream only. Where it is chosen, collectives of the two
  /// streams have no order between them.
  StreamChoice stream = StreamChoice::kByLength;
  /// Runs exactly once, on a thread that does the engine's work, soon: it must not block. On an error, `output` may be
  /// partly written.
  std::function<void(const Status&)> done;
};

/// Elements of all that moves or is reduced: of a gathering or a scatter, the pieces of all workers one after the
/// other.
inline size_t elements_in_all(const Collective& collective, int workers) {
  return has_piece_of_each(collective.movement) ? collective.count * static_cast<size_t>(workers) : collective.count;
}

/// Which switch a group's streams go through, of those that it may have one after the other.
struct Route {
  uint8_t job = 0;
  uint32_t epoch = 0;
  uint64_t session_key = 0;  // lets a worker join; known to the switch
  Duration lease = seconds(30);
  Duration most_silence = Duration::max();  // the switch hears a member this often, however long the lease
  Duration renewal() const { return std::min<Duration>(lease / 4, most_silence); }  // [LEASE-5]
  bool controlled = false;  // requests are answered by a controller, whose silence says nothing about the switch
  Endpoint switch_endpoint;
  std::string switch_name;  // for messages: "127.0.0.1:40000 (embedded in rank 0)"
  uint64_t tree_id = 0;     // of switches that a controller has planned, each tree another one; 0: not planned
};

/// How a shard's slots are shared out among its lanes, which take them in this order. In a native session data lanes
/// announce too, and there are no others.
struct LaneSlots {
  int calls = 1;       // announce collectives, agree on exponents
  int data = 1;        // elements
  int bulk_calls = 0;  // exponents of the collectives of many elements, where these have lanes of their own
  int bulk_data = 0;

  /// Of `slots` slots, at least 2. Where there are few, all collectives share two lanes.
  static LaneSlots of(int slots, bool native = false) {
    if (native) return of_native(slots);
    if (slots < 8) return {1, slots - 1, 0, 0};  // [LANE-1]
    if (slots < kLeastSlotsForBulk) return {slots / 4, slots - slots / 4, 0, 0};
    const int part = std::min(slots / 16, 16);
    return {3 * part, part, part, slots - 5 * part};  // [LANE-1]
  }
  static LaneSlots of_native(int slots) {
    if (slots < kLeastNativeForBulk) return {0, slots, 0, 0};
    const int part = std::clamp(slots / 8, 4, 32);  // [NLANE-1]
    return {0, part, 0, slots - part};
  }
  bool has_bulk() const { return bulk_data > 0; }
};

/// What a session with a switch is, agreed by all workers before any engine starts.
struct SessionParameters : Route {
  int worker = 0;                         // this rank in its group, or its host among the hosts that the group runs on
  int workers = 1;                        // ranks in the group, or hosts
  int ranks = 0;                          // in the group; 0: as many as workers
  std::vector<std::string> worker_names;  // for messages, after the word "rank"; none: their numbers
  Endpoint own_address;  // of this rank's host, where the group's other hosts reach it; port 0; empty: nowhere
  int shards = 1;
  int slots = 8;  // of all shards together, a multiple of `shards`
  size_t payload_bytes = 1024;
  /// Native: tensors for which the payload is large travel in smaller chunks, down to so many bytes
  /// (Shares::chunk_bytes); 0: all chunks are as large as the payload.
  size_t least_chunk_bytes = 0;
  uint32_t weight = 1;          // of the aggregator, where there are several
  int beside = -1;              // which worker the aggregator shares a host with; -1: none
  bool native = false;          // elements travel as they are; else as integers
  bool tree = false;            // native: several switches add, and each rounds
  bool whole_chunks = false;    // the switch takes no words or a whole payload: shorter chunks are filled with zeros
  uint64_t secret[2] = {0, 0};  // of the ranks alone: keys the witness

  int slots_per_shard() const { return slots / shards; }  // [SHARD-1]
  LaneSlots lanes_per_shard() const { return LaneSlots::of(slots_per_shard(), native); }
  /// Native: what its packets are checked by.
  wire::ChecksumRule checksum_rule() const { return {session_key, switch_endpoint.carrier != Carrier::kRdma}; }
  size_t header_bytes() const { return native ? wire::kNativeHeaderBytes : wire::kHeaderBytes; }
  int contributing_ranks() const { return ranks == 0 ? workers : ranks; }  // [WORD-8]
  std::string name_of(int number) const {
    const auto i = static_cast<size_t>(number);
    return i < worker_names.size() ? worker_names[i] : std::to_string(number);
  }
  /// How this worker shows a switch that it belongs to the session.
  wire::Membership membership() const { return {job, epoch, session_key, static_cast<uint8_t>(worker)}; }
};

/// A session and others beside it, in that order.
inline std::vector<SessionParameters> with_others(const SessionParameters& first,
                                                  const std::vector<SessionParameters>& others) {
  std::vector<SessionParameters> all = others;
  all.insert(all.begin(), first);
  return all;
}

/// Who is told, and after how long, that a call waits for a rank or a switch: once of a call by each part of an engine
/// that works on it, from its thread; `missing` says what is. Null: nobody is.
struct SlowWarning {
  Duration after = seconds(30);
  std::function<void(const Collective& call, const std::string& missing)> tell;
};

struct EngineOptions {
  SessionParameters session;
  /// Sessions with further aggregators, to which this one's collectives are shared out too. Native as it is, of the
  /// same payload, ranks, shards and secret.
  std::vector<SessionParameters> others;
  /// Of a shard: to which of them it belongs, as on_switch_lost counts.
  size_t share = 0;
  size_t shares = 1;  // and of how many
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
  /// By thread: the processors that it runs on. Empty, or one of them empty: those of whoever starts the engine.
  std::vector<std::vector<int>> processors;
  /// Keep the last result of every slot, for ranks that have not got it when the switch is lost; so much more memory.
  bool keep_results = false;
  /// If set, the shards of a session whose switch is silent, gone or without memory of it suspend themselves and say
  /// why, from an engine thread (each of them), instead of failing. `share`: 0 is `session`, 1 the first of `others`.
  /// Must not block.
  std::function<void(size_t share, const Status&)> on_switch_lost;
  /// Told once when the engine gives up on its session (timeout, mismatch, switch gone), from an engine thread.
  std::function<void(const Status&)> on_failure;
};

/// "all_reduce(SUM, float32, 100 elements)", "broadcast(100 bytes)"
std::string describe(const Collective& collective);
/// Hash of what ranks must agree about beside operation, type and number of elements: title, tag, divisor, movement and
/// root.
uint64_t agreement_hash(const Collective& collective);

/// A calling thread in place of the engine's own: it does the work of the collectives that it submits meanwhile, and of
/// any others that come. When it goes, the engine's thread does what is left. Of one thread.
class CallerTurn {
 public:
  virtual ~CallerTurn() = default;
  /// Works until `over`, which only this work can make true, or for half a second. Nobody else may do any of it
  /// meanwhile: `over` must not wait for anything.
  virtual void work_until(const std::function<bool()>& over) = 0;
};

class Engine {
 public:
  /// abort() and join.
  virtual ~Engine() = default;

  /// Queues a collective. All ranks submit the same collectives in the same order; a rank that does not is found out by
  /// the witness and every rank gets kMismatch. Thread-safe; never blocks on the network. After a failure or abort()
  /// `done` runs at once with the reason. Precondition: integer_can(op, type); in memory, and in a native session,
  /// native_can(op, type).
  virtual void submit(Collective collective) = 0;

  /// A turn for the calling thread, where it can have one and nothing is under way; else null. Must end before the
  /// engine does. Callbacks of collectives then run in that thread too.
  virtual std::unique_ptr<CallerTurn> begin_turn() { return nullptr; }

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
