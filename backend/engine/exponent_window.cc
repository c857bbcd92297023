#include "engine/exponent_window.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/limits.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"
#include "wire/layout.h"

namespace switchml {

namespace {

constexpr int kLargestExponent = 254;
constexpr size_t kPiece = kMaxBlockElements;  // elements for which there is scratch memory

// Bits of a field that holds sums from 0 to 2n.
int bits_for(int ranks) {
  int bits = 1;
  while ((1 << bits) <= 2 * ranks) ++bits;
  return bits;
}

uint32_t get(const uint8_t* words, size_t i) { return wire::detail::load<uint32_t>(words + i * kWordBytes); }
void put(uint8_t* words, size_t i, uint32_t value) { wire::detail::store<uint32_t>(words + i * kWordBytes, value); }

// Into `fields`, at `shift`: by how much each word differs from twice the coarser one, plus 1. `coarser` becomes the
// word.
void add_field(const uint8_t* words, size_t n, int shift, uint32_t* coarser, uint32_t* fields) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t word = get(words, i);
    const uint32_t field = word - 2 * coarser[i] + 1;
    fields[i] |= (field <= 2 ? field : 1) << shift;
    coarser[i] = word;
  }
}

}  // namespace

ExponentWindow::ExponentWindow(int ranks)
    : ranks_(ranks),
      bits_(quant::magnitude_bits(ranks)),
      field_bits_(bits_for(ranks)),
      width_(std::min(kMaxWidth, 1 + 32 / field_bits_)) {
  static_assert(1 + 32 / 9 >= 4 && kMaxWorkers <= 255, "kMaxWorkers need fields of 9 bits");
}

uint8_t ExponentWindow::top(uint8_t predicted) const {
  return static_cast<uint8_t>(std::min(kLargestExponent, std::max<int>(predicted, 1) + width_ / 2));
}

// Blocks of exponent 0 are quantized as those of exponent 1 (quant/block_exponent.h).
int ExponentWindow::steps_below(uint8_t top, uint8_t exponent) { return top - std::max<int>(exponent, 1); }

bool ExponentWindow::covers(uint8_t top, uint8_t exponent) const {
  const int steps = steps_below(top, exponent);
  return steps >= 0 && steps < width_;
}

void ExponentWindow::encode(ElementType type, const uint8_t* source, size_t n, uint8_t top, uint8_t* first,
                            uint8_t* second) const {
  const auto quantize = quant::kernels().quantize[quant::float_row(type)];
  std::array<uint8_t, kPiece * kWordBytes> words;
  std::array<uint32_t, kPiece> coarser;
  std::array<uint32_t, kPiece> fields;
  SWITCHML_ASSERT(n <= kPiece);
  quantize(source, first, n, quant::quantize_scale(top, bits_));
  for (size_t i = 0; i < n; ++i) {
    coarser[i] = get(first, i);
    fields[i] = 0;
  }
  for (int step = 1; step < width_; ++step) {
    const int exponent = std::max(1, top - step);  // below 1 there are none: fields that nobody reads
    quantize(source, words.data(), n, quant::quantize_scale(exponent, bits_));
    add_field(words.data(), n, (step - 1) * field_bits_, coarser.data(), fields.data());
  }
  for (size_t i = 0; i < n; ++i) put(second, i, fields[i]);
}

void ExponentWindow::decode(const uint8_t* first, const uint8_t* second, size_t n, uint8_t top, uint8_t exponent,
                            uint8_t* words) const {
  SWITCHML_ASSERT(covers(top, exponent));
  const int steps = steps_below(top, exponent);
  const uint32_t mask = (1U << field_bits_) - 1;
  const auto none = static_cast<uint32_t>(ranks_);  // the sum of a field whose differences add up to 0
  for (size_t i = 0; i < n; ++i) {
    uint32_t sum = get(first, i);
    uint32_t fields = get(second, i);
    for (int step = 0; step < steps; ++step, fields >>= field_bits_) sum = 2 * sum + (fields & mask) - none;
    put(words, i, sum);
  }
}

}  // namespace switchml
