// What the ranks of a job call, and with which numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "random.h"
#include "slots/chunk_plan.h"
#include "slots/partial_sum_room.h"

namespace switchml::sim {

/// What the packets of a session carry: elements, or integers that stand for them.
struct Packets {
  size_t payload_bytes = 256;
  bool exact = false;
  size_t partial_sum_ranks = 0;           // SessionParameters::partial_sum_ranks
  int host_ranks = 1;                     // Ranks that the first worker speaks for: Call::ranks.
  std::optional<int> significant_bits{};  // of terms that integers stand for

  bool can(ReduceOp op, ElementType type) const;
  /// Elements of a chunk, and of a span.
  size_t chunk(ReduceOp op, ElementType type) const { return elements_per_chunk(type, room(op, type), exact, op); }
  size_t span(ReduceOp op, ElementType type) const { return elements_per_span(type, room(op, type), exact, op); }

 private:
  size_t room(ReduceOp op, ElementType type) const { return chunk_room(op, type, payload_bytes, partial_sum_ranks); }
};

/// The content of a tensor.
enum class Fill : uint8_t { kZeros, kSmallIntegers, kOrdinary, kTiny, kHuge, kAnyBits, kSpecials };
inline constexpr int kFills = 7;

/// One collective, as all ranks must call it.
struct Call {
  ReduceOp op = ReduceOp::kSum;
  ElementType type = ElementType::kFloat32;
  size_t count = 0;
  size_t output_begin = 0;
  size_t output_end = 0;
  bool in_parts = false;  // each rank wants a part of its own instead
  Movement movement = Movement::kNone;
  int root = -1;  // The only rank with input, or with a result.
  bool in_place = true;
  uint32_t divisor = 1;
  std::string title = "all_reduce";
  uint64_t tag = 0;
  Fill fill = Fill::kOrdinary;
  int shift = 0;      // Shifts the exponents of ordinary numbers.
  uint64_t seed = 0;  // Seed of the numbers.
  int ranks = 1;  // That the first worker speaks for in a reduction; the next one for one less, and so on, down to 1.

  int ranks_of(int worker) const { return movement == Movement::kNone ? ranks - worker % ranks : 1; }
  /// Elements of the whole result, of which a rank wants some.
  size_t all(int workers) const { return count * (has_piece_of_each(movement) ? static_cast<size_t>(workers) : 1); }
  ElementRange wanted(int rank, int workers) const;
};
using Program = std::vector<Call>;

/// A few calls of any kind, or a few steps of the same calls.
Program draw_program(Random& random, int workers, const Packets& packets);
/// The same call with one thing changed that ranks must agree about.
Call disagree(Random& random, Call call, const Packets& packets);

/// What belongs to a worker, or to a rank that it speaks for: its input; of a scatter, what the root has for it.
std::vector<uint8_t> input_of(const Call& call, int worker, int rank = 0);
/// What belongs to all of them, one after the other.
std::vector<uint8_t> joined_inputs(const Call& call, int workers);
/// What a worker gives; of several ranks one after the other.
std::vector<uint8_t> given_by(const Call& call, int rank, int workers);

}  // namespace switchml::sim
