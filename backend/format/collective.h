// A collective as an engine takes it. Free of torch and of sockets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/element_type.h"
#include "base/reduce_op.h"
#include "base/status.h"

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
  /// Other than kNone: `type` is kUInt8, and `op` is kSum. In an exact session, or in memory; there alone with
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

/// "all_reduce(SUM, float32, 100 elements)", "broadcast(100 bytes)"
std::string describe(const Collective& collective);
/// Hash of what ranks must agree about beside operation, type and number of elements: title, tag, divisor, movement and
/// root.
uint64_t agreement_hash(const Collective& collective);

}  // namespace switchml
