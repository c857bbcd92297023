// Chunks reduced from the elements themselves: sums of floats against the exact sum, one element after the other, the
// rest against the words that a switch would combine.
#include "shm/reducer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "base/limits.h"
#include "words_path.h"

namespace switchml::shm {
namespace {

using switchml::testing::Buffer;
using testing::Bytes;
using testing::Random;

constexpr size_t kLongest = 1300;

constexpr Stores kStores[] = {Stores::kCached, Stores::kNonTemporal};

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

void reduce_to(const ElementReduction& reduction, const uint8_t* const* frames, int ranks, size_t n, uint8_t* out,
               Stores stores = Stores::kCached) {
  const Target target{out, 0, n, stores};
  reduce_chunk(reduction, frames, ranks, n, &target, 1);
}

std::string compare(const ElementReduction& reduction, const std::vector<Bytes>& inputs, size_t n) {
  const Bytes expected = testing::by_definition(reduction, inputs, n);
  for (const Stores stores : kStores) {
    const Frames frames(inputs, stores);
    Buffer found(n * element_bytes(reduction.type), 0);
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
  const ElementReduction average{ReduceOp::kSum, ElementType::kFloat32, 2};
  const Frames frames(inputs);
  alignas(64) float found[16];
  reduce_to(average, frames.data(), 2, expected.size(), reinterpret_cast<uint8_t*>(found));
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
  const ElementReduction sum{ReduceOp::kSum, ElementType::kInt64, 1};
  const Frames frames(inputs);
  alignas(64) uint64_t found[8];
  reduce_to(sum, frames.data(), 2, 3, reinterpret_cast<uint8_t*>(found));
  EXPECT_EQ(found[0], 1U);
  EXPECT_EQ(found[1], 0U);
  EXPECT_EQ(found[2], UINT64_MAX - 4);
}

// ---- what a switch cannot do, element by element as C++ has it ----

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

template <typename T, typename Draw>
std::vector<std::vector<T>> drawn(size_t n, const Draw& draw) {
  std::vector<std::vector<T>> tensors(3, std::vector<T>(n));
  for (auto& tensor : tensors) {
    for (T& value : tensor) value = draw();
  }
  return tensors;
}

/// Reduces three tensors of drawn numbers and compares with combine(combine(first, second), third).
template <typename T, typename Draw, typename Combine>
void expect_combined(ReduceOp op, ElementType type, const Draw& draw, const Combine& combine) {
  for (const size_t n : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{5000}}) {
    const auto tensors = drawn<T>(n, draw);
    std::vector<T> expected(n);
    for (size_t i = 0; i < n; ++i) expected[i] = combine(combine(tensors[0][i], tensors[1][i]), tensors[2][i]);
    std::vector<Bytes> inputs;
    for (const auto& tensor : tensors) inputs.push_back(bytes_of(tensor));
    for (const Stores stores : kStores) {
      const Frames frames(inputs, stores);
      Buffer found(n * sizeof(T), 0);
      reduce_to({op, type}, frames.data(), 3, n, found.data(), stores);
      ASSERT_EQ(testing::difference(type, bytes_of(expected).data(), found.data(), n), "")
          << to_string(op) << " of " << to_string(type) << ", length " << n;
      ASSERT_TRUE(found.guards_intact());
    }
  }
}

template <typename T>
void expect_integers(ElementType type) {
  Random random(36);
  using U = std::make_unsigned_t<T>;
  const auto any = [&] { return static_cast<T>(random()); };
  const auto product = [](T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); };
  expect_combined<T>(ReduceOp::kProduct, type, any, product);
  expect_combined<T>(ReduceOp::kAnd, type, any,
                     [](T a, T b) { return static_cast<T>(static_cast<U>(a) & static_cast<U>(b)); });
  expect_combined<T>(ReduceOp::kOr, type, any,
                     [](T a, T b) { return static_cast<T>(static_cast<U>(a) | static_cast<U>(b)); });
  expect_combined<T>(ReduceOp::kXor, type, any,
                     [](T a, T b) { return static_cast<T>(static_cast<U>(a) ^ static_cast<U>(b)); });
  expect_combined<T>(ReduceOp::kMin, type, any, [](T a, T b) { return std::min(a, b); });
  expect_combined<T>(ReduceOp::kMax, type, any, [](T a, T b) { return std::max(a, b); });
}

TEST(Reducer, IntegersAreCombinedAsInCpp) {
  expect_integers<int8_t>(ElementType::kInt8);
  expect_integers<uint8_t>(ElementType::kUInt8);
  expect_integers<int16_t>(ElementType::kInt16);
  expect_integers<int32_t>(ElementType::kInt32);
  expect_integers<int64_t>(ElementType::kInt64);
}

TEST(Reducer, BoolsAreTrueWhateverTheirByte) {
  Random random(37);
  const auto draw = [&] {
    constexpr uint8_t kBytes[] = {0, 0, 1, 2, 255};
    return kBytes[random() % 5];
  };
  const ElementType type = ElementType::kBool;
  expect_combined<uint8_t>(ReduceOp::kAnd, type, draw,
                           [](int a, int b) { return static_cast<uint8_t>(a != 0 && b != 0); });
  expect_combined<uint8_t>(ReduceOp::kOr, type, draw,
                           [](int a, int b) { return static_cast<uint8_t>(a != 0 || b != 0); });
  expect_combined<uint8_t>(ReduceOp::kXor, type, draw,
                           [](int a, int b) { return static_cast<uint8_t>((a != 0) != (b != 0)); });
}

double extreme(double a, double b, bool minimum) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) == minimum ? a : b;
  return (a < b) == minimum ? a : b;
}

