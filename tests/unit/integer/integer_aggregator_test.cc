#include "integer/integer_aggregator.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/kernels.h"
#include "softswitch/fixture.h"

namespace switchml::softswitch {
namespace {

constexpr int32_t kLow = std::numeric_limits<int32_t>::min();
constexpr int32_t kHigh = std::numeric_limits<int32_t>::max();

class IntegerAggregatorTest : public ::testing::Test {
 protected:
  IntegerAggregatorTest() : store_(SlotStore::create(1, 1024)) {}

  /// All contributions in order, then the result, or with an uplink nothing.
  ResultPacket aggregate(const std::vector<Contribution>& contributions, std::optional<uint8_t> uplink = {}) {
    Arrival arrival;
    std::vector<uint8_t> bytes;
    SlotUse& use = store_->use(0, 1);
    use.restart();
    for (size_t i = 0; i < contributions.size(); ++i) {
      bytes = contribution_frame(contributions[i], 9, 77);
      EXPECT_EQ(aggregator_.parse(bytes.data(), bytes.size(), false, &arrival), wire::ParseError::kNone);
      aggregator_.add(arrival, i == 0, &use, store_.get());
    }
    aggregator_.complete(arrival, &use, store_.get(), {}, uplink);
    return uplink ? ResultPacket{} : result_of({frame(), frame() + wire::kHeaderBytes + use.bytes});
  }
  uint8_t* frame() { return store_->payload(0, 1) - wire::kHeaderBytes; }
  static Contribution part(std::vector<int32_t> words, wire::Operation operation = wire::Operation::kSum) {
    Contribution c;
    c.words = std::move(words);
    c.operation = operation;
    return c;
  }
  static Contribution max_part(std::vector<int32_t> words) { return part(std::move(words), wire::Operation::kMax); }

  const IntegerAggregator aggregator_;
  std::unique_ptr<SlotStore> store_;
};

using Words = std::vector<int32_t>;

TEST_F(IntegerAggregatorTest, SumsWrapAround) {
  EXPECT_EQ(aggregate({part({1, kHigh, kLow, -1}), part({2, 1, -1, kLow})}).words, (Words{3, kLow, kHigh, kHigh}));
}

TEST_F(IntegerAggregatorTest, MaximumIsSigned) {
  EXPECT_EQ(aggregate({max_part({1, kLow, -5, 0}), max_part({-2, kHigh, -7, kLow})}).words, (Words{1, kHigh, -5, 0}));
}

TEST_F(IntegerAggregatorTest, ALongerSumGrowsTheUse) {
  EXPECT_EQ(aggregate({part({1}), part({2, 3}), part({4, 5, 6})}).words, (Words{7, 8, 6}));
}

TEST_F(IntegerAggregatorTest, AShorterSumLeavesTheRest) {
  EXPECT_EQ(aggregate({part({1, 2, 3}), part({10}), part({})}).words, (Words{11, 2, 3}));
}

TEST_F(IntegerAggregatorTest, MissingWordsOfAMaximumAreZeros) {
  EXPECT_EQ(aggregate({max_part({-1}), max_part({-2, -3, 4})}).words, (Words{-1, 0, 4}));
  EXPECT_EQ(aggregate({max_part({-2, -3, 4}), max_part({-1})}).words, (Words{-1, 0, 4}));
  EXPECT_EQ(aggregate({max_part({-2, -3, 4}), max_part({})}).words, (Words{0, 0, 4}));
}

TEST_F(IntegerAggregatorTest, NothingOfTheUseBeforeRemains) {
  aggregate({part({kHigh, kHigh, kHigh, kHigh})});
  EXPECT_EQ(aggregate({part({1}), part({1, 1})}).words, (Words{2, 1}));
  aggregate({part({kHigh, kHigh, kHigh, kHigh})});
  EXPECT_EQ(aggregate({max_part({-1}), max_part({-1, -1})}).words, (Words{-1, 0}));
}

TEST_F(IntegerAggregatorTest, HeaderHasTheMaximalExponentAndTheSummedWitness) {
  Contribution a = max_part({1});
  Contribution b = max_part({2});
  a.exponent = 0xfffe;
  b.exponent = 3;
  a.witness = 0xffffffff;
  b.witness = 5;
  b.worker = 1;
  b.flags = wire::kFlagRepeat | 0xf0;
  const ResultPacket result = aggregate({a, b});
  EXPECT_EQ(result.header.exponent, 0xfffe);
  EXPECT_EQ(result.header.witness, 4U);
  EXPECT_EQ(result.header.worker, kAllWorkers);
  EXPECT_EQ(result.header.flags, static_cast<uint8_t>(wire::Operation::kMax));
  EXPECT_EQ(result.header.job, 9);
  EXPECT_EQ(result.header.epoch, 77U);
}

TEST_F(IntegerAggregatorTest, ALeafsOutcomeIsAContribution) {
  Contribution a = max_part({1});
  a.exponent = 7;
  a.witness = 8;
  aggregate({a}, uint8_t{99});
  const wire::Header header = wire::read_header(frame());
  EXPECT_EQ(header.kind, static_cast<uint8_t>(wire::Kind::kContribution));
  EXPECT_EQ(header.worker, 99);
  EXPECT_EQ(header.flags, static_cast<uint8_t>(wire::Operation::kMax));
  EXPECT_EQ(header.exponent, 7);
  EXPECT_EQ(header.witness, 8U);
}

TEST_F(IntegerAggregatorTest, EveryKernelTableLoadsInPlace) {
  for (const Kernels* kernels : available_kernels()) {
    for (size_t n = 0; n < 70; ++n) {
      alignas(64) int32_t words[70];
      for (size_t i = 0; i < 70; ++i) words[i] = static_cast<int32_t>(i * 0x01020305U);
      kernels->load(words, reinterpret_cast<uint8_t*>(words), n);
      for (size_t i = 0; i < 70; ++i) {
        const uint32_t value = static_cast<uint32_t>(i) * 0x01020305U;
        const uint32_t expected = i < n ? __builtin_bswap32(value) : value;
        ASSERT_EQ(static_cast<uint32_t>(words[i]), expected) << kernels->name << " n " << n << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace switchml::softswitch
