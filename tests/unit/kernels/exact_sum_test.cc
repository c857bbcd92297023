// The exact sum against what makes a number the nearest one, in floating point alone: Shewchuk's expansions ("Adaptive
// precision floating-point arithmetic", 1997) give the sign of sums without an error, and share nothing with the
// integers of exact_sum.cc.
#include "kernels/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/limits.h"

namespace switchml {
namespace {

using Random = std::mt19937_64;

constexpr FloatFormat kFormats[] = {FloatFormat::float32(), FloatFormat::float16(), FloatFormat::bfloat16(),
                                    FloatFormat::float64()};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sign of the exact sum of finite numbers that are no larger than 2^1000.
int sign_of_sum(const std::vector<double>& numbers) {
  std::vector<double> parts;  // of growing magnitude, apart from each other
  for (double number : numbers) {
    std::vector<double> rest;
    for (const double part : parts) {
      const double sum = number + part;
      const double of_part = sum - number;
      const double error = (number - (sum - of_part)) + (part - of_part);
      if (error != 0) rest.push_back(error);
      number = sum;
    }
    if (number != 0) rest.push_back(number);
    parts.swap(rest);
  }
  if (parts.empty()) return 0;
  return parts.back() < 0 ? -1 : 1;
}

double value_of(uint64_t bits, const FloatFormat& format) {
  const uint64_t magnitude = bits & ~format.sign();
  const uint64_t hidden = uint64_t{1} << (format.precision - 1);
  const auto field = static_cast<int>(magnitude / hidden);
  const auto significand = static_cast<double>(magnitude % hidden + (field == 0 ? 0 : hidden));
  const double value = std::ldexp(significand, format.least + (field == 0 ? 0 : field - 1));
  return (bits & format.sign()) != 0 ? -value : value;
}

/// -1, 0, 1: how the exact sum of the numbers, divided, compares with (a + b) / 2.
int compare(const std::vector<double>& numbers, uint32_t divisor, double a, double b) {
  std::vector<double> terms;
  for (const double number : numbers) terms.push_back(2 * number);
  for (const double part : {a, b}) {
    uint64_t half = 0;  // of its bits, so that products with the divisor are exact
    std::memcpy(&half, &part, sizeof half);
    half &= ~uint64_t{0} << 27;
    double high = 0;
    std::memcpy(&high, &half, sizeof high);
    terms.push_back(-high * divisor);
    terms.push_back(-(part - high) * divisor);
  }
  return sign_of_sum(terms);
}

/// Whether `bits` is the sum of the numbers, divided, rounded to nearest even. Not for what overflows.
bool is_nearest(const std::vector<double>& numbers, uint32_t divisor, uint64_t bits, const FloatFormat& format) {
  const uint64_t magnitude = bits & ~format.sign();
  const double value = value_of(magnitude, format);
  const double above = value_of(magnitude + 1, format);
  const bool even = (magnitude & 1) == 0;
  std::vector<double> turned = numbers;
  if ((bits & format.sign()) != 0) {
    for (double& number : turned) number = -number;
  }
  const int with_above = compare(turned, divisor, value, above);
  if (with_above > 0 || (with_above == 0 && !even)) return false;
  if (magnitude == 0) return compare(turned, divisor, 0, 0) >= 0;
  const int with_below = compare(turned, divisor, value, value_of(magnitude - 1, format));
  return with_below > 0 || (with_below == 0 && even);
}

uint64_t random_term(const FloatFormat& format, uint64_t lowest, uint64_t span, Random& random) {
  const int fraction = format.precision - 1;
  uint64_t bits = random() & ((uint64_t{1} << fraction) - 1);
  if (random() % 4 == 0) bits &= ~uint64_t{0} << (fraction / 2);
  bits |= (lowest + random() % span) << fraction;
  return random() % 2 == 0 ? bits : bits | format.sign();
}

// Exponents within 0 to all of the range, but where float64 has none left for the test's own arithmetic.
TEST(ExactSum, IsTheNearestNumber) {
  Random random(static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 41);
  for (int round = 0; round < 200000; ++round) {
    const FloatFormat& format = kFormats[round % 4];
    const uint64_t fields = (format.limit >> (format.precision - 1)) - (round % 4 == 3 ? 60 : 8);
    const uint64_t span = 1 + random() % (random() % 4 == 0 ? fields : 40) % fields;
    const uint64_t lowest = random() % (fields + 1 - span);
    std::vector<double> numbers(1 + random() % (random() % 50 == 0 ? kMaxWorkers : 9));
    for (double& number : numbers) number = value_of(random_term(format, lowest, span, random), format);
    if (numbers.size() > 1 && random() % 3 == 0) numbers[1] = -numbers[0];
    const uint32_t divisor = static_cast<uint32_t>(random() % 2 == 0 ? 1 : 1 + random() % kMaxRanks);
    // A quotient below float64's smallest numbers cannot be told from a midpoint by products that are no numbers.
    if (round % 4 == 3 && divisor != 1 && lowest < 120) continue;
    const uint64_t bits = exact_sum(numbers.data(), numbers.size(), divisor, format);
    ASSERT_TRUE(is_nearest(numbers, divisor, bits, format))
        << "round " << round << ", format " << round % 4 << ", " << numbers.size() << " numbers, divisor " << divisor;
  }
}

float float_sum(const std::vector<double>& numbers, uint32_t divisor = 1) {
  const auto bits = static_cast<uint32_t>(exact_sum(numbers.data(), numbers.size(), divisor, FloatFormat::float32()));
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
double double_sum(const std::vector<double>& numbers, uint32_t divisor = 1) {
  const uint64_t bits = exact_sum(numbers.data(), numbers.size(), divisor, FloatFormat::float64());
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(ExactSum, ByHand) {
  EXPECT_EQ(float_sum({0x1p100, 0x1p-100, -0x1p100}), 0x1p-100F);
  EXPECT_EQ(float_sum({0x1p0, 0x1p-24}), 1.0F) << "a tie goes to even";
  EXPECT_EQ(float_sum({0x1p0, 0x1p-24, 0x1p-149}), 0x1.000002p0F) << "no tie any more";
  EXPECT_EQ(float_sum({0x1p0, 0x1p-24, -0x1p-149}), 1.0F);
  EXPECT_EQ(float_sum({3, 5}, 4), 2.0F);
  EXPECT_EQ(float_sum({0x1p-149}, 2), 0.0F) << "half of the smallest";
  EXPECT_EQ(float_sum({0x1p-149, 0x1p-149, 0x1p-149}, 2), 0x1p-148F) << "one and a half of the smallest";
  EXPECT_EQ(double_sum({1e308, 1e308, -1e308}), 1e308) << "nothing overflows on the way";
  EXPECT_EQ(double_sum({1e308, 1e308}), kInfinity);
  EXPECT_EQ(double_sum({1e308, 1e308}, 2), 1e308);
  EXPECT_EQ(double_sum({-0x1p-1074}, 3), 0.0);
  EXPECT_TRUE(std::signbit(double_sum({-0x1p-1074}, 3)));
  const std::vector<double> large(kMaxWorkers, std::numeric_limits<double>::max());
  EXPECT_EQ(double_sum(large, kMaxWorkers), std::numeric_limits<double>::max());
}

TEST(ExactSum, ZerosAndWhatIsNotFinite) {
  EXPECT_FALSE(std::signbit(float_sum({1, -1})));
  EXPECT_FALSE(std::signbit(float_sum({-0.0, 0.0})));
  EXPECT_TRUE(std::signbit(float_sum({-0.0, -0.0})));
  EXPECT_TRUE(std::signbit(float_sum({-0.0, -0.0}, 2)));
  EXPECT_EQ(float_sum({1, kInfinity, -5}), kInfinity);
  EXPECT_EQ(float_sum({1, -kInfinity, -5}, 3), -kInfinity);
  for (const FloatFormat& format : kFormats) {
    const double nan = std::nan("7");
    for (const std::vector<double>& numbers : {std::vector<double>{kInfinity, 1, -kInfinity}, {nan, 1}, {-nan}}) {
      const uint64_t bits = exact_sum(numbers.data(), numbers.size(), 1, format);
      EXPECT_EQ(bits, format.quiet_nan());
    }
  }
  EXPECT_EQ(FloatFormat::float32().quiet_nan(), 0x7fc00000U);
  EXPECT_EQ(FloatFormat::float16().quiet_nan(), 0x7e00U);
}

// ---- sums that travel ----

TEST(FixedPoint, TravelsAsAnIntegerOfUnits) {  // [PART-6]
  for (const FloatFormat& f :
       {FloatFormat::float16(), FloatFormat::bfloat16(), FloatFormat::float32(), FloatFormat::float64()}) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
      FixedPoint sum;
      FixedPoint difference;
      for (size_t i = 0; i < (round < 3 ? size_t{kMaxWorkers} : 1 + random() % 4); ++i) {
        uint64_t bits = random() % f.limit | (random() % 2 == 0 ? f.sign() : 0);
        if (round == 0) bits = f.limit - 1;               // The largest sum of all.
        if (round == 1) bits = (f.limit - 1) | f.sign();  // The smallest.
        const double number = number_of(bits, f);
        sum.add(number);
        difference.add(-number);
      }
      std::vector<uint8_t> integer(f.fixed_bytes());
      sum.store(integer.data(), f);
      FixedPoint again;
      again.add_fixed(integer.data(), f);
      ASSERT_EQ(again.rounded(3, f), sum.rounded(3, f));
      difference.add_fixed(integer.data(), f);
      ASSERT_TRUE(difference.is_zero());
      ASSERT_EQ(difference.rounded(1, f), 0U);
      difference.add(number_of(1, f));
      ASSERT_FALSE(difference.is_zero());
    }
  }
}

TEST(FixedPoint, StoresTwosComplement) {  // [PART-6]
  const auto stored = [](double number) {
    FixedPoint sum;
    sum.add(number);
    std::vector<uint8_t> bytes(FloatFormat::float16().fixed_bytes());
    sum.store(bytes.data(), FloatFormat::float16());
    return bytes;
  };
  EXPECT_EQ(stored(0x1p-24), (std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(stored(-0x1p-24), (std::vector<uint8_t>(8, 0xff)));
  EXPECT_EQ(stored(1), (std::vector<uint8_t>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(stored(-0x1p10), (std::vector<uint8_t>{0, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff}));
  EXPECT_EQ(stored(0), (std::vector<uint8_t>(8, 0)));
}

}  // namespace
}  // namespace switchml
