// Every operation of every type, at any address and around the blocks that it works in, against a loop over elements.
// Sums that have to be rounded are those of exact_sum_test.cc, and of shm/reducer_test.cc.
#include "exact/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/limits.h"
#include "kernels/exact_sum.h"
#include "kernels/narrow_floats.h"
#include "kernels/table_compare.h"

namespace switchml {
namespace {

using testing::Buffer;
using testing::Random;

FloatFormat format(ElementType type) {
  if (type == ElementType::kFloat16) return FloatFormat::float16();
  if (type == ElementType::kBFloat16) return FloatFormat::bfloat16();
  return type == ElementType::kFloat64 ? FloatFormat::float64() : FloatFormat::float32();
}

uint64_t bits_at(ElementType type, const Buffer& buffer, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, buffer.data() + i * element_bytes(type), element_bytes(type));
  return bits;
}

/// Of few bits, so that sums and products of 9 are exact in every type; and what is no number.
uint64_t any_float(const FloatFormat& f, Random& random) {
  const uint64_t one = (f.limit >> f.precision) << (f.precision - 1);  // the bits of 1
  const uint64_t unit = uint64_t{1} << (f.precision - 1);              // twice as large
  const uint64_t magnitudes[] = {0, one - unit, one, one + unit, one, f.limit, f.limit | 1};
  const uint64_t kind = random() % 40;
  return magnitudes[kind < 2 ? 5 + kind : kind % 5] | (random() % 2 == 0 ? f.sign() : 0);
}

void fill(ElementReduction reduction, Buffer* buffer, size_t n, Random& random) {
  const size_t size = element_bytes(reduction.type);
  for (size_t i = 0; i < n; ++i) {
    uint64_t bits = random();
    if (is_floating(reduction.type)) bits = any_float(format(reduction.type), random);
    if (reduction.type == ElementType::kBool && random() % 2 == 0) bits = 0;
    std::memcpy(buffer->data() + i * size, &bits, size);
  }
}

// ---- the loop ----

double combine(ReduceOp op, double a, double b) {
  if (op == ReduceOp::kSum) return a + b;
  if (op == ReduceOp::kProduct) return a * b;
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (a == b) return std::signbit(a) == (op == ReduceOp::kMin) ? a : b;
  return (a < b) == (op == ReduceOp::kMin) ? a : b;
}

/// `a` and `b` with their sign, if the type has one, in all upper bits.
uint64_t combine(ReduceOp op, ElementType type, uint64_t a, uint64_t b) {
  if (type == ElementType::kBool) a = a != 0, b = b != 0;
  switch (op) {
    case ReduceOp::kSum: return a + b;
    case ReduceOp::kProduct: return a * b;
    case ReduceOp::kAnd: return a & b;
    case ReduceOp::kOr: return a | b;
    case ReduceOp::kXor: return a ^ b;
    default: return (static_cast<int64_t>(a) < static_cast<int64_t>(b)) == (op == ReduceOp::kMin) ? a : b;
  }
}

uint64_t extended(ElementType type, uint64_t bits) {
  const size_t unused = 64 - 8 * element_bytes(type);
  if (type == ElementType::kUInt8 || type == ElementType::kBool) return bits & 0xff;
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

std::string compare_floats(const ElementReduction& reduction, const std::vector<Buffer>& inputs, size_t i,
                           uint64_t found) {
  const FloatFormat f = format(reduction.type);
  double expected = number_of(bits_at(reduction.type, inputs[0], i), f);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    expected = combine(reduction.op, expected, number_of(bits_at(reduction.type, inputs[rank], i), f));
  }
  expected /= reduction.divisor;
  const double got = number_of(found, f);
  const bool same =
      std::isnan(expected) ? found == f.quiet_nan() : got == expected && std::signbit(got) == std::signbit(expected);
  return same ? "" : std::to_string(got) + ", not " + std::to_string(expected);
}

std::string compare_integers(const ElementReduction& reduction, const std::vector<Buffer>& inputs, size_t i,
                             uint64_t found) {
  const ElementType type = reduction.type;
  uint64_t expected = extended(type, bits_at(type, inputs[0], i));
  if (type == ElementType::kBool) expected = expected != 0;
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    expected = combine(reduction.op, type, expected, extended(type, bits_at(type, inputs[rank], i)));
  }
  const uint64_t got = extended(type, found);
  return got == extended(type, expected) ? "" : std::to_string(got) + ", not " + std::to_string(expected);
}

void compare(const ElementReduction& reduction, int ranks, size_t n, Random& random) {
  const size_t size = element_bytes(reduction.type);
  std::vector<Buffer> inputs;
  std::vector<const uint8_t*> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(n * size, random() % 64);
    fill(reduction, &inputs.back(), n, random);
  }
  for (const Buffer& input : inputs) addresses.push_back(input.data());
  Buffer out(n * size, random() % 64);
  reduce(reduction, addresses.data(), ranks, n, out.data());
  const auto compare_one = is_floating(reduction.type) ? compare_floats : compare_integers;
  for (size_t i = 0; i < n; ++i) {
    ASSERT_EQ(compare_one(reduction, inputs, i, bits_at(reduction.type, out, i)), "") << "element " << i << " of " << n;
  }
  ASSERT_TRUE(out.guards_intact()) << "it writes outside";
}

class EveryReduction : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ElementReduction reduction() const {
    return {static_cast<ReduceOp>(std::get<0>(GetParam())), static_cast<ElementType>(std::get<1>(GetParam()))};
  }
};

