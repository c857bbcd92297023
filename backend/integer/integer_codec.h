// The words of a collective's chunks on the wire, and the kernels that write and read them. Free of I/O and state; one
// instance per collective and shard. A worker for several ranks combines their words as the switch would: largest
// exponent, sum, maximum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "format/format.h"
#include "integer/block_exponent.h"
#include "integer/superblock_ring.h"
#include "integer/width.h"
#include "kernels/kernels.h"
#include "slots/chunk_plan.h"
#include "wire/layout.h"

namespace switchml {

class IntegerCodec {
 public:
  /// `ranks`: ranks of the whole group: the sum of their words must not overflow. `significant_bits`: as WidthChoice's.
  IntegerCodec(const Collective& collective, const ChunkPlan& plan, int ranks, std::optional<int> significant_bits);

  /// The switch's operation for a chunk of `stage`.
  wire::Operation operation(Stage stage) const;

  /// Writes exponents and flags of superblock g to `words`; returns the number of words. They are small values, which
  /// the witness guards.
  size_t encode_call(size_t g, uint8_t* words) const;
  /// Whether n guarded words can be the result of a call chunk: exponents that a block can have, flags up to 1.
  bool plausible_call(size_t g, const uint8_t* words, size_t n) const;
  /// Reads the result of a superblock's call chunk, guarded words, into `superblock`. Precondition: plausible_call().
  void decode_call(const uint8_t* words, size_t n, Superblock* superblock) const;
  /// The elements of the superblock that its next data chunk, of at most so many words, has.
  ElementRange next_chunk(const Superblock& superblock, size_t words) const {
    return chunk_at(superblock.range.begin + superblock.sent, superblock.range, plan_.block_elements(),
                    superblock.widths, words);
  }

  /// Writes elements `range` to `words`; returns the number of words. `superblock` has the range; null where there are
  /// no exponents.
  size_t encode_data(ElementRange range, const Superblock* superblock, uint8_t* words) const;
  /// Writes the result of `range` into the collective's output, as far as that asks for it.
  void decode_data(const uint8_t* words, ElementRange range, const Superblock* superblock) const;

  size_t encode_nonfinite(ElementRange range, uint8_t* words) const;
  void decode_nonfinite(const uint8_t* words, ElementRange range, Superblock* superblock) const;

  /// Hash of the exponents and widths with which `range` was quantized.
  uint64_t exponents_hash(ElementRange range, const Superblock* superblock) const;

 private:
  size_t inputs() const { return std::max<size_t>(1, operands_.inputs.size()); }
  const uint8_t* source(size_t input, size_t element) const;
  size_t encode_elements(size_t input, ElementRange range, uint8_t* words) const;
  template <typename Encode>
  size_t combine(ElementRange range, wire::Operation how, uint8_t* words, const Encode& encode) const;
  uint8_t* target(size_t element) const;
  /// The part of a chunk that lies in one block.
  struct Piece {
    ElementRange range;
    uint8_t exponent = 0;
    Width width = Width::kNone;
    size_t words = 0;
  };
  template <typename See>
  void for_each_piece(ElementRange range, const Superblock& superblock, const See& see) const;
  void encode_piece(size_t input, const Piece& piece, uint8_t* words) const;
  ElementRange wanted_of(ElementRange range) const;
  void decode_piece(const uint8_t* words, const Piece& piece, ElementRange wanted) const;
  void decode_words(const uint8_t* words, uint8_t* out, size_t n) const;

  const Collective& collective_;
  const Operands& operands_;
  const ChunkPlan& plan_;
  const Kernels& kernels_;
  const WidthChoice widths_;
};

}  // namespace switchml
