// The elements of a collective in the chunks of an exact session: as they are, from the tensor to the frame and back. A
// worker that speaks for several ranks sends what they make together, rounded to their type. Free of I/O and state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/collective.h"
#include "slots/chunk_plan.h"

namespace switchml {

class ExactCodec {
 public:
  /// Of one of `workers`. Keeps a reference. `tree`: sums of some of them are rounded.
  ExactCodec(const Collective& collective, int worker, int workers, bool tree = false)
      : collective_(collective),
        operands_(collective.operands()),
        gather_(collective.gather()),
        has_pieces_(has_piece_of_each(collective.movement())),
        output_(collective.output()),
        worker_(static_cast<size_t>(worker)),
        workers_(static_cast<size_t>(workers)),
        tree_(tree) {}

  /// What the aggregator divides the sum by. The mean of float16 is an exception where workers speak for several ranks,
  /// and in trees: each worker divides its part, because the sum of some ranks may be beyond what float16 holds.
  uint8_t divisor() const;
  /// Elements `range` to `out`, which has room for them; returns the number of bytes. None where this worker has
  /// nothing to say about them. What a worker gathers from itself gets to its output here.
  size_t encode(ElementRange range, uint8_t* out) const;
  /// Whether encode() may read what it needs of them.
  bool is_ready(ElementRange range) const;
  /// Where those elements lie as encode() would write them; null: nowhere, or results may be written there before.
  const uint8_t* source(ElementRange range) const;
  /// Where decode() would write all of the result of `range`, and nothing else; null: nowhere.
  uint8_t* target(ElementRange range) const;
  /// Whether this worker wants any of the result of `range`.
  bool wants(ElementRange range) const;
  size_t bytes(ElementRange range) const { return range.count * element_bytes(collective_.type); }
  /// Writes the result of `range` into the collective's output, as far as that asks for it.
  void decode(const uint8_t* elements, ElementRange range) const;
  /// The result of `range` has been written there.
  void report_written(ElementRange range) const;

 private:
  bool divides_parts() const;
  /// What the root, or each worker, has of `range` of what moves.
  size_t encode_moved(ElementRange range, uint8_t* out) const;
  /// A worker's piece, as far as it lies in `range`.
  ElementRange piece(size_t worker, ElementRange range) const;
  ElementRange wanted() const;
  bool is_own(ElementRange range) const;
  bool output_follows_input() const;
  /// The elements that travel as they lie in the input; null: these do not, or there are none.
  const uint8_t* as_they_lie(ElementRange range) const;
  const uint8_t* input_of(size_t worker) const;
  uint8_t* output_of(size_t worker) const;
  const Collective& collective_;
  const Operands* const operands_;  // Null: elements move.
  const Gather* const gather_;      // Null: it is none.
  const bool has_pieces_;
  const OutputRange output_;
  const size_t worker_;
  const size_t workers_;
  const bool tree_;
};

}  // namespace switchml
