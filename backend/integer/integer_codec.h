// The words of a collective's chunks on the wire, and the kernels that write and read them. Free of I/O and state; one
// instance per collective and shard. A worker for several ranks combines their words as the switch would: largest
// exponent, sum, maximum.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "format/format.h"
#include "integer/block_exponent.h"
#include "integer/superblock_ring.h"
#include "kernels/kernels.h"
#include "slots/chunk_plan.h"
#include "wire/layout.h"

namespace switchml {

class IntegerCodec {
 public:
  /// `ranks`: ranks of the whole group: the sum of their words must not overflow.
  IntegerCodec(const Collective& collective, const ChunkPlan& plan, int ranks);

  /// The switch's operation for a chunk of `stage`.
  wire::Operation operation(Stage stage) const;

  /// Writes exponents and flags of superblock g to `words`; returns the number of words. They are small values, which
  /// the witness guards.
  size_t encode_call(size_t g, uint8_t* words) const;
  /// Whether n guarded words can be the result of a call chunk: exponents up to 254, flags up to 1.
  bool plausible_call(size_t g, const uint8_t* words, size_t n) const;
  /// Reads the result of a superblock's call chunk, guarded words, into `superblock`. Precondition: plausible_call().
  void decode_call(const uint8_t* words, size_t n, Superblock* superblock) const;

  /// Writes elements `range` to `words`; returns the number of words. `superblock` has the range; null where there are
  /// no exponents.
  size_t encode_data(ElementRange range, const Superblock* superblock, uint8_t* words) const;
  /// Writes the result of `range` into the collective's output, as far as that asks for it.
  void decode_data(const uint8_t* words, ElementRange range, const Superblock* superblock) const;

  size_t encode_nonfinite(ElementRange range, uint8_t* words) const;
  void decode_nonfinite(const uint8_t* words, ElementRange range, Superblock* superblock) const;

  /// Hash of the exponents with which `range` was quantized.
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
  const Kernels& kernels_;
  int bits_;
};

}  // namespace switchml
