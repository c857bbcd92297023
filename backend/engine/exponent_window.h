// Words from which the sum of a block can be read for any of several exponents in a row, bit for bit as if the block
// had been quantized with that exponent alone. For chunks that are sent before the block's exponent is known.
//
// Let T be the largest exponent of the window and q_i what an element is quantized to with exponent T - i. A finer
// quantum is half the one before, so q_i = 2 q_(i-1) + d_i with d_i one of -1, 0, 1 (both are rounded to nearest even).
// An element is two words: q_0, and d_1 + 1, d_2 + 1, ... side by side in fields that hold the sum of all ranks'.
// Sums of q_0 and of the fields give the sum of q_i for each i by that same formula. Nothing is approximate: which
// exponent was in the window's middle leaves no trace in the result.
//
// Where an element is too large for T - i, its q_i is no number. Then the block's exponent is not T - i, and d_i is of
// no use; it is kept from -1 to 1, so that no field runs over.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/element_type.h"

namespace switchml {

class ExponentWindow {
 public:
  /// Exponents that a window has at most (docs/performance.md, How often a speculation misses).
  static constexpr int kMaxWidth = 5;

  /// For sums over the contributions of 1 to kMaxWorkers ranks.
  explicit ExponentWindow(int ranks);

  /// Exponents in a window: kMaxWidth up to 127 ranks, 4 for 128, whose fields need more bits.
  int width() const { return width_; }
  /// Magnitude bits of the words that decode() gives.
  int bits() const { return bits_; }
  /// The largest exponent of the window for a block that is expected to have the exponent `predicted` (0 to 254), which
  /// is in its middle, or as far down as the range of exponents allows.
  uint8_t top(uint8_t predicted) const;
  /// Whether the sum of a block whose exponent is `exponent` (0 to 254) can be read.
  bool covers(uint8_t top, uint8_t exponent) const;

  /// n elements of a block (up to kMaxBlockElements), of a floating type: n words of the first kind, n of the second.
  void encode(ElementType type, const uint8_t* source, size_t n, uint8_t top, uint8_t* first, uint8_t* second) const;
  /// Sums of such words to the words of the sum quantized with `exponent`. Precondition: covers(top, exponent).
  void decode(const uint8_t* first, const uint8_t* second, size_t n, uint8_t top, uint8_t exponent,
              uint8_t* words) const;

 private:
  static int steps_below(uint8_t top, uint8_t exponent);

  int ranks_;
  int bits_;  // of magnitude
  int field_bits_;
  int width_;
};

}  // namespace switchml
