// One answer whatever the layout: partial sums of hosts, of leaves and of inner switches, against the sum of all ranks'
// terms at once (exact/reduction.h), bit by bit. Then what contributions are, and that no others are taken.
#include "exact/partial_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/limits.h"
#include "exact/rank_data.h"
#include "kernels/exact_sum.h"
#include "slots/partial_sum_room.h"

namespace switchml {
namespace {

using testing::Bytes;
using testing::Data;
using testing::kAllData;
using testing::kFloats;
using testing::Random;
using testing::RankData;
using testing::same;

constexpr size_t kNumbers = 150;  // Of a tensor: two blocks, and a third in part.

// ---- where they are ----

Bytes together(const std::vector<PartialSum>& parts, size_t room) {
  Bytes out(room);
  const size_t bytes = write_partial_sum(parts.data(), parts.size(), room, out.data());
  EXPECT_GT(bytes, 0U) << "of " << parts[0].elements << " elements in " << room;
  out.resize(bytes);
  out.shrink_to_fit();  // So that the address sanitizer sees what is read behind it.
  return out;
}

PartialSum parsed(ElementType type, const Bytes& payload) {
  const auto sum = parse_partial_sum(type, payload.data(), payload.size());
  EXPECT_TRUE(sum.has_value());
  return sum.value_or(PartialSum());
}

/// Each level puts up to `width` contributions together, at random; the first one ranks' terms.
Bytes through(const RankData& ranks, const std::vector<size_t>& widths, uint32_t divisor, size_t room, Random& random) {
  std::vector<size_t> order(ranks.inputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<PartialSum> level;
  for (const size_t rank : order) level.push_back(term_of(ranks.type, ranks.inputs[rank].data(), ranks.elements));
  std::vector<Bytes> payloads;
  payloads.reserve(8 * kMaxWorkers);  // Views stay.
  for (const size_t width : widths) {
    std::vector<PartialSum> next;
    for (size_t begin = 0, count; begin < level.size(); begin += count) {
      count = std::min(level.size() - begin, width == 0 ? 1 + random() % 5 : width);
      payloads.push_back(together({&level[begin], &level[begin] + count}, room));
      next.push_back(parsed(ranks.type, payloads.back()));
    }
    level = next;
  }
  Bytes result(ranks.inputs[0].size());
  round_partial_sums(level.data(), level.size(), divisor, result.data());
  return result;
}

const std::vector<std::vector<size_t>> kLayouts = {
    {},        {1},       {2},       {3},    {4},       {8},  // Ranks of a host, at one switch.
    {1, 2},    {2, 2},    {4, 2},    {1, 4}, {8, 2},    {0},  // Trees of two levels.
    {1, 2, 2}, {2, 2, 2}, {4, 3, 2}, {0, 0}, {0, 0, 0},       // Of three.
};

TEST(PartialSums, HaveTheBitsOfOneSumWhateverTheLayout) {  // [PART-1, PART-2, PART-8]
  Random random(50);
  for (const ElementType type : kFloats) {
    for (const Data data : kAllData) {
      for (const size_t count : {2, 3, 4, 6, 8, 16}) {
        const RankData ranks(type, count, kNumbers, data, random);
        for (const uint32_t divisor : {1U, static_cast<uint32_t>(count)}) {
          const Bytes expected = ranks.sum(divisor);
          for (size_t layout = 0; layout < kLayouts.size(); ++layout) {
            ASSERT_TRUE(same(type, through(ranks, kLayouts[layout], divisor, kMaxPayloadBytes, random), expected))
                << to_string(type) << ", data " << static_cast<int>(data) << ", " << count << " ranks, divisor "
                << divisor << ", layout " << layout;
          }
        }
      }
    }
  }
}

TEST(PartialSums, OfTheMostRanksHaveRoom) {  // [PART-9]
  Random random(51);
  for (const ElementType type : kFloats) {
    for (const size_t payload : {kMinPartialSumPayload, size_t{1408}}) {
      const size_t elements = elements_of_partial_sums(type, payload, kMaxWorkers);
      for (const Data data : {Data::kAnyBits, Data::kFarApart}) {
        const RankData ranks(type, kMaxWorkers, elements, data, random);
        EXPECT_TRUE(same(type, through(ranks, {1, 4, 8}, 1, payload, random), ranks.sum(1))) << to_string(type);
        EXPECT_TRUE(same(type, through(ranks, {16, 2}, 128, payload, random), ranks.sum(128))) << to_string(type);
      }
    }
  }
}

/// The sum of all ranks' terms, one element after the other, whatever their number.
Bytes sum_one_by_one(const RankData& ranks, uint32_t divisor) {
  const FloatFormat format = format_of(ranks.type);
  const size_t size = element_bytes(ranks.type);
  Bytes result(ranks.elements * size);
  for (size_t i = 0; i < ranks.elements; ++i) {
    std::vector<double> terms;
    for (const Bytes& input : ranks.inputs) {
      uint64_t bits = 0;
      std::memcpy(&bits, &input[i * size], size);
      terms.push_back(number_of(bits, format));
    }
    const uint64_t bits = exact_sum(terms.data(), terms.size(), divisor, format);
    std::memcpy(&result[i * size], &bits, size);
  }
  return result;
}

// Hosts of many ranks, and many hosts; the divisor travels with the sums.
TEST(PartialSums, Of1024RanksHaveTheBitsOfOneSum) {  // [PART-1, PART-3, PART-5, PART-6]
  Random random(57);
  for (const ElementType type : kFloats) {
    for (const Data data : kAllData) {
      const RankData ranks(type, kMaxRanks, 70, data, random);
      for (const size_t of_a_host : {8, 100, 128}) {
        for (const uint32_t divisor : {1U, 1024U, 1023U}) {
          std::vector<Bytes> payloads;
          std::vector<PartialSum> hosts;
          for (size_t begin = 0; begin < ranks.inputs.size(); begin += of_a_host) {
            std::vector<PartialSum> terms;
            for (size_t rank = begin; rank < std::min(begin + of_a_host, ranks.inputs.size()); ++rank) {
              terms.push_back(term_of(type, ranks.inputs[rank].data(), ranks.elements));
              terms.back().divisor = divisor > kMaxHeaderDivisor ? divisor : 0;
            }
            payloads.push_back(together(terms, kMaxPayloadBytes));
          }
          for (const Bytes& payload : payloads) hosts.push_back(parsed(type, payload));
          EXPECT_EQ(hosts[0].divisor, divisor > kMaxHeaderDivisor ? divisor : 0);
          Bytes result(ranks.inputs[0].size());
          round_partial_sums(hosts.data(), hosts.size(), divisor, result.data());
          ASSERT_TRUE(same(type, result, sum_one_by_one(ranks, divisor)))
              << to_string(type) << ", data " << static_cast<int>(data) << ", hosts of " << of_a_host << " by "
              << divisor;
        }
      }
    }
  }
}

TEST(PartialSums, OfAHostHaveRoomForItsTermsAlone) {  // [PART-4, PART-9]
  Random random(52);
  for (const ElementType type : kFloats) {
    for (const size_t ranks : {1, 2, 3, 4, 8}) {
      const size_t elements = elements_of_partial_sums(type, 1408, ranks);
      const RankData host(type, ranks, elements, Data::kAnyBits, random);
      EXPECT_TRUE(same(type, through(host, {ranks}, 1, 1408, random), host.sum(1))) << to_string(type) << ranks;
    }
  }
}

TEST(PartialSums, OfGradientsTakeTwiceTheirBytes) {  // [PART-4]
  Random random(53);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const size_t count : {2, 4, 8}) {
      const RankData host(type, count, 1000, Data::kGradients, random);
      std::vector<PartialSum> terms;
      for (const Bytes& input : host.inputs) terms.push_back(term_of(type, input.data(), host.elements));
      const Bytes payload = together(terms, kMaxPayloadBytes);
      EXPECT_LE(payload.size(), kPartialSumHead + 2 * host.inputs[0].size() * 101 / 100) << to_string(type) << count;
    }
  }
}

TEST(PartialSums, DoNotFitWhereOthersHaveChosenMoreElements) {  // [PART-8]
  Random random(54);
  const RankData host(ElementType::kFloat32, 8, 100, Data::kAnyBits, random);
  std::vector<PartialSum> terms;
  for (const Bytes& input : host.inputs) terms.push_back(term_of(host.type, input.data(), host.elements));
  Bytes out(850);
  EXPECT_EQ(write_partial_sum(terms.data(), terms.size(), out.size(), out.data()), 0U);
}

// ---- the bytes ----

TEST(PartialSums, OfOneTermAreTheTermBehindAHead) {  // [PART-3]
  const float elements[] = {1.5F, -0.0F};
  const PartialSum term = term_of(ElementType::kFloat32, reinterpret_cast<const uint8_t*>(elements), 2);
  const Bytes payload = together({term}, 64);
  const Bytes expected = {2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0x80};
  EXPECT_EQ(payload, expected);
}

TEST(PartialSums, ListWhatTheWideNumberDoesNotHave) {  // [PART-5, PART-6]
  const float terms[3][2] = {{1, 1}, {0x1p-100F, 2}, {2, 3}};
  std::vector<PartialSum> parts;
  for (const auto& term : terms)
    parts.push_back(term_of(ElementType::kFloat32, reinterpret_cast<const uint8_t*>(term), 2));
  parts.push_back(parts.front());
  parts.push_back(parts.front());
  for (int i = 0; i < 9; ++i) parts.push_back(parts.front());  // So many that terms take more.
  const Bytes payload = together(parts, 200);
  ASSERT_EQ(payload.size(), 8U + 2 * 8 + 38);
  const PartialSum sum = parsed(ElementType::kFloat32, payload);
  EXPECT_EQ(sum.listed, 1U);
  EXPECT_EQ(sum.terms, 0U);
  double wide[2];
  std::memcpy(wide, sum.numbers, sizeof wide);
  EXPECT_NE(wide[0], wide[0]);
  EXPECT_EQ(wide[1], 17);
  EXPECT_EQ(sum.list[0], 0);
  uint32_t limbs[9];
  std::memcpy(limbs, sum.list + 2, sizeof limbs);
  EXPECT_EQ(limbs[1], 1U << (149 - 100 - 32));
  EXPECT_EQ(limbs[4], 14U << (149 - 128));
}

TEST(PartialSums, AreTakenWithTheirOwnBytesOnly) {  // [PART-7]
  Random random(55);
  for (const ElementType type : kFloats) {
    const RankData ranks(type, 16, 5, Data::kAnyBits, random);
    std::vector<PartialSum> terms;
    for (const Bytes& input : ranks.inputs) terms.push_back(term_of(type, input.data(), 5));
    for (const size_t count : {size_t{1}, size_t{2}, terms.size()}) {
      const Bytes payload = together({terms.data(), terms.data() + count}, 2000);
      for (size_t bytes = 0; bytes < payload.size(); ++bytes) {
        const Bytes cut(payload.begin(), payload.begin() + static_cast<long>(bytes));
        ASSERT_FALSE(parse_partial_sum(type, cut.data(), cut.size())) << bytes;
      }
      Bytes longer = payload;
      longer.push_back(0);
      EXPECT_FALSE(parse_partial_sum(type, longer.data(), longer.size()));
    }
  }
}

TEST(PartialSums, AreNotTakenWithABadHeadOrList) {  // [PART-7]
  const auto takes = [](Bytes payload) {
    return parse_partial_sum(ElementType::kFloat16, payload.data(), payload.size()).has_value();
  };
  const Bytes nan = {0, 0, 0xc0, 0x7f};
  const auto sums = [&](size_t listed, std::initializer_list<uint8_t> indices, uint8_t first = 0x7f) {
    Bytes payload = {2, 0, static_cast<uint8_t>(listed), 0, 0, 0, 0, 0};
    payload.insert(payload.end(), nan.begin(), nan.end());
    payload.insert(payload.end(), nan.begin(), nan.end());
    payload[11] = first;
    for (const uint8_t index : indices) {
      payload.insert(payload.end(), {index, 0});
      payload.resize(payload.size() + 8);
    }
    return payload;
  };
  EXPECT_TRUE(takes(sums(0, {})));
  EXPECT_TRUE(takes(sums(2, {0, 1})));
  EXPECT_FALSE(takes(sums(2, {1, 0})));           // Not ascending.
  EXPECT_FALSE(takes(sums(2, {1, 1})));           // Twice.
  EXPECT_FALSE(takes(sums(1, {2})));              // No such element.
  EXPECT_FALSE(takes(sums(3, {0, 1, 2})));        // More than there are.
  EXPECT_FALSE(takes(sums(1, {0}, 0x3f)));        // It has a number.
  EXPECT_FALSE(takes({0, 0, 0, 0, 1, 0, 0, 0}));  // No elements.
  EXPECT_TRUE(takes({1, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
  for (const int divisor : {1, 128, 1025, 65535}) {  // None, or one that a header cannot have.
    EXPECT_FALSE(takes({1, 0, 0, 0, 1, 0, static_cast<uint8_t>(divisor), static_cast<uint8_t>(divisor >> 8), 0, 0}));
  }
  EXPECT_TRUE(takes({1, 0, 0, 0, 1, 0, 129, 0, 0, 0}));
  EXPECT_TRUE(takes({1, 0, 0, 0, 1, 0, 0, 4, 0, 0}));
  EXPECT_FALSE(takes({1, 0, 1, 0, 1, 0, 0, 0, 0, 0}));  // Terms are not listed.
  Bytes many(8 + 2 * (kMaxWorkers + 1));
  many[0] = 1;
  many[4] = kMaxWorkers + 1;
  EXPECT_FALSE(takes(many));
}

TEST(PartialSums, OfRandomBytesAreReadWithinThemAlone) {  // [PART-7]
  Random random(56);
  size_t taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const ElementType type = kFloats[random() % 4];
    Bytes payload(8 + random() % 80);
    for (uint8_t& byte : payload) byte = random() % 3 == 0 ? 0xff : static_cast<uint8_t>(random());
    payload[0] = static_cast<uint8_t>(random() % 8);
    payload[2] = static_cast<uint8_t>(random() % 3);
    payload[4] = static_cast<uint8_t>(random() % 4);
    payload[1] = payload[3] = payload[5] = payload[6] = payload[7] = 0;
    const auto sum = parse_partial_sum(type, payload.data(), payload.size());
    if (!sum) continue;
    ++taken;
    Bytes result(sum->elements * element_bytes(type));
    const std::vector<PartialSum> twice = {*sum, *sum};
    round_partial_sums(twice.data(), 2, 3, result.data());
    Bytes up(2000);
    write_partial_sum(twice.data(), 2, up.size(), up.data());
  }
  EXPECT_GT(taken, 20U);
}

}  // namespace
}  // namespace switchml
