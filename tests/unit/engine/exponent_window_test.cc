#include "engine/exponent_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/limits.h"
#include "quant/block_exponent.h"
#include "quant/kernels.h"

namespace switchml {
namespace {

using Words = std::vector<uint8_t>;

/// What a switch makes of all workers' words.
void add(Words* sum, const Words& words) {
  std::vector<int32_t> total(words.size() / 4);
  quant::kernels().store(total.data(), sum->data(), total.size());
  quant::kernels().add(total.data(), words.data(), total.size());
  quant::kernels().load(total.data(), sum->data(), total.size());
}

/// Floats with the exponents [lowest, highest], and one of exactly `highest`.
std::vector<std::vector<float>> blocks(std::mt19937& random, int workers, size_t n, int lowest, int highest) {
  std::vector<std::vector<float>> all(static_cast<size_t>(workers), std::vector<float>(n));
  for (auto& block : all) {
    for (float& x : block) {
      const uint32_t exponent = static_cast<uint32_t>(lowest) + random() % static_cast<uint32_t>(highest - lowest + 1);
      const uint32_t bits = (random() & 0x807fffffU) | exponent << 23;
      std::memcpy(&x, &bits, sizeof x);
    }
  }
  const uint32_t bits = static_cast<uint32_t>(highest) << 23 | (random() & 0x7fffffU);
  std::memcpy(&all[random() % all.size()][random() % n], &bits, sizeof bits);
  return all;
}

Words usual(const std::vector<std::vector<float>>& inputs, uint8_t exponent, int bits) {
  Words sum(inputs[0].size() * 4, 0);
  for (const auto& input : inputs) {
    Words words(input.size() * 4);
    quant::kernels().quantize[0](input.data(), words.data(), input.size(), quant::quantize_scale(exponent, bits));
    add(&sum, words);
  }
  return sum;
}

Words through_window(const ExponentWindow& window, const std::vector<std::vector<float>>& inputs, uint8_t top,
                     uint8_t exponent) {
  const size_t n = inputs[0].size();
  Words sum(n * 8, 0);
  for (const auto& input : inputs) {
    Words words(n * 8);
    window.encode(ElementType::kFloat32, reinterpret_cast<const uint8_t*>(input.data()), n, top, words.data(),
                  words.data() + n * 4);
    add(&sum, words);
  }
  Words out(n * 4);
  window.decode(sum.data(), sum.data() + n * 4, n, top, exponent, out.data());
  return out;
}

TEST(ExponentWindow, GivesTheWordsOfEveryExponentInIt) {
  std::mt19937 random(1);
  for (const int workers : {1, 2, 3, 4, 7, 8, 16, 31, 32, 63, 64, 127, 128}) {
    const ExponentWindow window(workers);
    ASSERT_GE(window.width(), 4);
    for (int round = 0; round < 20; ++round) {
      const auto exponent = static_cast<uint8_t>(40 + random() % 160);
      const auto inputs = blocks(random, workers, 67, exponent - 36, exponent);
      const Words expected = usual(inputs, exponent, window.bits());
      for (int below = 0; below < window.width(); ++below) {
        const auto top = static_cast<uint8_t>(exponent + below);
        ASSERT_TRUE(window.covers(top, exponent));
        ASSERT_EQ(through_window(window, inputs, top, exponent), expected) << workers << " workers, " << below;
      }
    }
  }
}

// Halves and odd multiples of them round to even, at each exponent by itself.
TEST(ExponentWindow, RoundsOnceAndToEven) {
  const ExponentWindow window(2);
  std::vector<std::vector<float>> inputs(2);
  const float unit = std::ldexp(1.0F, 1 - window.bits());  // of exponent 127: values below 2
  inputs[0].push_back(1.5F);
  inputs[1].push_back(-1.25F);
  for (int i = -40; i <= 40; ++i) {
    inputs[0].push_back(static_cast<float>(i) * unit / 4);
    inputs[1].push_back(static_cast<float>(3 * i + 1) * unit / 8);
  }
  const Words expected = usual(inputs, 127, window.bits());
  for (uint8_t top = 127; window.covers(top, 127); ++top) EXPECT_EQ(through_window(window, inputs, top, 127), expected);
}

TEST(ExponentWindow, CoversTheSameNumberOfExponentsAroundThePrediction) {
  for (const int workers : {2, 31, 32, 128}) {
    const ExponentWindow window(workers);
    int covered = 0;
    for (int e = 1; e <= 254; ++e) covered += window.covers(window.top(100), static_cast<uint8_t>(e)) ? 1 : 0;
    EXPECT_EQ(covered, window.width());
    EXPECT_TRUE(window.covers(window.top(100), 100));
    EXPECT_TRUE(window.covers(window.top(100), 101));
    EXPECT_TRUE(window.covers(window.top(100), 99));
    EXPECT_FALSE(window.covers(window.top(100), 120));
    EXPECT_FALSE(window.covers(window.top(100), 0));
  }
}

TEST(ExponentWindow, TheEndsOfTheRangeOfExponents) {
  std::mt19937 random(2);
  for (const int workers : {2, 128}) {
    const ExponentWindow window(workers);
    for (const int predicted : {0, 1, 2, 253, 254}) {
      const auto exponent = static_cast<uint8_t>(predicted);
      const uint8_t top = window.top(exponent);
      ASSERT_LE(top, 254);
      ASSERT_TRUE(window.covers(top, exponent)) << predicted;
      const auto inputs = blocks(random, workers, 50, std::max(0, predicted - 20), predicted);
      EXPECT_EQ(through_window(window, inputs, top, exponent), usual(inputs, exponent, window.bits())) << predicted;
    }
    // Zeros, and what is too small to be normal, have exponent 0 and are quantized as exponent 1.
    EXPECT_TRUE(window.covers(window.top(0), 0) && window.covers(window.top(0), 1));
  }
}

// Elements that are no number at an exponent of the window, because they are far too large for it, must not reach into
// the fields of others: neither their own rank's nor, by the sum, other elements'.
TEST(ExponentWindow, LargeElementsLeaveTheFieldsOfCoarserExponentsAlone) {
  const ExponentWindow window(4);
  std::vector<std::vector<float>> inputs(4, std::vector<float>{1.0F, 1e-3F, std::nextafter(2.0F, 0.0F), -1.5F});
  inputs[2][3] = -std::numeric_limits<float>::infinity();  // counted elsewhere; here as 0
  for (uint8_t top = 127; window.covers(top, 127); ++top) {
    EXPECT_EQ(through_window(window, inputs, top, 127), usual(inputs, 127, window.bits()));
  }
}

}  // namespace
}  // namespace switchml
