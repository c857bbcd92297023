// Narrow terms against what makes them right, in float64: no other number of the type is nearer, no smaller scale
// holds the block, and what is lost is the error.
#include "kernels/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/narrow_floats.h"

namespace switchml {
namespace {

constexpr ElementType kBlocks[] = {ElementType::kScaledFloat8, ElementType::kScaledInt8};
constexpr ElementType kAll[] = {ElementType::kBFloat16, ElementType::kScaledFloat8, ElementType::kScaledInt8};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double largest_of(ElementType type) { return type == ElementType::kScaledInt8 ? 127 : 448; }

/// All finite values of a float8_e4m3fn or an int8, without their signs, in their order.
std::vector<double> magnitudes(ElementType type) {
  std::vector<double> values;
  for (int i = 0; i < 127; ++i) {
    const double float8 = i < 8 ? std::ldexp(i, -9) : std::ldexp(8 + i % 8, i / 8 - 10);
    values.push_back(type == ElementType::kScaledInt8 ? i : float8);
  }
  if (type == ElementType::kScaledInt8) values.push_back(127);
  return values;
}

/// The nearest of the sorted values; the one of even index of two.
double nearest(double x, const std::vector<double>& values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double now = std::abs(values[i] - std::abs(x));
    const double before = std::abs(values[best] - std::abs(x));
    if (now < before || (now == before && i % 2 == 0)) best = i;
  }
  return std::copysign(values[best], x);
}

/// The scale of the block by its definition.
double least_scale(const std::vector<float>& sums, ElementType type) {
  double scale = std::ldexp(1, -127);
  for (const float x : sums) {
    while (std::abs(static_cast<double>(x)) > scale * largest_of(type)) scale *= 2;
  }
  return scale;
}

/// The first n numbers of the terms.
std::vector<float> widened(ElementType type, const uint8_t* terms, size_t n) {
  const size_t elements = (n + values_per_element(type) - 1) / values_per_element(type);
  std::vector<float> wide(elements * values_per_element(type));
  to_float32(type, terms, elements, wide.data());
  wide.resize(n);
  return wide;
}

struct Narrowed {
  Narrowed(ElementType type, const std::vector<float>& source, std::vector<float> feedback)
      : terms(narrow_bytes(type, source.size())), error(std::move(feedback)) {
    narrow(type, source.data(), error.data(), source.size(), terms.data());
    wide = widened(type, terms.data(), source.size());
  }
  std::vector<uint8_t> terms;
  std::vector<float> error;
  std::vector<float> wide;
};

std::vector<float> random_floats(size_t n, int binades, std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-binades, 0);
  std::vector<float> values(n);
  for (float& x : values) x = std::ldexp(normal(*random), exponent(*random));
  return values;
}

TEST(Narrow, BlocksAreTheNearestUnderTheLeastScale) {
  std::mt19937_64 random(1);
  for (const ElementType type : kBlocks) {
    const std::vector<double> elements = magnitudes(type);
    for (int round = 0; round < 400; ++round) {
      // From blocks of subnormals to those of the largest numbers.
      std::vector<float> source = random_floats(kScaledValues, 14, &random);
      std::vector<float> feedback = random_floats(kScaledValues, 14, &random);
      for (auto* values : {&source, &feedback}) {
        for (float& x : *values) x = std::ldexp(x, round % 260 - 135);
      }
      std::vector<float> sums(kScaledValues);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] = source[i] + feedback[i];
      const Narrowed narrowed(type, source, feedback);
      const double scale = least_scale(sums, type);
      ASSERT_EQ(std::ldexp(1, narrowed.terms[0] - 127), scale);
      for (size_t i = 0; i < sums.size(); ++i) {
        const double wanted = nearest(sums[i] / scale, elements) * scale;
        ASSERT_EQ(narrowed.wide[i], wanted) << sums[i] << " under " << scale;
        ASSERT_EQ(narrowed.error[i], sums[i] - wanted);  // exactly: in float64
      }
    }
  }
}

TEST(Narrow, EveryElementOfABlockSurvives) {
  for (const ElementType type : kBlocks) {
    for (const double value : magnitudes(type)) {
      std::vector<float> source(kScaledValues, 0.0F);
      source[0] = static_cast<float>(largest_of(type));
      source[1] = static_cast<float>(value);
      source[2] = static_cast<float>(-value);
      const Narrowed narrowed(type, source, std::vector<float>(kScaledValues, 0.0F));
      EXPECT_EQ(narrowed.terms[0], 127);
      EXPECT_EQ(narrowed.wide, source);
      EXPECT_EQ(narrowed.error, std::vector<float>(kScaledValues, 0.0F));
    }
  }
}

