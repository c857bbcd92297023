// What a chunk of a collective looks like on the wire: which kernel writes its words and which reads them. Free of I/O
// and state; one instance per collective and shard. A worker that speaks for several ranks writes what the switch would
// make of their words: the largest exponent, the sum, the maximum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "integer/superblock_ring.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"
#include "slots/chunk_plan.h"
#include "wire/layout.h"

namespace switchml {

class IntegerCodec {
 public:
  /// `ranks`: of the whole group, whose words must not overflow.
  IntegerCodec(const Collective& collective, const ChunkPlan& plan, int ranks);

  /// The switch's operation for a chunk of `stage`.
  wire::Operation operation(Stage stage) const;

  /// Exponents and flags of superblock g into `words`; returns the number of words. They are small values, for the
  /// witness to guard.
  size_t encode_call(size_t g, uint8_t* words) const;
  /// Whether n guarded words can be the maximum of such words: exponents up to 254, flags up to 1.
  bool plausible_call(size_t g, const uint8_t* words, size_t n) const;
  /// The result of a superblock's call chunk, guarded words, into `superblock`. Precondition: plausible_call().
  void decode_call(const uint8_t* words, size_t n, Superblock* superblock) const;

  /// Elements `range` (inside superblock `superblock`, null where there are no exponents) into `words`; returns the
  /// number of words.
  size_t encode_data(ElementRange range, const Superblock* superblock, uint8_t* words) const;
  /// Writes the result of `range` into the collective's output, as far as that asks for it.
  void decode_data(const uint8_t* words, ElementRange range, const Superblock* superblock) const;

  size_t encode_nonfinite(ElementRange range, uint8_t* words) const;
  void decode_nonfinite(const uint8_t* words, ElementRange range, Superblock* superblock) const;

  /// Hash of what `range` was quantized with.
  uint64_t exponents_hash(ElementRange range, const Superblock* superblock) const;

 private:
  size_t inputs() const { return std::max<size_t>(1, operands_.inputs.size()); }
  const uint8_t* source(size_t input, size_t element) const;
  size_t encode_elements(size_t input, ElementRange range, const Superblock* superblock, uint8_t* words) const;
  template <typename Encode>
  size_t combine(ElementRange range, wire::Operation how, uint8_t* words, const Encode& encode) const;
  uint8_t* target(size_t element) const;
  void encode_sum_of_floats(size_t input, ElementRange range, const Superblock& superblock, uint8_t* words) const;
  void decode_sum_of_floats(const uint8_t* words, ElementRange range, const Superblock& superblock) const;
  void decode_words(const uint8_t* words, uint8_t* out, size_t n) const;

  const Collective& collective_;
  const Operands& operands_;
  const ChunkPlan& plan_;
  const quant::Kernels& kernels_;
  int bits_;
};

}  // namespace switchml
