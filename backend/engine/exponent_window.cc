#include "engine/exponent_window.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"

namespace switchml {

namespace {

constexpr int kLargestExponent = 254;
constexpr size_t kPiece = kMaxBlockElements;

// Bits of a field that holds sums from 0 to 2n.
int bits_for(int ranks) {
  int bits = 1;
  while ((1 << bits) <= 2 * ranks) ++bits;
  return bits;
}

/// One number per element of a block, in the order of the machine. Loops go over all of it, whatever the block has: a
/// fixed number of times is what compilers make vectors of.
struct alignas(64) Lanes {
  std::array<int32_t, kPiece> words{};  // what quant::Kernels work on
  uint32_t get(size_t i) const { return static_cast<uint32_t>(words[i]); }
  void set(size_t i, uint32_t value) { words[i] = static_cast<int32_t>(value); }
};

// Into `fields`, at `shift`: by how much each word differs from twice the coarser one, plus 1.
void add_field(const Lanes& finer, const Lanes& coarser, int shift, Lanes* fields) {
  for (size_t i = 0; i < kPiece; ++i) {
    const auto field = static_cast<int32_t>(finer.get(i) - 2 * coarser.get(i) + 1);
    fields->set(i, fields->get(i) | static_cast<uint32_t>(std::clamp(field, 0, 2)) << shift);
  }
}

// From sums of words to those of half the quantum.
void refine(const Lanes& fields, int shift, uint32_t mask, uint32_t none, Lanes* sums) {
  for (size_t i = 0; i < kPiece; ++i) sums->set(i, 2 * sums->get(i) + (fields.get(i) >> shift & mask) - none);
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
  const quant::Kernels& kernels = quant::kernels();
  const auto quantize = kernels.quantize[quant::float_row(type)];
  SWITCHML_ASSERT(n <= kPiece);
  Lanes fields;
  Lanes words[2];
  Lanes* coarser = &words[0];
  Lanes* finer = &words[1];
  quantize(source, first, n, quant::quantize_scale(top, bits_));
  kernels.store(coarser->words.data(), first, n);
  for (int step = 1; step < width_; ++step) {
    const int exponent = std::max(1, top - step);  // below 1 there are none: fields that nobody reads
    quantize(source, second, n, quant::quantize_scale(exponent, bits_));
    kernels.store(finer->words.data(), second, n);
    add_field(*finer, *coarser, (step - 1) * field_bits_, &fields);
    std::swap(finer, coarser);
  }
  kernels.load(fields.words.data(), second, n);
}

void ExponentWindow::decode(const uint8_t* first, const uint8_t* second, size_t n, uint8_t top, uint8_t exponent,
                            uint8_t* words) const {
  SWITCHML_ASSERT(covers(top, exponent) && n <= kPiece);
  const quant::Kernels& kernels = quant::kernels();
  Lanes sums;
  Lanes fields;
  kernels.store(sums.words.data(), first, n);
  kernels.store(fields.words.data(), second, n);
  // A difference is sent as one more than it is, by each rank.
  const auto none = static_cast<uint32_t>(ranks_);
  const int steps = steps_below(top, exponent);
  for (int step = 0; step < steps; ++step) refine(fields, step * field_bits_, (1U << field_bits_) - 1, none, &sums);
  kernels.load(sums.words.data(), words, n);
}

}  // namespace switchml
