// Sums of blocks in the next wider float. What no proof holds for is left to the caller; what one holds for has the
// bits of exact_sum(). Whole contributions are in exact/partial_sums_test.cc.
#include "kernels/partial_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/exact_sum.h"
#include "kernels/kernels.h"
#include "kernels/table_compare.h"

namespace switchml {
namespace {

using testing::Random;

struct Type {
  ElementType type;
  FloatFormat format;
  size_t bytes;
};
const Type kTypes[] = {{ElementType::kFloat32, FloatFormat::float32(), 4},
                       {ElementType::kFloat16, FloatFormat::float16(), 2},
                       {ElementType::kBFloat16, FloatFormat::bfloat16(), 2},
                       {ElementType::kFloat64, FloatFormat::float64(), 8}};

/// `first`, `spread`: the least field of an exponent, and how many there are. Half of the significands have few bits,
/// so that sums lie halfway between numbers.
uint64_t term(const FloatFormat& f, uint64_t first, uint64_t spread, Random& random) {
  const uint64_t hidden = uint64_t{1} << (f.precision - 1);
  const uint64_t field = first + random() % spread;
  const uint64_t significand = random() % hidden & (random() % 2 == 0 ? ~uint64_t{0} : ~(hidden / 8 - 1));
  return (field * hidden + significand) | (random() % 2 == 0 ? f.sign() : 0);
}
uint64_t field_of_one(const FloatFormat& f) { return f.limit >> (f.precision - 1) >> 1; }

uint64_t bits_at(const std::vector<uint8_t>& bytes, size_t i, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, &bytes[i * size], size);
  return bits;
}

struct Sum {
  Sum(const Type& of, size_t ranks, uint64_t spread, Random& random)
      : Sum(of, ranks, field_of_one(of.format), spread, random) {}
  Sum(const Type& of, size_t ranks, uint64_t first, uint64_t spread, Random& random)
      : type(of), terms(ranks), bytes(ranks * kSumBlock * of.bytes) {
    for (size_t i = 0; i < ranks * kSumBlock; ++i) {
      const uint64_t bits = term(of.format, first, spread, random);
      std::memcpy(&bytes[i * of.bytes], &bits, of.bytes);
    }
  }
  SumSource source() const { return {bytes.data(), terms, kSumBlock}; }
  uint64_t expected(size_t i, uint32_t divisor) const {
    std::vector<double> numbers;
    for (size_t t = 0; t < terms; ++t)
      numbers.push_back(number_of(bits_at(bytes, t * kSumBlock + i, type.bytes), type.format));
    return exact_sum(numbers.data(), numbers.size(), divisor, type.format);
  }

  const Type& type;
  const size_t terms;
  std::vector<uint8_t> bytes;
};

class PartialSumTables : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const PartialSumKernels* const kernels_ = GetParam()->partial_sums;
};

INSTANTIATE_TEST_SUITE_P(All, PartialSumTables, ::testing::ValuesIn(available_kernels()),
                         [](const ::testing::TestParamInfo<const Kernels*>& table) { return table.param->name; });

/// Elements without a proof, once the others have been looked at. [OP-1]
SumMask check_rounded(const PartialSumKernels& kernels, const Sum& sum, uint32_t divisor) {
  const SumSource source = sum.source();
  std::vector<uint8_t> result(kSumBlock * sum.type.bytes);
  const SumMask bad = kernels.sum_to_type(sum.type.type, &source, 1, 0, kSumBlock, divisor, result.data());
  for (size_t i = 0; i < kSumBlock; ++i) {
    if ((bad >> i & 1) != 0) continue;
    EXPECT_EQ(bits_at(result, i, sum.type.bytes), sum.expected(i, divisor))
        << to_string(sum.type.type) << ", " << sum.terms << " terms / " << divisor;
  }
  return bad;
}

