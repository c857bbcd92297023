// Chunks reduced from the elements themselves: sums of floats against the exact sum, one element after the other, the
// rest against the words that a switch would combine.
#include "shm/reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/limits.h"
#include "words_path.h"

namespace switchml::shm {
namespace {

using quant::testing::Buffer;
using testing::Bytes;
using testing::Random;

constexpr size_t kLongest = 1300;

constexpr Stores kStores[] = {Stores::kCached, Stores::kPastCaches};

/// Frames of all ranks, with guards around each.
class Frames {
 public:
  Frames(const std::vector<Bytes>& inputs, Stores stores = Stores::kCached) {
    for (const Bytes& input : inputs) {
      elements_.emplace_back(input.size(), 0);
      fill_frame(input.data(), input.size(), elements_.back().data(), stores);
      frames_.push_back(elements_.back().data());
    }
  }
  const uint8_t* const* data() const { return frames_.data(); }
  bool guards_intact() const {
    return std::all_of(elements_.begin(), elements_.end(), [](const Buffer& one) { return one.guards_intact(); });
  }

 private:
  std::vector<Buffer> elements_;
  std::vector<const uint8_t*> frames_;
};

std::string compare(const Reduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  const Bytes expected = testing::by_definition(reduction, inputs, n);
  for (const Stores stores : kStores) {
    const Frames frames(inputs, stores);
    Buffer found(n * element_bytes(reduction.type), 0);
    reduce_chunk(reduction, frames.data(), static_cast<int>(inputs.size()), n, found.data(), stores);
    if (!frames.guards_intact() || !found.guards_intact()) return "it writes outside";
    const std::string difference = testing::difference(reduction.type, expected.data(), found.data(), n);
    if (!difference.empty()) return difference + (stores == Stores::kCached ? "" : " (past the caches)");
  }
  return "";
}

class EveryReduction : public ::testing::TestWithParam<std::tuple<ReduceOp, ElementType>> {
 protected:
  Reduction reduction(uint32_t divisor = 1) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), divisor};
  }
};

