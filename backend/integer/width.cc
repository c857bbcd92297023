#include "integer/width.h"

#include <algorithm>

#include "base/assert.h"
#include "base/limits.h"
#include "integer/block_exponent.h"

namespace switchml {

namespace {

constexpr int kBelowSubnormals = -23;  // A biased exponent: 2^(-23 - 127) is below all that float32 has.

int precision_of(ElementType type) {
  return type == ElementType::kBFloat16 ? 8 : type == ElementType::kFloat16 ? 11 : 24;
}

int log2_up(int n) {
  int bits = 0;
  while ((1 << bits) < n) ++bits;
  return bits;
}

// The biased exponent of the float next below the block's least term. Precondition: it has a term that is not zero.
int below_least(BlockExponents block) { return block.least == 255 ? kBelowSubnormals : 255 - block.least; }

}  // namespace

size_t words_of(Width width, size_t n) {
  switch (width) {
    case Width::kNone: return 0;
    case Width::k16: return (n + 1) / 2;
    case Width::k32: return n;
    case Width::k48: return n + (n + 1) / 2;
    case Width::k64: return 2 * n;
  }
  return 0;
}

size_t elements_in(Width width, size_t words) {
  switch (width) {
    case Width::kNone: break;
    case Width::k16: return 2 * words;
    case Width::k32: return words;
    case Width::k48: return 2 * words / 3;
    case Width::k64: return words / 2;
  }
  SWITCHML_ASSERT(false);
  return 0;
}

bool plausible(BlockExponents block) {
  if (block.largest > 254) return false;
  if (block.least == 0) return block.largest == 0;
  return below_least(block) <= static_cast<int>(block.largest);
}

WidthChoice::WidthChoice(ElementType type, int ranks, std::optional<int> significant_bits)
    : significant_bits_(std::min(significant_bits.value_or(0), precision_of(type))),
      least_(type == ElementType::kFloat32 && !significant_bits ? Width::k32 : Width::k16),
      bits_{0, magnitude_bits(ranks, 16, precision_of(type)), magnitude_bits(ranks, 32, precision_of(type))},
      spare_bits_(log2_up(ranks)) {}

int WidthChoice::bits(Width width) const {
  if (width <= Width::k32) return bits_[static_cast<size_t>(width)];
  return bits_[static_cast<size_t>(Width::k32)] + low_bits(width);
}

int WidthChoice::low_bits(Width width) const { return (width == Width::k48 ? 16 : 32) - spare_bits_; }  // [WORD-14]

Width WidthChoice::of(BlockExponents block) const {
  if (block.least == 0) return Width::kNone;
  // An error of half a unit, 2^(E - 127 - bits), is to be below 2^-significant_bits of the least term.
  const int needed = std::max<int>(block.largest, 1) - below_least(block) + significant_bits_;
  for (Width width = least_; width != Width::k64; width = static_cast<Width>(static_cast<int>(width) + 1)) {
    if (bits(width) >= needed) return width;
  }
  return Width::k64;
}

ElementRange chunk_at(size_t begin, ElementRange superblock, size_t block_elements, const std::vector<Width>& widths,
                      size_t words) {
  const size_t end = superblock.begin + superblock.count;
  size_t at = begin;
  while (at < end) {
    const size_t block = (at - superblock.begin) / block_elements;
    const size_t left = std::min(superblock.begin + (block + 1) * block_elements, end) - at;
    const Width width = widths[block];
    const size_t n = width == Width::kNone ? left : std::min(left, elements_in(width, words));
    at += n;
    words -= words_of(width, n);
    if (n < left) break;
  }
  return {begin, at - begin};
}

}  // namespace switchml