TEST_P(PartialSumTables, RoundWhatTheyProveAsExactSumDoes) {
  Random random(1);
  for (const Type& type : kTypes) {
    for (const uint64_t spread : {3, 12}) {
      for (const size_t ranks : {1, 2, 3, 8, 128}) {
        for (const uint32_t divisor : {1U, 2U, 3U, 7U, 127U, 128U, 1023U, 1024U}) {
          const SumMask bad = check_rounded(*kernels_, Sum(type, ranks, spread, random), divisor);
          const bool is_simple = type.type != ElementType::kFloat64 || ranks < 8;
          EXPECT_TRUE(bad == 0 || !is_simple) << to_string(type.type) << ", " << ranks << ", " << divisor;
        }
      }
    }
  }
}

// Near the smallest and the largest numbers, and anywhere.
TEST_P(PartialSumTables, RoundWhatTheyProveWhateverTheTermsAre) {
  Random random(3);
  for (const Type& type : kTypes) {
    const uint64_t fields = (type.format.limit >> (type.format.precision - 1)) + 1;
    const std::pair<uint64_t, uint64_t> ranges[] = {{0, 1}, {0, 3}, {1, 12}, {fields - 4, 4}, {0, fields}};
    for (const auto& [first, spread] : ranges) {
      for (const size_t ranks : {1, 2, 3, 5, 17}) {
        for (uint32_t divisor = 1; divisor <= 12; ++divisor) {
          check_rounded(*kernels_, Sum(type, ranks, first, spread, random), divisor);
        }
      }
    }
  }
}

// A third of the sum is halfway between two float64, or next to that.
TEST_P(PartialSumTables, RoundQuotientsOfFloat64NextToTies) {
  for (const double beyond : {-0x1p-106, 0.0, 0x1p-105}) {
    for (const double sign : {1.0, -1.0}) {
      const double terms[2] = {sign * (3 + 0x1p-50), sign * (0x1p-53 + beyond)};
      const SumSource source = {reinterpret_cast<const uint8_t*>(terms), 2, 1};
      double quotient = 0;
      const SumMask bad =
          kernels_->sum_to_type(ElementType::kFloat64, &source, 1, 0, 1, 3, reinterpret_cast<uint8_t*>(&quotient));
      const double expected = sign * (beyond < 0 ? 1 + 0x1p-52 : 1 + 0x1p-51);
      EXPECT_TRUE(bad != 0 || quotient == expected) << quotient << " for " << beyond;
      EXPECT_TRUE(bad == 0 || beyond != 0) << "a tie is certain";
    }
  }
}

TEST_P(PartialSumTables, ProveSumsOfSimilarTerms) {
  Random random(2);
  for (const Type& type : kTypes) {
    const Sum sum(type, 8, 3, random);
    const SumSource source = sum.source();
    std::vector<uint8_t> high(kSumBlock * 8);
    std::vector<uint8_t> low(kSumBlock * 8);
    EXPECT_EQ(kernels_->sum_to_wide(type.type, &source, 1, 0, kSumBlock, high.data(), low.data()), 0U)
        << to_string(type.type);
    const SumSource again = {high.data(), 0, kSumBlock};
    if (type.type == ElementType::kFloat64) continue;  // Its pairs lie apart here.
    std::vector<uint8_t> result(kSumBlock * type.bytes);
    EXPECT_EQ(kernels_->sum_to_type(type.type, &again, 1, 0, kSumBlock, 8, result.data()), 0U);
    for (size_t i = 0; i < kSumBlock; ++i) EXPECT_EQ(bits_at(result, i, type.bytes), sum.expected(i, 8));
  }
}

