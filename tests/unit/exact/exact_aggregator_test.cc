#include "exact/exact_aggregator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "softswitch/exact.h"

namespace switchml::softswitch {
namespace {

constexpr uint64_t kKey = 77;
constexpr int kMembers = 4;

class ExactAggregatorTest : public ::testing::Test {
 protected:
  ExactAggregatorTest() : store_(SlotStore::create(1, 1024, kMembers)) {}

  /// All contributions in order, as the switch hands them on, then the result.
  ExactResult aggregate(const std::vector<ExactPart>& parts) {
    Arrival arrival;
    std::vector<uint8_t> bytes;
    SlotUse& use = store_->use(0, parts[0].seq);
    use.restart();
    for (size_t i = 0; i < parts.size(); ++i) {
      bytes = exact_frame(parts[i], 9, 77, {kKey});
      EXPECT_EQ(aggregator_.parse(bytes.data(), bytes.size(), false, &arrival), wire::ParseError::kNone);
      use.contributed.insert(arrival.worker);
      aggregator_.add(arrival, i == 0, &use, store_.get());
      if (i + 1 < parts.size()) aggregator_.keep(arrival, store_.get());
    }
    aggregator_.complete(arrival, &use, store_.get(), {kKey}, std::nullopt);
    EXPECT_TRUE(use.complete);
    const uint8_t* payload = store_->payload(0, parts[0].seq);
    const SwitchFrame frame = aggregator_.repeated_frame(use, payload, arrival.worker, bytes.size(), false);
    return exact_result_of({frame.data, frame.data + frame.size}, {kKey});
  }

