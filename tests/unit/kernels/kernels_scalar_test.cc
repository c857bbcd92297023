// The scalar kernels against plain double arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "integer/block_exponent.h"
#include "kernels/exact_sum.h"
#include "kernels/table_compare.h"
#include "kernels/tables.h"
#include "kernels/words.h"

namespace switchml {
namespace {

using testing::put_word;
using testing::Random;
using testing::word_at;

const Kernels& scalar() { return *scalar_kernels(); }

// ---- an oracle for the element types, in doubles: value = mantissa * 2^exponent, straight from the definition ----

struct Format {
  int bytes;
  int mantissa_bits;
  int exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Format kFormats[3] = {{4, 23, 8}, {2, 10, 5}, {2, 7, 8}};

double decode(const Format& f, uint32_t bits) {
  const uint32_t mantissa = bits & ((1U << f.mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const bool negative = (bits >> (f.mantissa_bits + f.exponent_bits)) & 1U;
  double value = 0;
  if (exponent == (1 << f.exponent_bits) - 1) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - f.bias() - f.mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << f.mantissa_bits), exponent - f.bias() - f.mantissa_bits);
  }
  return negative ? -value : value;
}

// Nearest even; beyond the largest finite value infinity.
uint32_t encode(const Format& f, double value) {
  const uint32_t sign = std::signbit(value) ? 1U << (f.mantissa_bits + f.exponent_bits) : 0U;
  const uint32_t infinity = ((1U << f.exponent_bits) - 1) << f.mantissa_bits;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  const int lowest = 1 - f.bias();
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  const double units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));
  // In units of the last place the pattern simply counts on, from subnormals through binades to infinity.
  const double pattern = units + std::ldexp(exponent - lowest, f.mantissa_bits);
  return sign | (pattern >= infinity ? infinity : static_cast<uint32_t>(pattern));
}

uint32_t raw_at(const Format& f, const uint8_t* data, size_t i) {
  uint32_t bits = 0;
  std::memcpy(&bits, data + i * static_cast<size_t>(f.bytes), static_cast<size_t>(f.bytes));
  return bits;
}

std::vector<uint8_t> random_elements(int row, size_t n, int flavour, Random& random) {
  testing::Buffer buffer(n * testing::kFloatBytes[row], 0);
  testing::fill_floats(buffer, row, flavour, random);
  return {buffer.data(), buffer.data() + buffer.size()};
}

// Guards around the buffers: nothing is written outside, and the same input gives the same words at every alignment.
TEST(Scalar, WritesInsideItsBuffersOnly) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    testing::TableComparison comparison(scalar(), scalar(), seed);
    ASSERT_EQ(comparison.run(), "") << "seed " << seed;
  }
}

class ScalarRow : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kernels, ScalarRow, ::testing::Values(0, 1, 2),
                         [](const auto& parameter) { return std::string(testing::kFloatNames[parameter.param]); });

TEST_P(ScalarRow, RangeIsTheLargestFrexp) {
  const int row = GetParam();
  Random random(21);
  for (int round = 0; round < 3000; ++round) {
    const size_t n = random() % 40;
    const auto data = random_elements(row, n, round % 5, random);
    int expected = 0;
    int least = 0;
    bool nonfinite = false;
    for (size_t i = 0; i < n; ++i) {
      const double value = decode(kFormats[row], raw_at(kFormats[row], data.data(), i));
      if (!std::isfinite(value)) {
        nonfinite = true;
        continue;
      }
      int exponent = -1000;
      if (value != 0) std::frexp(value, &exponent);
      expected = std::max(expected, exponent + 126);
      if (value == 0) continue;
      std::frexp(std::nextafter(static_cast<float>(std::fabs(value)), 0.0F), &exponent);  // Of 0 it is 0.
      const bool is_normal = std::fabs(value) > 0x1p-126;
      least = std::max(least, is_normal ? 255 - (exponent + 126) : 255);
    }
    const BlockRange range = scalar().range[row](data.data(), n);
    ASSERT_EQ(range.max_exponent, expected);
    ASSERT_EQ(range.least, least);
    ASSERT_EQ(range.has_nonfinite, nonfinite);
  }
}

