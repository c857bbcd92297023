// Chunks reduced whole or piece by piece, in the caches or past them. Reductions as such: exact/reduction_test.cc.
#include "shm/reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "words_path.h"

namespace switchml::shm {
namespace {

using GuardedBuffer = switchml::testing::Buffer;
using testing::Bytes;
using testing::Random;

constexpr Stores kStores[] = {Stores::kCached, Stores::kNonTemporal};

/// Frames of all ranks, with guards around each.
class Frames {
 public:
  explicit Frames(const std::vector<Bytes>& inputs, Stores stores = Stores::kCached) {
    for (const Bytes& input : inputs) {
      elements_.emplace_back(input.size(), 0);
      fill_frame(input.data(), input.size(), elements_.back().data(), stores);
      frames_.push_back(elements_.back().data());
    }
  }
  const uint8_t* const* data() const { return frames_.data(); }
  bool guards_intact() const {
    return std::all_of(elements_.begin(), elements_.end(),
                       [](const GuardedBuffer& one) { return one.guards_intact(); });
  }

 private:
  std::vector<GuardedBuffer> elements_;
  std::vector<const uint8_t*> frames_;
};

void reduce_to(const ElementReduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
               Stores stores = Stores::kCached) {
  const Target target{out, 0, n, stores};
  reduce_chunk(reduction, frames, ranks, 0, n, &target, 1);
}

std::string compare(const ElementReduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  const Bytes expected = testing::by_definition(reduction, inputs, n);
  for (const Stores stores : kStores) {
    const Frames frames(inputs, stores);
    GuardedBuffer found(n * element_bytes(reduction.type), 0);
    reduce_to(reduction, frames.data(), static_cast<int>(inputs.size()), n, found.data(), stores);
    if (!frames.guards_intact() || !found.guards_intact()) return "it writes outside";
    const std::string difference = testing::difference(reduction.type, expected.data(), found.data(), n);
    if (!difference.empty()) return difference + (stores == Stores::kCached ? "" : " (non-temporal)");
  }
  return "";
}

class EveryReduction : public ::testing::TestWithParam<std::tuple<ReduceOp, ElementType>> {
 protected:
  ElementReduction reduction(uint32_t divisor = 1) const {
    return {std::get<0>(GetParam()), std::get<1>(GetParam()), divisor};
  }
};

std::vector<std::tuple<ReduceOp, ElementType>> what_a_switch_can() {
  std::vector<std::tuple<ReduceOp, ElementType>> all;
  for (const ReduceOp op : testing::kReductions) {
    for (int type = 0; type < kElementTypes; ++type) {
      if (integer_can(op, static_cast<ElementType>(type))) all.emplace_back(op, static_cast<ElementType>(type));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Reducer, EveryReduction, ::testing::ValuesIn(what_a_switch_can()), [](const auto& parameter) {
  return std::string(to_string(std::get<0>(parameter.param))) + "_" + to_string(std::get<1>(parameter.param));
});

TEST_P(EveryReduction, HasTheBitsOfItsDefinition) {
  Random random(31);
  const std::pair<int, size_t> cases[] = {{1, 1},    {2, 255},  {3, 257},   {8, 513},
                                          {3, 4096}, {3, 4097}, {3, 20001}, {kMaxHostRanks, 500}};
  for (int flavour = 0; flavour < testing::kFlavours; ++flavour) {
    for (const auto& [ranks, n] : cases) {
      const auto inputs = testing::random_tensors(reduction().type, ranks, n, flavour, random);
      ASSERT_EQ(compare(reduction(), inputs, n), "") << ranks << " ranks, length " << n << ", flavour " << flavour;
      ASSERT_EQ(compare(reduction(3), inputs, n), "") << "a third of " << ranks << ", length " << n;
    }
  }
}

// Of 24 bits each, three factors have 72: float64 rounds after the third, and once more to the type.
TEST(Reducer, ProductsOfFloatsAreRoundedFromFloat64) {
  Random random(39);
  std::vector<std::vector<float>> tensors(3, std::vector<float>(1000));
  for (auto& tensor : tensors) {
    for (float& value : tensor) value = std::ldexp(static_cast<float>(random() % 65536) - 32768.0F, -15);
  }
  tensors[0][7] = std::numeric_limits<float>::infinity();
  std::vector<float> expected(1000);
  for (size_t i = 0; i < 1000; ++i) {
    const double product = static_cast<double>(tensors[0][i]) * tensors[1][i] * tensors[2][i];
    expected[i] = static_cast<float>(product);
  }
  const uint8_t* inputs[3];
  for (size_t rank = 0; rank < 3; ++rank) inputs[rank] = reinterpret_cast<const uint8_t*>(tensors[rank].data());
  std::vector<float> found(1000);
  reduce_to({ReduceOp::kProduct, ElementType::kFloat32}, inputs, 3, 1000, reinterpret_cast<uint8_t*>(found.data()));
  EXPECT_TRUE(std::isinf(expected[7]));
  EXPECT_EQ(found, expected);
}

TEST(Reducer, AFrameIsFilledFromAnywhere) {
  Random random(34);
  for (size_t shift = 0; shift < 64; ++shift) {
    GuardedBuffer from(3000 + shift, shift);
    for (size_t i = 0; i < 3000 + shift; ++i) from.data()[i] = static_cast<uint8_t>(random());
    GuardedBuffer frame(3000 + shift, 0);
    fill_frame(from.data(), 3000 + shift, frame.data(), kStores[shift % 2]);
    ASSERT_EQ(std::memcmp(from.data(), frame.data(), 3000 + shift), 0) << "shift " << shift;
    ASSERT_TRUE(frame.guards_intact());
  }
}

// ---- several places ----

TEST(ReduceChunk, WritesToEachTargetWhatItWants) {
  constexpr size_t kElements = 10000;  // more than are made at a time
  std::vector<std::vector<int32_t>> inputs(3, std::vector<int32_t>(kElements));
  std::vector<int32_t> sum(kElements);
  std::vector<const uint8_t*> frames;
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < kElements; ++i) sum[i] += inputs[rank][i] = static_cast<int32_t>(i * (rank + 1));
    frames.push_back(reinterpret_cast<const uint8_t*>(inputs[rank].data()));
  }
  std::vector<int32_t> whole(kElements);
  std::vector<int32_t> part(6000 - 17);
  const std::vector<Target> targets = {
      {reinterpret_cast<uint8_t*>(inputs[1].data()), 0, kElements, Stores::kCached},  // in place
      {reinterpret_cast<uint8_t*>(whole.data()), 0, kElements, Stores::kNonTemporal},
      {reinterpret_cast<uint8_t*>(part.data()), 17, 6000, Stores::kCached},
  };
  reduce_chunk({ReduceOp::kSum, ElementType::kInt32}, frames.data(), 3, 0, kElements, targets.data(), targets.size());
  EXPECT_EQ(inputs[1], sum);
  EXPECT_EQ(whole, sum);
  EXPECT_EQ(part, std::vector<int32_t>(sum.begin() + 17, sum.begin() + 6000));
  reduce_chunk({ReduceOp::kSum, ElementType::kInt32}, frames.data(), 3, 0, kElements, nullptr, 0);
}

TEST(ReduceChunk, InPlaceOfOneRankAlone) {
  std::vector<int32_t> first(5000, 1);
  std::vector<int32_t> second(5000, 2);
  const uint8_t* const frames[] = {reinterpret_cast<uint8_t*>(first.data()), reinterpret_cast<uint8_t*>(second.data())};
  reduce_to({ReduceOp::kSum, ElementType::kInt32}, frames, 2, 5000, reinterpret_cast<uint8_t*>(second.data()));
  EXPECT_EQ(first, std::vector<int32_t>(5000, 1));
  EXPECT_EQ(second, std::vector<int32_t>(5000, 3));
}

TEST(ReduceChunk, APartOfItAlone) {
  const std::vector<int32_t> ones(9000, 1);
  for (const bool in_place : {false, true}) {
    for (const Stores stores : kStores) {
      std::vector<int32_t> tensor(9000, 2);
      std::vector<int32_t> apart(9000, 2);
      std::vector<int32_t>& result = in_place ? tensor : apart;
      const uint8_t* const frames[] = {reinterpret_cast<const uint8_t*>(ones.data()),
                                       reinterpret_cast<uint8_t*>(tensor.data())};
      const Target target{reinterpret_cast<uint8_t*>(result.data() + 100), 100, 9000, stores};
      reduce_chunk({ReduceOp::kSum, ElementType::kInt32}, frames, 2, 5, 8000, &target, 1);
      for (size_t i = 0; i < 9000; ++i) ASSERT_EQ(result[i], i < 100 || i >= 8000 ? 2 : 3) << i;
    }
  }
}

}  // namespace
}  // namespace switchml::shm