  const ExactAggregator aggregator_;
  std::unique_ptr<SlotStore> store_;
};

using Floats = std::vector<float>;

TEST_F(ExactAggregatorTest, SumsAreExactAndRoundedOnce) {
  const auto result = aggregate({floats(0, {0x1p24F, 1.5F, -0.0F}), floats(1, {1, -1.5F, -0.0F}),
                                 floats(2, {1, 0x1p-100F, -0.0F}), floats(3, {-0x1p24F, 0, -0.0F})});
  EXPECT_EQ(result.as<float>(), (Floats{2, 0x1p-100F, 0}));
  EXPECT_TRUE(std::signbit(result.as<float>()[2]));
}

TEST_F(ExactAggregatorTest, TheHeaderIsThatOfTheContributions) {  // [EXACT-19]
  ExactPart a = floats(2, {3}, 6);
  ExactPart b = floats(1, {4}, 6);
  a.divisor = b.divisor = 2;
  a.call = b.call = 0xfeedbeef;
  b.flags = wire::kFlagRepeat | 0x80;
  const ExactResult result = aggregate({a, b});
  EXPECT_EQ(result.header.job, 9);
  EXPECT_EQ(result.header.epoch, 77U);
  EXPECT_EQ(result.header.slot, 0);
  EXPECT_EQ(result.header.seq, 6U);
  EXPECT_EQ(result.header.flags, 0);
  EXPECT_EQ(result.header.type, 0);
  EXPECT_EQ(result.header.operation, 0);
  EXPECT_EQ(result.header.divisor, 2);
  EXPECT_EQ(result.header.call, 0xfeedbeefU);
  EXPECT_EQ(result.as<float>(), Floats{3.5F});
}

TEST_F(ExactAggregatorTest, ContributionsWithoutElementsTakeNoPart) {
  EXPECT_EQ(aggregate({floats(3, {}), floats(1, {5, 6}), floats(0, {}), floats(2, {1, 1})}).as<float>(),
            (Floats{6, 7}));
  EXPECT_EQ(aggregate({floats(1, {5, 6}), floats(0, {})}).as<float>(), (Floats{5, 6}));
  EXPECT_EQ(aggregate({floats(0, {}), floats(1, {5, 6})}).as<float>(), (Floats{5, 6}));
  EXPECT_TRUE(aggregate({floats(0, {}), floats(1, {})}).elements.empty());
}

TEST_F(ExactAggregatorTest, WhoWantsNoneGetsTheHeader) {
  ExactPart without = floats(0, {1, 2});
  without.flags = wire::kFlagNoElements;
  const ExactResult whole = aggregate({without, floats(1, {5, 6})});
  EXPECT_EQ(whole.as<float>(), (Floats{6, 8}));
  const ExactResult header = aggregate({floats(1, {5, 6}), without});
  EXPECT_TRUE(header.elements.empty());
  EXPECT_EQ(header.header.flags, 0);
  EXPECT_EQ(header.header.call, whole.header.call);
}

// A minimum of what one alone has is it: no 0 takes the place of those who have nothing.
TEST_F(ExactAggregatorTest, ASingleContributionStillBecomesAResult) {
  ExactPart nans;
  nans.type = ElementType::kFloat64;
  nans.operation = ReduceOp::kMin;
  nans.elements = bytes_of<uint64_t>({0xfff0000000000001, 0x4000000000000000});
  ExactPart nothing = nans;
  nothing.worker = 1;
  nothing.elements = {};
  EXPECT_EQ(aggregate({nans, nothing}).as<uint64_t>(), (std::vector<uint64_t>{0x7ff8000000000000, 0x4000000000000000}))
      << "the quiet NaN with no other bit";
  ExactPart bools = nothing;
  bools.type = ElementType::kBool;
  bools.operation = ReduceOp::kXor;
  bools.elements = {0, 1, 2, 255};
  nothing = bools;
  nothing.worker = 0;
  nothing.elements = {};
  EXPECT_EQ(aggregate({bools, nothing}).elements, (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST_F(ExactAggregatorTest, TheOrderOfArrivalDoesNotShow) {
  std::vector<ExactPart> parts;
  const double factors[] = {1 + 0x1p-52, 1 - 0x1p-53, 3.0, 1e300};
  for (int worker = 0; worker < kMembers; ++worker) {
    ExactPart part;
    part.worker = static_cast<uint8_t>(worker);
    part.type = ElementType::kFloat64;
    part.operation = ReduceOp::kProduct;
    part.elements = bytes_of<double>({factors[worker]});
    parts.push_back(part);
  }
  const double expected = ((factors[0] * factors[1]) * factors[2]) * factors[3];
  std::vector<int> order{0, 1, 2, 3};
  do {
    std::vector<ExactPart> arriving;
    for (const int worker : order) arriving.push_back(parts[static_cast<size_t>(worker)]);
    EXPECT_EQ(aggregate(arriving).as<double>(), std::vector<double>{expected});
  } while (std::next_permutation(order.begin(), order.end()));
}

ExactPart bfloat16s(int worker, const std::vector<uint16_t>& values) {
  ExactPart part;
  part.worker = static_cast<uint8_t>(worker);
  part.type = ElementType::kBFloat16;
  part.operation = ReduceOp::kSumToFloat32;
  part.elements = bytes_of(values);
  return part;
}

// 256 and 1/256 do not fit one bfloat16.
TEST_F(ExactAggregatorTest, NarrowTermsHaveAResultOfFloat32) {  // [NSUM-1]
  const auto result = aggregate({bfloat16s(0, {0x4380, 0x3f80}), bfloat16s(1, {0x3b80, 0x3f80}), bfloat16s(2, {})});
  EXPECT_EQ(result.as<float>(), (Floats{256 + 0x1p-8F, 2}));
  EXPECT_EQ(result.header.operation, 8);
  EXPECT_EQ(result.header.type, 2);
  EXPECT_TRUE(aggregate({bfloat16s(0, {0x4380}), bfloat16s(1, {0x3b80, 0x3f80})}).disagree());
}

TEST_F(ExactAggregatorTest, ALeafRefusesToRoundNarrowTerms) {  // [NSUM-6]
  const std::vector<uint8_t> bytes = exact_frame(bfloat16s(0, {0x4380}), 9, 77, {kKey});
  Arrival arrival;
  ASSERT_EQ(aggregator_.parse(bytes.data(), bytes.size(), false, &arrival), wire::ParseError::kNone);
  SlotUse& use = store_->use(0, 1);
  use.restart();
  use.contributed.insert(arrival.worker);
  aggregator_.add(arrival, true, &use, store_.get());
  aggregator_.complete(arrival, &use, store_.get(), {kKey}, uint8_t{2});
  const SwitchFrame frame = aggregator_.whole_frame(use, store_->payload(0, 1));
  EXPECT_EQ(frame.size, wire::kExactHeaderBytes);
  EXPECT_EQ(wire::read_exact_header(frame.data).flags, wire::kFlagDisagree);
}

struct Difference {
  const char* name;
  void (*make)(ExactPart* part);
};
constexpr Difference kDifferences[] = {
    {"type", [](ExactPart* p) { p->type = ElementType::kInt32; }},
    {"operation", [](ExactPart* p) { p->operation = ReduceOp::kMax; }},
    {"divisor", [](ExactPart* p) { p->divisor = 3; }},
    {"call", [](ExactPart* p) { ++p->call; }},
    {"length", [](ExactPart* p) { p->elements.resize(12); }},
};

TEST_F(ExactAggregatorTest, WhatDisagreesHasTheFirstOnesFieldsAndNoElements) {
  for (const Difference& difference : kDifferences) {
    for (size_t place = 0; place < 3; ++place) {
      std::vector<ExactPart> parts{floats(2, {1, 2}), floats(0, {3, 4}), floats(1, {5, 6})};
      difference.make(&parts[place]);
      const ExactResult result = aggregate(parts);
      SCOPED_TRACE(std::string(difference.name) + " of the one that comes as number " + std::to_string(place));
      EXPECT_EQ(result.header.flags, wire::kFlagDisagree);
      EXPECT_TRUE(result.elements.empty());
      EXPECT_EQ(result.header.type, static_cast<uint8_t>(parts[0].type));
      EXPECT_EQ(result.header.operation, static_cast<uint8_t>(parts[0].operation));
      EXPECT_EQ(result.header.divisor, parts[0].divisor);
      EXPECT_EQ(result.header.call, parts[0].call);
    }
  }
}

TEST_F(ExactAggregatorTest, WhoHasNoElementsMayDisagreeToo) {
  for (const Difference& difference : kDifferences) {
    std::vector<ExactPart> parts{floats(0, {1, 2}), floats(1, {})};
    if (std::string(difference.name) == "length") continue;
    difference.make(&parts[1]);
    EXPECT_TRUE(aggregate(parts).disagree()) << difference.name;
  }
}

TEST_F(ExactAggregatorTest, NothingOfTheUseBeforeRemains) {
  std::vector<ExactPart> parts{floats(0, {1, 2, 3}), floats(1, {1, 2, 3}), floats(2, {1, 2, 3})};
  ++parts[1].call;
  EXPECT_TRUE(aggregate(parts).disagree());
  const ExactResult result = aggregate({floats(0, {}), floats(1, {7}), floats(2, {})});
  EXPECT_EQ(result.header.flags, 0);
  EXPECT_EQ(result.as<float>(), Floats{7}) << "the contributions to the use before lie where they lay";
}

}  // namespace
}  // namespace switchml::softswitch