TEST_P(PartialSumTables, ClaimNoProofOfWhatIsRoundedOrNotFinite) {
  const float terms[4][2] = {{1, INFINITY}, {0x1p-60F, -1}, {1, 1}, {0, 2}};
  const SumSource source = {reinterpret_cast<const uint8_t*>(terms), 4, 2};
  double wide[2];
  EXPECT_EQ(kernels_->sum_to_wide(ElementType::kFloat32, &source, 1, 0, 2, reinterpret_cast<uint8_t*>(wide), nullptr),
            3U);
  float sums[2];
  EXPECT_EQ(kernels_->sum_to_type(ElementType::kFloat32, &source, 1, 0, 2, 1, reinterpret_cast<uint8_t*>(sums)), 2U);
  EXPECT_EQ(sums[0], 2.0F);
  for (const uint16_t special : {0x7c00, 0xfc00, 0x7c01, 0x7fff}) {
    const SumSource half = {reinterpret_cast<const uint8_t*>(&special), 1, 1};
    float number;
    EXPECT_EQ(
        kernels_->sum_to_wide(ElementType::kFloat16, &half, 1, 0, 1, reinterpret_cast<uint8_t*>(&number), nullptr), 1U);
  }
}

TEST_P(PartialSumTables, HaveEveryFloat16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double number = number_of(half, FloatFormat::float16());
    if (!std::isfinite(number)) continue;
    const SumSource source = {reinterpret_cast<const uint8_t*>(&half), 1, 1};
    float wide;
    ASSERT_EQ(
        kernels_->sum_to_wide(ElementType::kFloat16, &source, 1, 0, 1, reinterpret_cast<uint8_t*>(&wide), nullptr), 0U);
    ASSERT_EQ(static_cast<double>(wide), number);
    ASSERT_EQ(std::signbit(wide), std::signbit(number));
    uint16_t again;
    ASSERT_EQ(kernels_->sum_to_type(ElementType::kFloat16, &source, 1, 0, 1, 1, reinterpret_cast<uint8_t*>(&again)),
              0U);
    ASSERT_EQ(again, half);
  }
}

// Also those of random bits, where proofs fail.
TEST_P(PartialSumTables, HaveTheSameBitsAndProofs) {
  Random random(3);
  const PartialSumKernels* const portable = &kPartialSums;
  for (const Type& type : kTypes) {
    for (int round = 0; round < 200; ++round) {
      Sum sum(type, 1 + random() % 5, 1 + random() % 60 % (type.bytes == 2 ? 8 : 60), random);
      if (round % 4 == 0) {
        for (uint8_t& byte : sum.bytes) byte = static_cast<uint8_t>(random());
      }
      const SumSource source = {sum.bytes.data(), round % 3 == 0 && sum.terms > 1 ? 0 : sum.terms, kSumBlock};
      const size_t first = random() % kSumBlock;
      const size_t n = 1 + random() % (kSumBlock - first);
      const auto divisor = static_cast<uint32_t>(1 + random() % 128);
      std::vector<uint8_t> mine(3 * kSumBlock * 8);
      std::vector<uint8_t> theirs(mine.size());
      const auto all = [&](const PartialSumKernels& kernels, uint8_t* out) {
        const SumMask wide = kernels.sum_to_wide(type.type, &source, 1, first, n, out, out + kSumBlock * 8);
        const SumMask narrow = kernels.sum_to_type(type.type, &source, 1, first, n, divisor, out + kSumBlock * 16);
        for (size_t i = 0; i < n; ++i) {  // What has no proof is of no use, and may be any NaN.
          if ((wide >> i & 1) != 0) std::memset(out + i * (type.bytes == 2 ? 4 : 8), 0, type.bytes == 2 ? 4 : 8);
          if ((wide >> i & 1) != 0) std::memset(out + kSumBlock * 8 + i * 8, 0, 8);
          if ((narrow >> i & 1) != 0) std::memset(out + kSumBlock * 16 + i * type.bytes, 0, type.bytes);
        }
        return std::pair(wide, narrow);
      };
      ASSERT_EQ(all(*kernels_, mine.data()), all(*portable, theirs.data())) << to_string(type.type);
      ASSERT_EQ(mine, theirs) << to_string(type.type);
    }
  }
}

}  // namespace
}  // namespace switchml