TEST(Narrow, ScalesAtTheirLimits) {
  for (const ElementType type : kBlocks) {
    const auto scale_byte = [&](float x) { return int{Narrowed(type, {x}, {0.0F}).terms[0]}; };
    const auto largest = static_cast<float>(largest_of(type));
    EXPECT_EQ(scale_byte(0.0F), 0);
    EXPECT_EQ(scale_byte(std::numeric_limits<float>::denorm_min()), 0);
    EXPECT_EQ(scale_byte(largest), 127);
    EXPECT_EQ(scale_byte(std::nextafter(largest, kInf)), 128);
    EXPECT_EQ(scale_byte(std::ldexp(largest, -127)), 0);
    EXPECT_EQ(scale_byte(std::nextafter(std::ldexp(largest, -127), kInf)), 1);
  }
}

TEST(Narrow, TheLargestNumbersRoundToInfinity) {
  for (const ElementType type : kAll) {
    const float highest = std::numeric_limits<float>::max();
    const Narrowed narrowed(type, {highest, -highest, std::ldexp(1.0F, 127)}, {0.0F, 0.0F, 0.0F});
    EXPECT_EQ(narrowed.wide, (std::vector<float>{kInf, -kInf, std::ldexp(1.0F, 127)}));
    EXPECT_EQ(narrowed.error, std::vector<float>(3, 0.0F));
  }
}

TEST(Narrow, Bfloat16IsTheNearest) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> source = random_floats(97, 120, &random);
    const Narrowed narrowed(ElementType::kBFloat16, source, std::vector<float>(97, 0.0F));
    for (size_t i = 0; i < source.size(); ++i) {
      const int exponent = std::max(std::ilogb(source[i]), -126);
      const double unit = std::ldexp(1, exponent - 7);
      EXPECT_EQ(narrowed.wide[i], std::nearbyint(source[i] / unit) * unit);
      EXPECT_EQ(narrowed.error[i], source[i] - narrowed.wide[i]);
    }
  }
}

TEST(Narrow, NonFiniteElementsLeaveNoError) {
  for (const ElementType type : kAll) {
    for (const float bad : {kNan, -kNan, kInf, -kInf}) {
      std::vector<float> source(2 * kScaledValues, 1.25F);
      source[3] = bad;
      const Narrowed narrowed(type, source, std::vector<float>(source.size(), 0.0F));
      EXPECT_EQ(narrowed.error, std::vector<float>(source.size(), 0.0F));
      EXPECT_FALSE(std::isfinite(narrowed.wide[3]));
      EXPECT_EQ(std::isnan(narrowed.wide[4]), type != ElementType::kBFloat16);  // of the same block
      EXPECT_EQ(narrowed.wide[kScaledValues], 1.25F);
      EXPECT_EQ(std::isinf(narrowed.wide[3]), type == ElementType::kBFloat16 && std::isinf(bad));
    }
  }
}

TEST(Narrow, AnyLengthAndAlignmentHasTheSameBits) {
  std::mt19937_64 random(3);
  const std::vector<float> source = random_floats(300, 10, &random);
  const std::vector<float> feedback = random_floats(300, 10, &random);
  for (const ElementType type : kAll) {
    for (size_t n = 0; n < 300; ++n) {
      std::vector<float> padded(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(n));
      std::vector<float> errors(feedback.begin(), feedback.begin() + static_cast<std::ptrdiff_t>(n));
      padded.resize((n + kScaledValues - 1) / kScaledValues * kScaledValues);
      errors.resize(padded.size());
      const Narrowed wanted(type, padded, errors);
      constexpr uint8_t kGuard = 0xa5;
      std::vector<uint8_t> terms(narrow_bytes(type, n) + 2, kGuard);
      std::vector<float> error(feedback.begin(), feedback.begin() + static_cast<std::ptrdiff_t>(n) + 1);
      narrow(type, source.data(), error.data(), n, terms.data() + 1);
      EXPECT_EQ(terms.front(), kGuard);
      EXPECT_EQ(terms.back(), kGuard);
      EXPECT_TRUE(std::equal(terms.begin() + 1, terms.end() - 1, wanted.terms.begin()));
      EXPECT_TRUE(std::equal(error.begin(), error.end() - 1, wanted.error.begin()));
      EXPECT_EQ(error.back(), feedback[n]);
    }
  }
}

TEST(Narrow, OfNothingTouchesNoMemory) {
  for (const ElementType type : kAll) narrow(type, nullptr, nullptr, 0, nullptr);
}

TEST(Narrow, WithoutFeedbackIsWithErrorsOfZero) {
  std::mt19937_64 random(4);
  const std::vector<float> source = random_floats(200, 10, &random);
  for (const ElementType type : kAll) {
    const Narrowed wanted(type, source, std::vector<float>(source.size(), 0.0F));
    std::vector<uint8_t> terms(wanted.terms.size());
    narrow(type, source.data(), nullptr, source.size(), terms.data());
    EXPECT_EQ(terms, wanted.terms);
  }
}

}  // namespace
}  // namespace switchml