std::vector<std::tuple<int, int>> all_that_there_are() {
  std::vector<std::tuple<int, int>> all;
  for (int op = 0; op < kReduceOps; ++op) {
    if (op == static_cast<int>(ReduceOp::kBarrier) || op == static_cast<int>(ReduceOp::kSumToFloat32)) continue;
    for (int type = 0; type < kElementTypes; ++type) {
      if (is_float8(static_cast<ElementType>(type))) continue;  // kernels/narrow_floats_test.cc has these
      if (exact_can(static_cast<ReduceOp>(op), static_cast<ElementType>(type))) all.emplace_back(op, type);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ElementReduction, EveryReduction, ::testing::ValuesIn(all_that_there_are()),
                         [](const auto& parameter) {
                           return std::string(to_string(static_cast<ReduceOp>(std::get<0>(parameter.param)))) + "_" +
                                  to_string(static_cast<ElementType>(std::get<1>(parameter.param)));
                         });

TEST_P(EveryReduction, IsALoopOverElements) {
  Random random(static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 71);
  for (const size_t n : {size_t{1}, size_t{7}, size_t{255}, size_t{256}, size_t{257}, size_t{511}, size_t{512},
                         size_t{513}, size_t{1000}}) {
    for (const int ranks : {1, 2, 3, 9}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      ASSERT_NO_FATAL_FAILURE(compare(reduction(), ranks, n, random));
      if (reduction().op != ReduceOp::kSum || !is_floating(reduction().type)) continue;
      ASSERT_NO_FATAL_FAILURE(compare({ReduceOp::kSum, reduction().type, 4}, ranks, n, random)) << "a fourth";
    }
  }
}

TEST_P(EveryReduction, TakesAsManyRanksAsThereMayBeAndNoElements) {
  Random random(72);
  // Sums and products of so many floats are rounded.
  const bool rounded =
      is_floating(reduction().type) && reduction().op != ReduceOp::kMin && reduction().op != ReduceOp::kMax;
  if (!rounded) compare(reduction(), kMaxWorkers, 300, random);
  const uint8_t nothing = 0;
  const uint8_t* inputs[] = {&nothing};
  Buffer out(0, 3);
  reduce(reduction(), inputs, 1, 0, out.data());
  EXPECT_TRUE(out.guards_intact());
}

/// Blocks of any bits, but for scales that are too large for numbers in them, and NaN.
Buffer narrow_terms(ElementType type, size_t n, Random& random) {
  Buffer terms(n * element_bytes(type), random() % 64);
  for (size_t i = 0; i < terms.size(); ++i) terms.data()[i] = static_cast<uint8_t>(random());
  for (size_t block = 0; is_scaled(type) && block < n; ++block) {
    terms.data()[block * kScaledBytes] = static_cast<uint8_t>(random() % 20 == 0 ? random() : 100 + random() % 60);
  }
  return terms;
}

// The exact sum of the terms as they are in float64, whatever their type and number. [NSUM-1, NSUM-2]
TEST(ElementReduction, ASumOfNarrowTermsToFloat32IsExactAndRoundedOnce) {
  Random random(static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 73);
  for (int t = 0; t < kElementTypes; ++t) {
    const auto type = static_cast<ElementType>(t);
    if (!exact_can(ReduceOp::kSumToFloat32, type)) continue;
    const size_t values = values_per_element(type);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{5}, size_t{256}, size_t{300}}) {
      for (const int ranks : {1, 2, 3, 33, kMaxWorkers}) {
        std::vector<Buffer> inputs;
        std::vector<const uint8_t*> addresses;
        std::vector<std::vector<float>> wide(static_cast<size_t>(ranks), std::vector<float>(n * values));
        for (int rank = 0; rank < ranks; ++rank) inputs.push_back(narrow_terms(type, n, random));
        for (int rank = 0; rank < ranks; ++rank) {
          addresses.push_back(inputs[static_cast<size_t>(rank)].data());
          to_float32(type, addresses.back(), n, wide[static_cast<size_t>(rank)].data());
        }
        const uint32_t divisor = ranks == 33 ? 33 : 1;
        Buffer out(n * result_bytes(ReduceOp::kSumToFloat32, type), random() % 64);
        reduce({ReduceOp::kSumToFloat32, type, divisor}, addresses.data(), ranks, n, out.data());
        for (size_t i = 0; i < n * values; ++i) {
          std::vector<double> numbers;
          for (const auto& of_rank : wide) numbers.push_back(static_cast<double>(of_rank[i]));
          ASSERT_EQ(bits_at(ElementType::kFloat32, out, i),
                    exact_sum(numbers.data(), numbers.size(), divisor, FloatFormat::float32()))
              << to_string(type) << ", " << ranks << " ranks, " << i << " of " << n * values;
        }
        ASSERT_TRUE(out.guards_intact()) << "it writes outside";
      }
    }
  }
}

// A float64 has room for two factors of any narrower type, but not for three: the product is rounded to it on the way.
TEST(ElementReduction, AProductDependsOnTheOrderOfTheRanks) {
  const double numbers[] = {1 + 0x1p-52, 1 - 0x1p-53, 3.0, 1e300};
  const double expected = ((numbers[0] * numbers[1]) * numbers[2]) * numbers[3];
  const uint8_t* inputs[4];
  for (int rank = 0; rank < 4; ++rank) inputs[rank] = reinterpret_cast<const uint8_t*>(&numbers[rank]);
  double found = 0;
  reduce({ReduceOp::kProduct, ElementType::kFloat64}, inputs, 4, 1, reinterpret_cast<uint8_t*>(&found));
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace switchml
