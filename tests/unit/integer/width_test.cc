// Widths of blocks: what fits them, what they cost, and what an element loses, against plain arithmetic.
#include "integer/width.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "base/limits.h"
#include "integer/block_exponent.h"
#include "integer/integer_codec.h"
#include "kernels/float16.h"

namespace switchml {
namespace {

constexpr Width kWidths[] = {Width::k16, Width::k32, Width::k48, Width::k64};

TEST(Width, AsManyElementsAsHaveTheWords) {  // [WORD-12]
  for (const Width width : kWidths) {
    for (size_t words = 0; words < 200; ++words) {
      const size_t n = elements_in(width, words);
      EXPECT_LE(words_of(width, n), words);
      EXPECT_GT(words_of(width, n + 1), words);
    }
  }
  EXPECT_EQ(words_of(Width::kNone, 256), 0U);
}

TEST(Width, ChunksHoldEveryElementOnceAndNoMoreThanTheirWords) {  // [CALL-12]
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const size_t block = std::array<size_t, 3>{64, 128, 256}[random() % 3];
    const size_t words = std::array<size_t, 4>{64, 256, 288, 352}[random() % 4];
    const ElementRange range{random() % 1000, 1 + random() % (20 * block)};
    std::vector<Width> widths((range.count + block - 1) / block);
    for (Width& width : widths) width = static_cast<Width>(random() % 5);
    size_t at = range.begin;
    size_t total = 0;
    size_t chunks = 0;
    for (; at < range.begin + range.count; ++chunks) {
      const ElementRange chunk = chunk_at(at, range, block, widths, words);
      ASSERT_EQ(chunk.begin, at);
      ASSERT_GT(chunk.count, 0U);
      size_t used = 0;
      for (size_t end = at + chunk.count; at < end;) {
        const size_t b = (at - range.begin) / block;
        const size_t n = std::min(range.begin + (b + 1) * block, end) - at;
        used += words_of(widths[b], n);
        at += n;
      }
      ASSERT_LE(used, words);
      total += used;
    }
    ASSERT_EQ(at, range.begin + range.count);
    // Each is full, but for a word that half an element would need, and the last one.
    ASSERT_LE((chunks - 1) * (words - 1), total);
  }
}

TEST(Width, ASuperblockOfZerosIsOneChunkWithoutWords) {  // [CALL-12]
  const ElementRange chunk = chunk_at(512, {512, 1000}, 64, std::vector<Width>(16, Width::kNone), 64);
  EXPECT_EQ(chunk.begin, 512U);
  EXPECT_EQ(chunk.count, 1000U);
}

// ---- sums, as workers and a switch make them ----

// A block of up to 64 elements of `type`, of `ranks` ranks, added as words.
class BlockSum {
 public:
  BlockSum(ElementType type, const std::vector<std::vector<float>>& rows, std::optional<int> significant_bits)
      : type_(type), choice_(type, static_cast<int>(rows.size()), significant_bits) {
    const size_t n = rows[0].size();
    std::vector<std::vector<uint8_t>> inputs;
    for (const auto& row : rows) inputs.push_back(as_elements(row));
    std::vector<uint8_t> out(n * element_bytes(type));
    const ChunkPlan plan(type, true, {0, n}, 1024);
    std::vector<std::vector<int32_t>> words;
    Superblock superblock;
    superblock.exponents.resize(1);
    superblock.widths.resize(1);
    superblock.range = {0, n};
    std::vector<uint8_t> call(12), frame(1024), most(12);
    std::vector<uint32_t> total(256);
    for (const bool is_data : {false, true}) {
      for (const auto& input : inputs) {
        Collective c = call_of(input.data(), out.data(), n);
        const IntegerCodec codec(c, plan, static_cast<int>(rows.size()), significant_bits);
        if (!is_data) {
          codec.encode_call(0, call.data());
          for (size_t i = 0; i < call.size(); ++i) most[i] = std::max(most[i], call[i]);
          continue;
        }
        words_ = codec.encode_data({0, n}, &superblock, frame.data());
        for (size_t i = 0; i < words_; ++i) total[i] += wire::detail::load<uint32_t>(&frame[4 * i]);
      }
      if (is_data) break;
      exponents = {most[3], most[7]};
      width = choice_.of(exponents);
      superblock.exponents[0] = exponents.largest;
      superblock.widths[0] = width;
    }
    for (size_t i = 0; i < words_; ++i) wire::detail::store<uint32_t>(&frame[4 * i], total[i]);
    Collective c = call_of(inputs[0].data(), out.data(), n);
    IntegerCodec(c, plan, static_cast<int>(rows.size()), significant_bits)
        .decode_data(frame.data(), {0, n}, &superblock);
    for (size_t i = 0; i < n; ++i) sums.push_back(value_of(out.data(), i));
    for (const auto& input : inputs) {
      for (size_t i = 0; i < n; ++i) terms.push_back(value_of(input.data(), i));
    }
  }