std::vector<std::tuple<ReduceOp, ElementType>> what_a_switch_can() {
  std::vector<std::tuple<ReduceOp, ElementType>> all;
  for (const ReduceOp op : testing::kReductions) {
    for (int type = 0; type < kElementTypes; ++type) {
      if (switch_can(op, static_cast<ElementType>(type))) all.emplace_back(op, static_cast<ElementType>(type));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Reducer, EveryReduction, ::testing::ValuesIn(what_a_switch_can()), [](const auto& parameter) {
  return std::string(to_string(std::get<0>(parameter.param))) + "_" + to_string(std::get<1>(parameter.param));
});

TEST_P(EveryReduction, HasTheBitsOfItsDefinition) {
  Random random(31);
  for (const size_t n : {size_t{1}, size_t{17}, size_t{255}, size_t{256}, size_t{257}, size_t{511}, size_t{512},
                         size_t{513}, size_t{1024}, kLongest}) {
    for (int flavour = 0; flavour < testing::kFlavours; ++flavour) {
      for (const int ranks : {1, 2, 3, 8}) {
        const auto inputs = testing::random_tensors(reduction().type, ranks, n, flavour, random);
        ASSERT_EQ(compare(reduction(), inputs, n), "") << ranks << " ranks, length " << n << ", flavour " << flavour;
        const auto divisor = static_cast<uint32_t>(ranks);
        ASSERT_EQ(compare(reduction(divisor), inputs, n), "") << "average of " << ranks << ", length " << n;
      }
    }
  }
}

TEST_P(EveryReduction, HasTheBitsOfItsDefinitionForAsManyRanksAsThereMayBe) {
  Random random(32);
  for (int flavour = 0; flavour < testing::kFlavours; ++flavour) {
    const size_t n = 500 + static_cast<size_t>(flavour) * 7;
    const auto inputs = testing::random_tensors(reduction().type, kMaxWorkers, n, flavour, random);
    ASSERT_EQ(compare(reduction(), inputs, n), "") << "flavour " << flavour;
    ASSERT_EQ(compare(reduction(3), inputs, n), "") << "a third, flavour " << flavour;
  }
}

TEST_P(EveryReduction, HasTheBitsOfItsDefinitionWhereMoreThanOnePieceGoesPastTheCaches) {
  Random random(35);
  for (const size_t n : {size_t{4096}, size_t{4097}, size_t{8192}, size_t{20001}}) {
    const auto inputs = testing::random_tensors(reduction().type, 3, n, static_cast<int>(n % 6), random);
    ASSERT_EQ(compare(reduction(3), inputs, n), "") << "length " << n;
  }
}

// Blocks with and without such a value side by side, and one rank's alone.
TEST(Reducer, OneValueThatIsNotFiniteAnywhere) {
  constexpr size_t n = 600;
  const ElementType types[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16};
  const uint32_t infinities[] = {0x7f800000U, 0x7c00U, 0x7f80U};
  Random random(33);
  for (int row = 0; row < 3; ++row) {
    const auto ordinary = testing::random_tensors(types[row], 3, n, 4, random);
    for (const size_t at : {size_t{0}, size_t{255}, size_t{256}, size_t{511}, size_t{512}, n - 1}) {
      for (const uint32_t mantissa : {0U, 1U}) {  // an infinity, a NaN with a payload
        auto inputs = ordinary;
        const uint32_t bits = infinities[row] | mantissa;
        const size_t size = element_bytes(types[row]);
        std::memcpy(inputs[at % 3].data() + at * size, &bits, size);
        for (const ReduceOp op : testing::kReductions) {
          ASSERT_EQ(compare({op, types[row], 1}, inputs, n), "")
              << to_string(op) << " of " << to_string(types[row]) << ", element " << at << ", mantissa " << mantissa;
        }
      }
    }
  }
}

// By hand, from the definition: no code that the product shares with the other path.
TEST(Reducer, SumsAreThoseOfIeeeWhereTheyAreExact) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> tensors = {{1.0F, 2.5F, inf, inf, nan, -inf, 0.25F, -inf, -7.0F},
                                                   {3.0F, -0.5F, 1.0F, -inf, 1.0F, -inf, 0.5F, 2.0F, 7.0F}};
  const std::vector<float> expected = {2.0F, 1.0F, inf, nan, nan, -inf, 0.375F, -inf, 0.0F};
  std::vector<Bytes> inputs;
  for (const auto& tensor : tensors) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.data());
    inputs.emplace_back(bytes, bytes + tensor.size() * sizeof(float));
  }
  const Reduction average{ReduceOp::kSum, ElementType::kFloat32, 2};
  const Frames frames(inputs);
  alignas(64) float found[16];
  reduce_chunk(average, frames.data(), 2, expected.size(), reinterpret_cast<uint8_t*>(found));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(found[i])) << i;
    } else {
      EXPECT_EQ(found[i], expected[i]) << i;
    }
  }
}

TEST(Reducer, Int64WrapsAround) {
  const std::vector<uint64_t> a = {UINT64_MAX, uint64_t{1} << 63, 5};
  const std::vector<uint64_t> b = {2, uint64_t{1} << 63, UINT64_MAX - 9};
  std::vector<Bytes> inputs;
  for (const auto* tensor : {&a, &b}) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(tensor->data());
    inputs.emplace_back(bytes, bytes + 3 * sizeof(uint64_t));
  }
  const Reduction sum{ReduceOp::kSum, ElementType::kInt64, 1};
  const Frames frames(inputs);
  alignas(64) uint64_t found[8];
  reduce_chunk(sum, frames.data(), 2, 3, reinterpret_cast<uint8_t*>(found));
  EXPECT_EQ(found[0], 1U);
  EXPECT_EQ(found[1], 0U);
  EXPECT_EQ(found[2], UINT64_MAX - 4);
}

TEST(Reducer, AFrameIsFilledFromAnywhere) {
  Random random(34);
  for (size_t shift = 0; shift < 64; ++shift) {
    Buffer from(3000 + shift, shift);
    for (size_t i = 0; i < 3000 + shift; ++i) from.data()[i] = static_cast<uint8_t>(random());
    Buffer frame(3000 + shift, 0);
    fill_frame(from.data(), 3000 + shift, frame.data(), kStores[shift % 2]);
    ASSERT_EQ(std::memcmp(from.data(), frame.data(), 3000 + shift), 0) << "shift " << shift;
    ASSERT_TRUE(frame.guards_intact());
  }
}

}  // namespace
}  // namespace switchml::shm
