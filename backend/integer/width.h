// How many bits an element of a block has on its way to an integer switch: as few as keep every term that is not zero
// from vanishing, or as many of its digits as the user asks for. All ranks find the same width from what they have
// agreed on, the largest and the least exponent of the block's elements on any rank.
//
// A switch that adds words modulo 2^32 adds two digits of 16 bits in a word too, as long as no digit's sum leaves 16
// bits, and elements of several words. Pure arithmetic, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/element_type.h"
#include "slots/chunk_plan.h"

namespace switchml {

/// The words of n elements of a block, one after the other. [WORD-12]
enum class Width : uint8_t {
  kNone = 0,  // none: all elements are zeros
  k16 = 1,    // ceil(n/2) words of two digits
  k32 = 2,    // n words
  k48 = 3,    // n words, then ceil(n/2) words of two digits, which continue them
  k64 = 4,    // n words, then n words that continue them
};

size_t words_of(Width width, size_t n);
/// The most elements that have no more than so many words. Precondition: not Width::kNone.
size_t elements_in(Width width, size_t words);

/// The exponents of a block, as call chunks have them. [CALL-6]
struct BlockExponents {
  uint8_t largest = 0;  // BlockRange::max_exponent of all ranks
  uint8_t least = 0;    // BlockRange::least of all ranks
};
/// Whether a block of floats can have them.
bool plausible(BlockExponents block);

/// The widths that a sum of floats may have.
class WidthChoice {
 public:
  /// `ranks`: all of the group. `significant_bits`: what each term keeps, 0 to 24, of as many as the type has;
  /// nullopt: as 0, and at least 32 bits for float32. Types other than floats have no use for it. Precondition:
  /// 1 <= ranks <= kMaxRanks.
  WidthChoice(ElementType type, int ranks, std::optional<int> significant_bits);

  /// The least width with a rounding below 2^-significant_bits of each term; the largest one where none has it.
  /// [WORD-15]
  Width of(BlockExponents block) const;
  /// Magnitude bits of a rank's element. Precondition: not Width::kNone.
  int bits(Width width) const;
  /// How many bits the second part of an element has; it continues the first. Precondition: 48 or 64.
  int low_bits(Width width) const;

 private:
  int significant_bits_;
  Width least_;
  int bits_[3];     // index: Width, up to k32
  int spare_bits_;  // ceil(log2(ranks)): what sums add to a digit
};

/// The chunk of a superblock that begins with element `begin`: as many as have at most so many words, where block b of
/// the superblock has width widths[b]. It may have no words. [CALL-12]
ElementRange chunk_at(size_t begin, ElementRange superblock, size_t block_elements, const std::vector<Width>& widths,
                      size_t words);

}  // namespace switchml