TEST(Reducer, Float64) {
  Random random(38);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0, -0.0, kInfinity, -kInfinity, std::nan("3"), 5e-324, -1.0};
  const auto any = [&] {
    if (random() % 4 == 0) return special[random() % special.size()];
    return std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 200) - 100);
  };
  const auto finite = [&] {
    return std::ldexp(static_cast<double>(random()) - 0x1p63, static_cast<int>(random() % 90) - 100);
  };
  for (const bool minimum : {false, true}) {
    expect_combined<double>(minimum ? ReduceOp::kMin : ReduceOp::kMax, ElementType::kFloat64, any,
                            [minimum](double a, double b) { return extreme(a, b, minimum); });
  }
  expect_combined<double>(ReduceOp::kProduct, ElementType::kFloat64, finite, [](double a, double b) { return a * b; });
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
  std::vector<Bytes> inputs;
  for (const auto& tensor : tensors) inputs.push_back(bytes_of(tensor));
  const Frames frames(inputs);
  Buffer found(4000, 0);
  reduce_to({ReduceOp::kProduct, ElementType::kFloat32}, frames.data(), 3, 1000, found.data());
  ASSERT_TRUE(std::isinf(expected[7]));
  EXPECT_EQ(testing::difference(ElementType::kFloat32, bytes_of(expected).data(), found.data(), 1000), "");
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
  reduce_chunk({ReduceOp::kSum, ElementType::kInt32}, frames.data(), 3, kElements, targets.data(), targets.size());
  EXPECT_EQ(inputs[1], sum);
  EXPECT_EQ(whole, sum);
  EXPECT_EQ(part, std::vector<int32_t>(sum.begin() + 17, sum.begin() + 6000));
  reduce_chunk({ReduceOp::kSum, ElementType::kInt32}, frames.data(), 3, kElements, nullptr, 0);
}

TEST(ReduceChunk, InPlaceOfOneRankAlone) {
  std::vector<int32_t> first(5000, 1);
  std::vector<int32_t> second(5000, 2);
  const uint8_t* const frames[] = {reinterpret_cast<uint8_t*>(first.data()), reinterpret_cast<uint8_t*>(second.data())};
  reduce_to({ReduceOp::kSum, ElementType::kInt32}, frames, 2, 5000, reinterpret_cast<uint8_t*>(second.data()));
  EXPECT_EQ(first, std::vector<int32_t>(5000, 1));
  EXPECT_EQ(second, std::vector<int32_t>(5000, 3));
}

TEST(CopyChunk, WritesToEachTargetWhatItWants) {
  std::vector<uint8_t> from(40000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7);
  std::vector<uint8_t> whole(from.size());
  std::vector<uint8_t> part(20000);
  const std::vector<Target> targets = {{from.data(), 0, from.size(), Stores::kCached},  // it is there already
                                       {whole.data(), 0, from.size(), Stores::kNonTemporal},
                                       {part.data(), 5, 20005, Stores::kCached}};
  const std::vector<uint8_t> before = from;
  copy_chunk(from.data(), from.size(), targets.data(), targets.size());
  EXPECT_EQ(from, before);
  EXPECT_EQ(whole, before);
  EXPECT_EQ(part, std::vector<uint8_t>(before.begin() + 5, before.begin() + 20005));
}

}  // namespace
}  // namespace switchml::shm
