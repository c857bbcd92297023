// A collective as an engine takes it. Free of torch and of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/element_type.h"
#include "base/fnv.h"
#include "base/reduce_op.h"
#include "base/status.h"
#include "format/watermark.h"

namespace switchml {

/// The name of a call, "all_reduce", of static lifetime. Its hash is ready before the call.
class Title {
 public:
  constexpr Title(const char* text)  // NOLINT(google-explicit-constructor)
      : text_(text), hash_(fnv1a(std::string_view(text))) {}
  const char* text() const { return text_; }
  uint64_t hash() const { return hash_; }

 private:
  const char* text_;
  uint64_t hash_;
};
inline constexpr Title kAllReduceTitle = "all_reduce";

/// Which stream carries a collective, where a shard has two (docs/protocol.md, The stream).
enum class StreamChoice : uint8_t {
  kByLength,  // A short one goes in the short stream; a long one in the bulk stream, announced in the short one.
  kShort,     // Precondition: it has no more chunks than LaneSlots::data.
  kBulk,      // It is not announced: the caller sees to it that ranks find out which call differently.
};

/// Elements [begin, end) of something, and the memory that they go to.
struct OutputRange {
  void* data = nullptr;
  size_t begin = 0;
  size_t end = 0;
};

/// A reduction: the operands of this worker, and the part of the result that it wants.
struct Operands {
  const void* input = nullptr;  // Collective::count elements, contiguous.
  /// The input of each rank that this worker speaks for, instead of `input`. None may overlap `output`.
  std::vector<const void*> inputs;
  /// In place: from 0 to the collective's count. It may be the same memory as `input`, or not overlap at all.
  OutputRange output;
  /// Floats, kSum: the result is divided by this after the sum (average: the number of ranks). 1 ... kMaxRanks.
  uint32_t divisor = 1;
};
struct Reduce : Operands {
  int root = -1;  // The only worker that wants the result; -1: all may.
};
struct ReduceScatter : Operands {
  std::vector<size_t> scatter_ends;  // Where the part of each worker ends in the result; the same on all.
};

// ---- what moves elements: `type` is kUInt8, and `op` is kSum; in an exact session, or in memory [MOVED-1] ----

/// All get the input of the root.
struct Broadcast {
  int root = 0;
  const void* input = nullptr;  // Null but on the root.
  void* output = nullptr;       // Null on the root alone.
};
/// Each worker gets a piece of the root's.
struct Scatter {
  int root = 0;
  std::vector<const void*> inputs{};  // The piece of each worker, at the root.
  void* output = nullptr;
};
/// Each worker gets the inputs of all.
struct Gather {
  const void* input = nullptr;
  std::vector<OutputRange> receive_ranges;  // By worker: what to take of its input; empty: no result is wanted.
  /// By worker: is told which elements of its range have been written; null, or empty: nothing is.
  std::vector<ResultWatermark*> written{};
};
/// What an exchange is once all sizes are known.
struct ExchangePlan {
  size_t count = 0;  // Collective::count
  std::vector<OutputRange> receive_ranges;
};
/// A gathering for which ranks must know of each other's input first. In memory alone.
struct Exchange : Gather {
  size_t send_count = 0;        // Elements of `input`; the collective's count is 0 until the sizes are known.
  std::vector<uint64_t> sizes;  // What this worker tells the others; as many numbers on each.
  /// Gets the sizes of all, by worker. An error, which must be the same on all, ends this collective alone. It runs on
  /// an engine thread and must not block.
  std::function<Result<ExchangePlan>(const std::vector<uint64_t>& of_all)> on_sizes_known;
};

/// What happens to elements, as ranks agree about it and boards have it.
enum class Movement : uint8_t { kNone, kBroadcast, kScatter, kGather };  // [WIT-13]

/// Whether each worker has a piece of its own in the result.
inline constexpr bool has_piece_of_each(Movement movement) {
  return movement == Movement::kScatter || movement == Movement::kGather;
}

/// One collective. The engine reads inputs and writes outputs from submit() until `done` runs; both stay the caller's.
/// So do the watermarks.
struct Collective {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  size_t count = 0;  // Elements of the tensor, or of the piece that each worker has.
  std::variant<Reduce, ReduceScatter, Broadcast, Scatter, Gather, Exchange> kind;
  /// Elements of input() that may be read; null: all of them, as for every collective of one worker. What is not ready
  /// keeps what was submitted later from being sent.
  const Watermark* ready = nullptr;
  /// Is told which elements of output() have been written; null: nothing is. A Gather has others.
  ResultWatermark* written = nullptr;
  /// The collective fails with kTimeout if it is not complete by then.
  Time deadline = kNever;
  /// For messages: the number of the group's call that it belongs to, from 1 on.
  uint64_t sequence = 0;
  /// For messages, and part of what ranks must agree about.
  Title title = kAllReduceTitle;
  /// Whatever else ranks must agree about; compared with each chunk.
  uint64_t tag = 0;
  /// For messages, where this is only a part: the number of elements of the whole.
  size_t total_count = 0;
  /// A reduction: a switch of integers does not get it. All workers must choose alike.
  bool exactly = false;
  /// All workers must choose alike. Ignored where there is one stream only. Where it is chosen, collectives of the two
  /// streams have no order between them.
  StreamChoice stream = StreamChoice::kByLength;
  /// Runs exactly once, on a thread that does the engine's work, soon: it must not block. On an error, outputs may be
  /// partly written.
  std::function<void(const Status&)> done;

  /// Null unless it is a Reduce or a ReduceScatter: elements move.
  Operands* operands();
  const Operands* operands() const { return const_cast<Collective*>(this)->operands(); }
  /// Null unless it is a Gather or an Exchange.
  Gather* gather();
  const Gather* gather() const { return const_cast<Collective*>(this)->gather(); }
  Movement movement() const;
  /// -1: there is none.
  int root() const;
  /// The only input of this worker; null: it has none, or one of each rank or worker.
  const void* input() const;
  /// What it gets; of a Gather nothing, which has several ranges.
  OutputRange output() const;
  /// Whether the first `end` elements of input() may be read.
  bool is_ready(size_t end) const { return ready == nullptr || ready->elements() >= end; }
  /// Elements [begin, end) of the result have been written, as far as output() has them.
  void report_written(size_t begin, size_t end) const {
    if (written != nullptr) tell(written, output(), begin, end);
  }
  /// Elements [begin, end) of a worker's piece have been written, as far as its range has them. Precondition: a Gather.
  void report_gathered(size_t worker, size_t begin, size_t end) const;

 private:
  static void tell(ResultWatermark* written, const OutputRange& wanted, size_t begin, size_t end);
};

/// Elements of all that moves or is reduced: of a gathering or a scatter, the pieces of all workers one after the
/// other.
inline size_t elements_in_all(const Collective& collective, int workers) {
  return has_piece_of_each(collective.movement()) ? collective.count * static_cast<size_t>(workers) : collective.count;
}

/// "all_reduce(SUM, float32, 100 elements)", "broadcast(100 bytes)"
std::string describe(const Collective& collective);
/// Hash of what ranks must agree about beside operation, type and number of elements: title, tag, divisor, movement and
/// root.
uint64_t agreement_hash(const Collective& collective);
/// A collective of one worker, all of which is ready: the result is its input, exactly. Fails as
/// Exchange::on_sizes_known does.
Status complete_alone(const Collective& collective);

}  // namespace switchml