  /// Half a unit.
  double rounding() const { return std::ldexp(1.0, std::max<int>(exponents.largest, 1) - 127 - choice_.bits(width)); }
  size_t words() const { return words_; }

  Width width = Width::kNone;
  BlockExponents exponents;
  std::vector<double> sums;
  std::vector<double> terms;  // Rank by rank, as rounded to the type.

 private:
  std::vector<uint8_t> as_elements(const std::vector<float>& row) const {
    std::vector<uint8_t> bytes(row.size() * element_bytes(type_));
    for (size_t i = 0; i < row.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &row[i], 4);
      if (type_ == ElementType::kFloat32) std::memcpy(&bytes[4 * i], &bits, 4);
      const uint16_t half = type_ == ElementType::kBFloat16 ? static_cast<uint16_t>(bits >> 16) : float16_of(bits);
      if (type_ != ElementType::kFloat32) std::memcpy(&bytes[2 * i], &half, 2);
    }
    return bytes;
  }
  double value_of(const uint8_t* elements, size_t i) const {
    float value = 0;
    if (type_ == ElementType::kFloat32) {
      std::memcpy(&value, elements + 4 * i, 4);
    } else {
      kernels().widen_half[float_row(type_) - 1](elements + 2 * i, &value, 1);
    }
    return value;
  }
  Collective call_of(const void* in, void* out, size_t n) const {
    Collective c;
    c.op = ReduceOp::kSum;
    c.type = type_;
    c.count = c.operands()->output.end = n;
    c.operands()->input = in;
    c.operands()->output.data = out;
    return c;
  }

  ElementType type_;
  WidthChoice choice_;
  size_t words_ = 0;
};

double ulp_of(ElementType type, double value) {
  const int precision = type == ElementType::kFloat32 ? 24 : type == ElementType::kFloat16 ? 11 : 8;
  return std::ldexp(1.0, std::ilogb(value == 0 ? 1e-45 : value) + 1 - precision) +
         (type == ElementType::kFloat16 ? 0x1p-24 : 0x1p-133);
}

// docs/collectives.md: a term is off by half a unit at most, which is less than 2^-p of the least term that is not zero
// unless the block has 64 bits; and the sum by that of all ranks, besides its own rounding.
TEST(Width, ErrorsStayWithinTheBoundOfEachWidth) {  // [WORD-15]
  std::mt19937 random(20261130);
  std::array<int, 5> seen{};
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    for (int round = 0; round < 3000; ++round) {
      const size_t ranks = std::array<size_t, 6>{1, 2, 3, 8, 31, 128}[random() % 6];
      const int spread = 1 + static_cast<int>(random() % (type == ElementType::kFloat16 ? 20 : 70));
      const std::optional<int> bits = random() % 2 != 0 ? std::nullopt : std::optional<int>(random() % 25);
      std::vector<std::vector<float>> rows(ranks, std::vector<float>(1 + random() % 64));
      for (auto& row : rows) {
        for (float& x : row) {
          x = std::ldexp(1.0F + static_cast<float>(random() % 4096) / 4096.0F, -static_cast<int>(random() % spread));
          if (random() % 2 != 0) x = -x;
          if (random() % 5 == 0 || round % 50 == 0) x = 0;
        }
      }
      const BlockSum block(type, rows, bits);
      ++seen[static_cast<size_t>(block.width)];
      const size_t n = rows[0].size();
      double least = INFINITY;
      for (const double term : block.terms) least = term == 0 ? least : std::min(least, std::fabs(term));
      ASSERT_EQ(block.width == Width::kNone, least == INFINITY);
      if (block.width != Width::kNone && block.width != Width::k64) {
        const int precision = type == ElementType::kFloat32 ? 24 : type == ElementType::kFloat16 ? 11 : 8;
        ASSERT_LT(block.rounding(), std::ldexp(least, -std::min(bits.value_or(0), precision)));
      }
      ASSERT_EQ(block.words(), words_of(block.width, n));
      for (size_t i = 0; i < n; ++i) {
        long double exact = 0;
        for (size_t r = 0; r < ranks; ++r) exact += static_cast<long double>(block.terms[r * n + i]);
        const double half_units = block.width == Width::kNone ? 0 : static_cast<double>(ranks) * block.rounding();
        const double own = ulp_of(type, static_cast<double>(exact)) + ulp_of(ElementType::kFloat32, block.sums[i]);
        ASSERT_LE(std::fabs(static_cast<double>(exact - static_cast<long double>(block.sums[i]))), half_units + own)
            << to_string(type) << " of " << ranks << " ranks, width " << static_cast<int>(block.width);
      }
    }
  }
  for (size_t width = 0; width < seen.size(); ++width) EXPECT_GT(seen[width], 20) << "width " << width;
}