TEST_P(ScalarRow, QuantizeRoundsToNearestEven) {  // [WORD-1]
  const int row = GetParam();
  Random random(22);
  for (int round = 0; round < 5000; ++round) {
    const size_t n = 1 + random() % 40;
    const auto data = random_elements(row, n, round % 5, random);
    const int bits = 24 + static_cast<int>(random() % 7);
    const int block = scalar().range[row](data.data(), n).max_exponent;
    const Scale scale = quantize_scale(block, bits);
    std::vector<uint8_t> words(4 * n);
    scalar().quantize[row](data.data(), words.data(), n, scale);
    for (size_t i = 0; i < n; ++i) {
      const double value = decode(kFormats[row], raw_at(kFormats[row], data.data(), i));
      const double scaled = std::isfinite(value) ? std::ldexp(value, bits - (std::max(block, 1) - 126)) : 0.0;
      ASSERT_EQ(word_at(words, i), std::nearbyint(scaled)) << "value " << value << " block " << block;
    }
  }
}

// Sums of up to as many words as leave every digit its 16 bits.
TEST(Scalar, DigitsThatShareAWordAddAsIfTheyWereAlone) {  // [WORD-13]
  Random random(31);
  for (int round = 0; round < 3000; ++round) {
    const size_t n = random() % 70;
    const int terms = 1 + static_cast<int>(random() % 128);
    const auto most = static_cast<int32_t>(32768 / terms);
    std::vector<int32_t> sums(n);
    std::vector<uint32_t> packed_sums((n + 1) / 2);
    std::vector<uint8_t> digits(4 * n + 4), packed(4 * packed_sums.size() + 4);
    for (int term = 0; term < terms; ++term) {
      for (size_t i = 0; i < n; ++i) {
        int32_t digit = static_cast<int32_t>(random() % static_cast<uint64_t>(2 * most)) - most;
        if (round % 3 == 0) digit = random() % 2 != 0 ? -most : most - 1;
        sums[i] += digit;
        put_word(digits, i, digit);
      }
      scalar().pack_digits(digits.data(), packed.data(), n);
      for (size_t i = 0; i < packed_sums.size(); ++i) packed_sums[i] += static_cast<uint32_t>(word_at(packed, i));
    }
    for (size_t i = 0; i < packed_sums.size(); ++i) put_word(packed, i, static_cast<int32_t>(packed_sums[i]));
    scalar().unpack_digits(packed.data(), digits.data(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(word_at(digits, i), sums[i]) << "digit " << i << " of " << n;
  }
}

TEST_P(ScalarRow, WideWordsAreTheNumberRoundedOnce) {  // [WORD-14]
  const int row = GetParam();
  Random random(32);
  for (int round = 0; round < 3000; ++round) {
    const size_t n = 1 + random() % 40;
    const auto data = random_elements(row, n, round % 5, random);
    const int low_bits = 8 + static_cast<int>(random() % 25);
    const int bits = 24 + low_bits + static_cast<int>(random() % 7);
    const int block = scalar().range[row](data.data(), n).max_exponent;
    const int exponent = quantize_exponent(block, std::min(bits, 61));
    std::vector<uint8_t> high(4 * n), low(4 * n), out(8 * n);
    scalar().quantize_wide[row](data.data(), high.data(), low.data(), n, exponent, low_bits);
    scalar().dequantize_wide[row](high.data(), low.data(), out.data(), n, -exponent, low_bits, 1.0F);
    for (size_t i = 0; i < n; ++i) {
      const double value = decode(kFormats[row], raw_at(kFormats[row], data.data(), i));
      const double scaled = std::isfinite(value) ? std::ldexp(value, exponent) : 0.0;
      const int64_t q = int64_t{word_at(high, i)} * (int64_t{1} << low_bits) + word_at(low, i);
      ASSERT_EQ(static_cast<double>(q), std::nearbyint(scaled)) << "value " << value << " block " << block;
      ASSERT_LT(std::abs(2 * int64_t{word_at(low, i)}), (int64_t{1} << low_bits) + 1);
      const double back = decode(kFormats[row], raw_at(kFormats[row], out.data(), i));
      const double rounded = std::ldexp(std::nearbyint(scaled), -exponent);
      if (rounded == value) {
        ASSERT_EQ(back, value);
      }
    }
  }
}

TEST(Scalar, QuantizeTies) {
  const std::vector<float> values = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 0.49999997F, 8388607.5F};
  const std::vector<int32_t> expected = {0, 2, 2, 0, -2, -2, 0, 8388608};
  std::vector<uint8_t> words(4 * values.size());
  scalar().quantize[0](values.data(), words.data(), values.size(), {});
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(word_at(words, i), expected[i]) << values[i];
}

TEST(Scalar, QuantizeOutsideInt32IsDefined) {
  const std::vector<float> values = {0x1p31F, -0x1p31F, 3e38F, -3e38F, 2147483520.0F};
  std::vector<uint8_t> words(4 * values.size());
  scalar().quantize[0](values.data(), words.data(), values.size(), {});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(word_at(words, i), INT32_MIN) << values[i];
  EXPECT_EQ(word_at(words, 4), 2147483520);
}

TEST_P(ScalarRow, DequantizeRoundsToNearestEven) {  // [WORD-9]
  const int row = GetParam();
  Random random(23);
  for (int round = 0; round < 60000; ++round) {
    const auto word = static_cast<int32_t>(random()) >> (random() % 32);
    const int exponent = row == 1 ? static_cast<int>(random() % 60) - 50 : static_cast<int>(random() % 260) - 155;
    const float divisor = round % 2 == 0 ? 1.0F : static_cast<float>(1 + random() % kMaxRanks);
    std::vector<uint8_t> words(4);
    put_word(words, 0, word);
    uint32_t found = 0;
    scalar().dequantize[row](words.data(), &found, 1, power_of_two(exponent), divisor);
    // The definition: to float, times a power of two, divided, each rounded to float; then rounded to the type.
    const auto product = static_cast<float>(std::ldexp(static_cast<double>(static_cast<float>(word)), exponent));
    const auto quotient = static_cast<float>(static_cast<double>(product) / divisor);
    ASSERT_EQ(found, encode(kFormats[row], quotient)) << "word " << word << " 2^" << exponent << " / " << divisor;
  }
}

TEST(Scalar, ExactSumsAreThoseOfTheFixedPoint) {
  constexpr FloatFormat kLayouts[] = {FloatFormat::float32(), FloatFormat::float16(), FloatFormat::bfloat16(),
                                      FloatFormat::float64()};
  constexpr size_t kElements = 300;
  Random random(31);
  for (int round = 0; round < 400; ++round) {
    const int row = round % 4;
    const size_t size = testing::kFloatBytes[row];
    const size_t count = 1 + random() % (round % 20 < 4 ? kMaxSources : 5);
    const auto divisor = static_cast<uint32_t>(round % 3 == 0 ? 1 : 1 + random() % kMaxRanks);
    std::vector<testing::Buffer> terms(count, testing::Buffer(kElements * size, 0));
    testing::fill_terms(terms, row, kElements, random);
    std::vector<const void*> sources;
    for (const testing::Buffer& term : terms) sources.push_back(term.data());
    std::vector<uint8_t> found(kElements * size);
    scalar().exact_sum[row](sources.data(), count, found.data(), kElements, divisor);
    for (size_t i = 0; i < kElements; ++i) {
      std::vector<double> numbers;
      for (const testing::Buffer& term : terms) {
        uint64_t bits = 0;
        std::memcpy(&bits, term.data() + i * size, size);
        numbers.push_back(number_of(bits, kLayouts[row]));
      }
      uint64_t got = 0;
      std::memcpy(&got, found.data() + i * size, size);
      ASSERT_EQ(got, exact_sum(numbers.data(), count, divisor, kLayouts[row]))
          << testing::kFloatNames[row] << ", " << count << " terms, divisor " << divisor << ", element " << i;
    }
  }
}

TEST(Scalar, StreamCopies) {
  Random random(30);
  for (size_t n = 0; n < 300; ++n) {
    std::vector<uint8_t> data(n);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> copied(n);
    scalar().copy_non_temporal(data.data(), copied.data(), n);
    ASSERT_EQ(copied, data);
  }
}

TEST(Scalar, DequantizeToHalfOverflowsToInfinity) {
  const std::vector<int32_t> values = {65504, 65519, 65520, -65519, -65520, 1 << 30};
  const std::vector<uint16_t> expected = {0x7bff, 0x7bff, 0x7c00, 0xfbff, 0xfc00, 0x7c00};
  std::vector<uint8_t> words(4 * values.size());
  for (size_t i = 0; i < values.size(); ++i) put_word(words, i, values[i]);
  std::vector<uint16_t> found(values.size());
  scalar().dequantize[1](words.data(), found.data(), values.size(), {}, 1.0F);
  EXPECT_EQ(found, expected);
}

TEST_P(ScalarRow, ClassifyCountsAddPerKind) {  // [CALL-9]
  const int row = GetParam();
  Random random(24);
  const auto data = random_elements(row, 20000, 0, random);
  const size_t n = data.size() / testing::kFloatBytes[row];
  std::vector<uint8_t> words(4 * n);
  scalar().classify[row](data.data(), words.data(), n);
  for (size_t i = 0; i < n; ++i) {
    const double value = decode(kFormats[row], raw_at(kFormats[row], data.data(), i));
    uint32_t expected = 0;
    if (std::isnan(value)) expected = kCountNan;
    if (std::isinf(value)) expected = value > 0 ? kCountPosInf : kCountNegInf;
    ASSERT_EQ(static_cast<uint32_t>(word_at(words, i)), expected);
  }
}

TEST_P(ScalarRow, OrderIsThatOfTheValues) {  // [WORD-2, WORD-3]
  const int row = GetParam();
  const Format& format = kFormats[row];
  Random random(25);
  for (const bool minimum : {false, true}) {
    for (int round = 0; round < 15000; ++round) {
      const auto pair = random_elements(row, 2, round % 5, random);
      std::vector<uint8_t> words(8);
      scalar().order[row](pair.data(), words.data(), 2, minimum);
      const double a = decode(format, raw_at(format, pair.data(), 0));
      const double b = decode(format, raw_at(format, pair.data(), 1));
      const int32_t key_a = word_at(words, 0);
      const int32_t key_b = word_at(words, 1);
      if (std::isnan(a) || std::isnan(b)) {
        ASSERT_EQ(key_a >= key_b, std::isnan(a)) << "NaN is above all";
        continue;
      }
      const auto before = [](double x, double y) {
        return x < y || (x == 0 && y == 0 && std::signbit(x) && !std::signbit(y));
      };
      ASSERT_EQ(key_a < key_b, minimum ? before(b, a) : before(a, b)) << a << " and " << b << " minimum " << minimum;
    }
  }
}

TEST_P(ScalarRow, UnorderGivesTheElementBack) {
  const int row = GetParam();
  const Format& format = kFormats[row];
  Random random(26);
  const uint32_t quiet_nan[3] = {0x7fc00000U, 0x7e00U, 0x7fc0U};
  for (int flavour = 0; flavour < 5; ++flavour) {
    for (const bool minimum : {false, true}) {
      const auto data = random_elements(row, 20000, flavour, random);
      const size_t n = data.size() / testing::kFloatBytes[row];
      std::vector<uint8_t> words(4 * n);
      std::vector<uint8_t> back(data.size());
      scalar().order[row](data.data(), words.data(), n, minimum);
      scalar().unorder[row](words.data(), back.data(), n, minimum);
      for (size_t i = 0; i < n; ++i) {
        const uint32_t raw = raw_at(format, data.data(), i);
        const uint32_t expected = std::isnan(decode(format, raw)) ? quiet_nan[row] : raw;
        ASSERT_EQ(raw_at(format, back.data(), i), expected);
      }
    }
  }
}

TEST(Scalar, UnorderNeverGivesANanWithAPayload) {
  for (const int32_t word : {INT32_MIN, INT32_MIN + 1, INT32_MAX, 0x7f800001, INT32_MAX - 5}) {
    std::vector<uint8_t> words(4);
    put_word(words, 0, word);
    for (const bool minimum : {false, true}) {
      uint32_t bits = 0;
      scalar().unorder[0](words.data(), &bits, 1, minimum);
      EXPECT_EQ(bits, 0x7fc00000U) << word;
    }
  }
}

TEST(Scalar, WidenExtendsTheSign) {  // [WORD-4]
  const std::vector<int8_t> bytes = {-128, -1, 0, 127};
  const std::vector<int16_t> halves = {-32768, -1, 0, 32767};
  std::vector<uint8_t> words(16);
  for (const bool complement : {false, true}) {
    scalar().widen[1](bytes.data(), words.data(), 4, complement);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(word_at(words, i), complement ? ~bytes[i] : bytes[i]);
    scalar().widen[2](bytes.data(), words.data(), 4, complement);
    for (size_t i = 0; i < 4; ++i) {
      const int value = static_cast<uint8_t>(bytes[i]);
      EXPECT_EQ(word_at(words, i), complement ? ~value : value);
    }
    scalar().widen[3](halves.data(), words.data(), 4, complement);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(word_at(words, i), complement ? ~halves[i] : halves[i]);
  }
}

TEST(Scalar, DotIsModuloTwoToThe32) {
  Random random(27);
  std::vector<uint8_t> words(4 * 300);
  std::vector<uint32_t> coefficients(300);
  unsigned __int128 sum = 0;
  for (size_t i = 0; i < 300; ++i) {
    coefficients[i] = static_cast<uint32_t>(random());
    put_word(words, i, static_cast<int32_t>(random()));
    sum += static_cast<unsigned __int128>(coefficients[i]) * static_cast<uint32_t>(word_at(words, i));
  }
  EXPECT_EQ(scalar().dot(words.data(), coefficients.data(), 300), static_cast<uint32_t>(sum));
}

}  // namespace
}  // namespace switchml
