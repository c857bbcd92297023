// The elements of a collective in the chunks of an exact session, in their own type, from the tensor to the frame and
// back. A worker for several ranks sends their reduction, rounded to the type; or their partial sums, exactly
// (exact/partial_sums.h). Free of I/O and state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exact/zero_blocks.h"
#include "format/collective.h"
#include "slots/chunk_plan.h"

namespace switchml {

class ExactCodec {
 public:
  /// For worker `worker` of `workers`. Keeps a reference. `tree`: inner switches round the sums of some workers.
  /// `sends_partial_sums`: those of floats, in chunks of at most `payload_bytes`.
  ExactCodec(const Collective& collective, int worker, int workers, bool tree = false, bool sends_partial_sums = false,
             size_t payload_bytes = 0)
      : collective_(collective),
        operands_(collective.operands()),
        gather_(collective.gather()),
        has_pieces_(has_piece_of_each(collective.movement())),
        output_(collective.output()),
        result_size_(switchml::result_bytes(collective.op, collective.type)),
        worker_(static_cast<size_t>(worker)),
        workers_(static_cast<size_t>(workers)),
        tree_(tree),
        is_partial_sum_(sends_partial_sums && has_partial_sums(collective.op, collective.type)),
        payload_bytes_(payload_bytes) {}

  /// As packets have it.
  ReduceOp operation() const { return is_partial_sum_ ? ReduceOp::kPartialSum : collective_.op; }

  /// The aggregator's divisor of the sum, as the header has it. For the mean of float16 and float8 it is 1 where
  /// workers speak for several ranks, and in trees: there each worker divides its part, because the sum of some ranks
  /// may overflow. It is 1 for other means too, where it would be more than kMaxHeaderDivisor.
  uint8_t divisor() const;
  /// Writes elements `range` to `out`, which has room for them, or for a payload of partial sums; returns the number of
  /// bytes, 0 where this worker contributes none. In a gather this also copies the worker's own piece to its output.
  /// What was reduced first is packed where that is worth it: then `left_out` is the number of blocks.
  size_t encode(ElementRange range, uint8_t* out, size_t* left_out) const;
  /// Packs elements that lie in the tensor as encode() would write them; not where they move. [ZERO-7]
  Packed pack(ElementRange range, uint8_t* out) const;
  /// Whether encode() may read what it needs of them.
  bool is_ready(ElementRange range) const;
  /// The input memory that has those elements as encode() would write them; null: none, or results may overwrite it.
  const uint8_t* source(ElementRange range) const;
  /// The memory that decode() would fill with the whole result of `range`; null: there is no such memory.
  uint8_t* target(ElementRange range) const;
  /// Whether this worker wants any of the result of `range`.
  bool wants(ElementRange range) const;
  /// Bytes of a contribution of those elements, and of their result.
  size_t bytes(ElementRange range) const { return range.count * element_bytes(collective_.type); }
  size_t result_bytes(ElementRange range) const { return range.count * result_size_; }
  /// Writes the result of `range` into the collective's output, as far as that asks for it.
  void decode(const ChunkView& chunk, ElementRange range) const;
  /// The result of `range` has been written there.
  void report_written(ElementRange range) const;

 private:
  bool divides_parts() const;
  size_t encode_partial_sum(ElementRange range, uint8_t* out) const;
  /// Encodes the elements of `range` of a broadcast, gather or scatter that this worker has.
  size_t encode_moved(ElementRange range, uint8_t* out) const;
  /// The part of a worker's piece in `range`.
  ElementRange piece(size_t worker, ElementRange range) const;
  ElementRange wanted() const;
  bool is_own(ElementRange range) const;
  bool output_follows_input() const;
  Packed pack_from(const uint8_t* elements, ElementRange range, uint8_t* out) const;
  /// The elements in the input, where they are sent unchanged; null: they are not, or there are none.
  const uint8_t* as_they_lie(ElementRange range) const;
  const uint8_t* input_of(size_t worker) const;
  uint8_t* output_of(size_t worker) const;
  const Collective& collective_;
  const Operands* const operands_;  // Null: elements move.
  const Gather* const gather_;      // Null: it is none.
  const bool has_pieces_;
  const OutputRange output_;
  const size_t result_size_;  // Bytes of the result of an element.
  const size_t worker_;
  const size_t workers_;
  const bool tree_;
  const bool is_partial_sum_;
  const size_t payload_bytes_;
};

}  // namespace switchml