// One rank has a term, all others zeros: it never vanishes while the block's largest is within what 64 bits span.
TEST(Width, NoTermVanishesInItsBlock) {  // [WORD-15]
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    const int deepest = type == ElementType::kFloat16 ? 23 : 48;
    for (const size_t ranks : {1, 2, 7, 8, 100, 128}) {
      for (int depth = 0; depth <= deepest; ++depth) {
        std::vector<std::vector<float>> rows(ranks, std::vector<float>(3, 0.0F));
        rows[0] = {1.9F, std::ldexp(1.0F, -depth), 0.0F};
        const BlockSum block(type, rows, std::nullopt);
        ASSERT_GT(block.sums[1], 0.0) << to_string(type) << " of " << ranks << " ranks, depth " << depth;
        ASSERT_EQ(block.sums[2], 0.0);
      }
    }
  }
}

// The largest terms there are, all of one sign, next to the deepest.
TEST(Width, NoSumOverflowsItsWidth) {  // [WORD-8, WORD-13, WORD-14]
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    const float largest = type == ElementType::kFloat32   ? 2.0F - 0x1p-23F
                          : type == ElementType::kFloat16 ? 2.0F - 0x1p-10F
                                                          : 2.0F - 0x1p-7F;
    std::vector<int> numbers = {129, 200, 256, 500, 513, 1000, 1023, kMaxRanks};
    for (int ranks = 1; ranks <= kMaxWorkers; ++ranks) numbers.push_back(ranks);
    for (const int ranks : numbers) {
      for (const int depth : {0, 5, 12, 20, 35, 60}) {
        if (type == ElementType::kFloat16 && depth > 20) continue;
        for (const float sign : {1.0F, -1.0F}) {
          std::vector<std::vector<float>> rows(static_cast<size_t>(ranks), std::vector<float>(4, sign * largest));
          for (auto& row : rows) row[1] = std::ldexp(largest, -depth);
          const BlockSum block(type, rows, 0);
          for (const size_t i : {0, 2, 3}) {
            const double exact = static_cast<double>(sign * largest) * ranks;
            ASSERT_LE(std::fabs(block.sums[i] - exact), ranks * block.rounding() + ulp_of(type, exact))
                << to_string(type) << " of " << ranks << " ranks, depth " << depth;
          }
        }
      }
    }
  }
}

TEST(Width, NormalGradientsOf16BitsTakeTwoToThreeBytes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  size_t words = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::vector<float>> rows(8, std::vector<float>(64));
    for (auto& row : rows) {
      for (float& x : row) x = normal(random);
    }
    words += BlockSum(ElementType::kBFloat16, rows, std::nullopt).words();
  }
  const double bytes = static_cast<double>(words) * 4 / (500 * 64);
  EXPECT_LE(bytes, 2.5);
  EXPECT_GE(bytes, 2.0);
}

}  // namespace
}  // namespace switchml
