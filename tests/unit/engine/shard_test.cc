#include "engine/shard.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "lone_shard.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class ShardSizes : public ::testing::TestWithParam<std::tuple<int, size_t, int>> {};

TEST_P(ShardSizes, SumsFloatsOfAnyLength) {
  const auto [workers, payload, shards] = GetParam();
  Cluster cluster({workers, shards, 8 * shards, payload, {}});
  const size_t block = ChunkPlan::block_elements_for(ElementType::kFloat32, payload);
  for (const size_t count : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{255}, size_t{257}, size_t{5000},
                             ChunkPlan::superblock_elements_for(ElementType::kFloat32, payload) + 3}) {
    const Tensors<float> inputs = random_floats(workers, count, static_cast<uint32_t>(count));
    Tensors<float> tensors = inputs;
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
    for (const auto& tensor : tensors) ASSERT_EQ(tensor, tensors[0]);
    expect_sums(inputs, tensors[0], block);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShardSizes,
                         ::testing::Combine(::testing::Values(2, 3, 8), ::testing::Values(256, 1024, 1152, 1408, 8192),
                                            ::testing::Values(1, 3)));

// A switch whose parser knows no other lengths: the same bits, and nothing is dropped.
TEST(Shard, WholeChunksGiveTheSameBits) {  // [LEN-4]
  for (const size_t count : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{5000}, size_t{20000}}) {
    Tensors<float> inputs = random_floats(3, count, static_cast<uint32_t>(count));
    if (count > 70) inputs[1][70] = std::numeric_limits<float>::infinity();
    Tensors<int32_t> integers(3, std::vector<int32_t>(count));
    std::mt19937 random(7);
    for (auto& tensor : integers) {
      for (int32_t& x : tensor) x = static_cast<int32_t>(random());
    }
    std::vector<Tensors<float>> sums;
    std::vector<Tensors<int32_t>> minima;
    for (const bool whole : {false, true}) {
      Cluster cluster({3, 1, 8, 256, {5, 0.01, 0.01, 0.0, 3}, whole});
      ASSERT_EQ(cluster.session().whole_chunks, whole);
      sums.push_back(inputs);
      minima.push_back(integers);
      all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, sums.back());
      all_reduce(cluster, ReduceOp::kMin, ElementType::kInt32, minima.back());
      EXPECT_EQ(cluster.the_switch().counters().dropped_length.get(), 0U);
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(minima[0], minima[1]);
  }
}

TEST(Shard, AveragesDivideTheSum) {
  Cluster cluster({3, 1, 8, 1024, {}});
  const Tensors<float> inputs = random_floats(3, 1000, 5);
  Tensors<float> tensors = inputs;
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors, 3);
  expect_sums(inputs, tensors[1], 256, 3);
}

/// So that the exponent of a block tells which elements it has.
Tensors<float> of_all_magnitudes(int workers, size_t count) {
  Tensors<float> tensors = random_floats(workers, count, 31);
  std::mt19937 random(37);
  for (auto& tensor : tensors) {
    for (float& x : tensor) x = std::ldexp(x, static_cast<int>(random() % 60) - 30);
  }
  if (count > 70) tensors[0][70] = std::numeric_limits<float>::quiet_NaN();
  return tensors;
}

TEST(Shard, TheSameBitsWithAnyNumberOfShardsAndPayload) {
  for (const size_t count : {size_t{3000}, size_t{5000}, size_t{90001}}) {
    const Tensors<float> inputs = of_all_magnitudes(2, count);
    std::vector<float> expected;
    for (const size_t payload : {size_t{1024}, size_t{1152}, size_t{1408}, size_t{1920}, size_t{5120}}) {
      for (const int shards : {1, 2, 3}) {
        Cluster cluster({2, shards, 16 * shards, payload, {}});
        Tensors<float> tensors = inputs;
        all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
        if (expected.empty()) expected = tensors[0];
        for (const auto& tensor : tensors) {
          ASSERT_EQ(std::memcmp(tensor.data(), expected.data(), count * sizeof(float)), 0) << payload << " " << shards;
        }
      }
    }
  }
}

TEST(Shard, TheSameBitsUnderAnyArrivalOrderLossAndPayload) {
  const Tensors<float> inputs = of_all_magnitudes(4, 20000);
  std::vector<float> expected;
  for (const size_t payload : {size_t{1024}, size_t{4096}, size_t{1280}, size_t{1408}}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      NetFaults faults{seed, seed == 1 ? 0.0 : 0.05, seed == 1 ? 0.0 : 0.05, 0.0, seed == 1 ? 1 : 6};
      Cluster cluster({4, 1, 16, payload, faults});
      Tensors<float> tensors = inputs;
      all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
      if (expected.empty()) expected = tensors[0];
      for (const auto& tensor : tensors) {
        ASSERT_EQ(std::memcmp(tensor.data(), expected.data(), tensor.size() * sizeof(float)), 0) << seed;
      }
    }
  }
}

TEST(Shard, IntegersAreExactModuloTheirWidth) {
  Cluster cluster({3, 1, 8, 1024, {}});
  std::mt19937_64 random(3);
  const auto check = [&](auto zero, ElementType type) {
    using T = decltype(zero);
    Tensors<T> tensors(3, std::vector<T>(1777));
    for (auto& tensor : tensors) {
      for (T& x : tensor) x = static_cast<T>(random());
    }
    std::vector<T> expected(1777);
    for (size_t i = 0; i < expected.size(); ++i) {
      uint64_t sum = 0;
      for (const auto& tensor : tensors) sum += static_cast<uint64_t>(tensor[i]);
      expected[i] = static_cast<T>(sum);
    }
    all_reduce(cluster, ReduceOp::kSum, type, tensors);
    for (const auto& tensor : tensors) ASSERT_EQ(tensor, expected) << to_string(type);
  };
  check(int32_t{}, ElementType::kInt32);
  check(int8_t{}, ElementType::kInt8);
  check(uint8_t{}, ElementType::kUInt8);
  check(int16_t{}, ElementType::kInt16);
  check(int64_t{}, ElementType::kInt64);
}

TEST(Shard, MinimumAndMaximumAreExact) {  // [CALL-11, WIT-4]
  Cluster cluster({3, 1, 8, 1024, {}});
  for (const bool minimum : {false, true}) {
    const Tensors<float> inputs = random_floats(3, 3000, 8);
    Tensors<float> tensors = inputs;
    all_reduce(cluster, minimum ? ReduceOp::kMin : ReduceOp::kMax, ElementType::kFloat32, tensors);
    for (size_t i = 0; i < 3000; ++i) {
      const float a = inputs[0][i], b = inputs[1][i], c = inputs[2][i];
      const float expected = minimum ? std::min({a, b, c}) : std::max({a, b, c});
      ASSERT_EQ(tensors[0][i], expected);
      ASSERT_EQ(tensors[2][i], expected);
    }
    Tensors<int16_t> shorts = {{-5, 7, 0}, {3, -32768, 1}, {2, 32767, -1}};
    all_reduce(cluster, minimum ? ReduceOp::kMin : ReduceOp::kMax, ElementType::kInt16, shorts);
    EXPECT_EQ(shorts[0], minimum ? (std::vector<int16_t>{-5, -32768, -1}) : (std::vector<int16_t>{3, 32767, 1}));
  }
}

TEST(Shard, NonFiniteElementsAreIeeeAndLeaveTheirNeighboursAlone) {
  Cluster cluster({3, 1, 8, 1024, {}});
  const Tensors<float> finite = random_floats(3, 70000, 4);
  Tensors<float> tensors = finite;
  tensors[0][10] = kNan;
  tensors[1][300] = kInf;
  tensors[2][301] = -kInf;
  tensors[0][302] = kInf;
  tensors[1][302] = -kInf;
  tensors[2][65000] = kInf;
  tensors[1][65000] = kInf;
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  for (const auto& tensor : tensors) {
    EXPECT_TRUE(std::isnan(tensor[10]));
    EXPECT_EQ(tensor[300], kInf);
    EXPECT_EQ(tensor[301], -kInf);
    EXPECT_TRUE(std::isnan(tensor[302]));
    EXPECT_EQ(tensor[65000], kInf);
  }
  EXPECT_GT(cluster.shard(0).counters().nonfinite_superblocks.get(), 0U);
  std::vector<float> patched = tensors[0];
  Tensors<float> inputs = finite;
  for (const size_t i : {size_t{10}, size_t{300}, size_t{301}, size_t{302}, size_t{65000}}) {
    patched[i] = 0;
    for (auto& input : inputs) input[i] = 0;
  }
  expect_sums(inputs, patched, 256);
}

TEST(Shard, TinyAndHugeBlocksKeepTheirPrecision) {
  Cluster cluster({2, 1, 8, 1024, {}});
  for (const float scale : {1e-45F, 1e-40F, 1e-38F, 1e-31F, 1e30F, 1.5e38F}) {
    Tensors<float> inputs = random_floats(2, 512, 6, 0.2F);
    for (auto& input : inputs) {
      for (float& x : input) x *= scale;
    }
    Tensors<float> tensors = inputs;
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
    expect_sums(inputs, tensors[0], 256);
  }
  Tensors<float> overflow = {{3e38F, -3e38F, 1e38F}, {3e38F, -3e38F, 1e38F}};
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, overflow);
  EXPECT_EQ(overflow[0][0], kInf);
  EXPECT_EQ(overflow[0][1], -kInf);
  EXPECT_FLOAT_EQ(overflow[0][2], 2e38F);
}

// Consecutive tensors stream: all in flight at once, results right for each, empty ones and barriers between them.
TEST(Shard, ManyCollectivesOfAllKindsInFlight) {
  Cluster cluster({4, 2, 16, 1024, {7, 0.02, 0.02, 0.0, 4}});
  std::vector<Tensors<float>> inputs, tensors;
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (uint32_t k = 0; k < 30; ++k) {
    inputs.push_back(random_floats(4, k % 5 == 0 ? 0 : 100 * k * k, k));
    if (k % 7 == 0 && !inputs.back()[0].empty()) inputs.back()[k % 4][3] = kNan;
  }
  tensors = inputs;
  Collective barrier;
  barrier.op = ReduceOp::kBarrier;
  barrier.title = "barrier";
  for (int w = 0; w < 4; ++w) {
    for (auto& tensor : tensors) {
      outcomes.push_back(
          cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensor[static_cast<size_t>(w)])));
      outcomes.push_back(cluster.submit(w, barrier));
    }
  }
  ASSERT_TRUE(cluster.run());
  for (const auto& outcome : outcomes) ASSERT_TRUE(outcome->front().ok()) << outcome->front().to_string();
  for (size_t k = 0; k < tensors.size(); ++k) {
    for (const auto& tensor : tensors[k]) {
      ASSERT_TRUE(tensor.empty() ||
                  std::memcmp(tensor.data(), tensors[k][0].data(), tensor.size() * sizeof(float)) == 0);
    }
    if (k % 7 != 0) expect_sums(inputs[k], tensors[k][0], 256);
  }
}

TEST(Shard, OnlyTheWantedPartOfTheResultIsWritten) {
  Cluster cluster({2, 1, 8, 1024, {}});
  const Tensors<float> inputs = random_floats(2, 1000, 12);
  for (const auto& [begin, end] : std::vector<std::pair<size_t, size_t>>{{0, 500}, {500, 1000}, {300, 301}, {7, 7}}) {
    Tensors<float> parts(2, std::vector<float>(end - begin + 2, -1.0F));
    for (size_t w = 0; w < 2; ++w) {
      auto input = inputs[w];
      Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, input);
      c.operands()->output.data = parts[w].data() + 1;
      c.operands()->output.begin = begin;
      c.operands()->output.end = end;
      static std::vector<std::vector<float>> keep;
      keep.push_back(std::move(input));
      c.operands()->input = keep.back().data();
      cluster.submit(static_cast<int>(w), c);
    }
    ASSERT_TRUE(cluster.run());
    EXPECT_EQ(parts[0].front(), -1.0F);
    EXPECT_EQ(parts[0].back(), -1.0F);
    for (size_t i = begin; i < end; ++i) {
      EXPECT_NEAR(parts[1][i - begin + 1], inputs[0][i] + inputs[1][i], 1e-6);
    }
  }
}

/// A shard with two streams, all 44 slots of a long one under way, after round trips of 1 ms, 2 ms, ... 44 ms and then
/// 44 ms each.
struct Flow {
  Flow() {
    LoneOptions options;
    options.slots = kLeastSlotsForBulk;
    lone = std::make_unique<LoneShard>(options);
    tensor.assign(1000 * 256, 1);
    outcome = lone->submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
    sent = lone->step();
    EXPECT_EQ(lone->shard->coalescing(lone->now), Duration(0)) << "nothing has come";
    answer(1, milliseconds(1));
    for (int i = 0; i < 60; ++i) answer(1, milliseconds(1));
  }
  void answer(size_t count, Duration later) {
    lone->now += later;
    std::vector<Bytes> results;
    for (size_t i = 0; i < count; ++i) results.push_back(result_of(sent[i]));
    sent.erase(sent.begin(), sent.begin() + static_cast<long>(count));
    for (Bytes& frame : lone->deliver(results)) {
      if ((header_of(frame).flags & wire::kFlagRepeat) == 0) sent.push_back(std::move(frame));
    }
  }
  Duration pause() { return lone->shard->coalescing(lone->now); }

  std::vector<int32_t> tensor;
  std::unique_ptr<LoneShard> lone;
  std::shared_ptr<std::vector<Status>> outcome;
  std::vector<Bytes> sent;
};

TEST(Shard, ResultsOfALongStreamMayGather) {
  Flow flow;
  const Duration pause = flow.pause();
  EXPECT_GE(pause, ReceiveCoalescing::kLeastPause);
  EXPECT_LE(pause, ReceiveCoalescing::kMostPause);
  EXPECT_EQ(flow.pause(), Duration(0)) << "nothing has come since";
  flow.answer(5, pause);
  EXPECT_GE(flow.pause(), ReceiveCoalescing::kLeastPause);
  flow.answer(30, milliseconds(1));
  EXPECT_EQ(flow.pause(), Duration(0)) << "most had come: it was too long";
}

TEST(Shard, NothingGathersWhileFewChunksAreUnderWay) {
  Flow flow;
  std::vector<int32_t> few(10, 1);
  const auto outcome = flow.lone->submit(in_place(ReduceOp::kSum, ElementType::kInt32, few));
  const std::vector<Bytes> brief = flow.lone->step();
  ASSERT_EQ(brief.size(), 2U);
  flow.answer(1, milliseconds(1));
  EXPECT_EQ(flow.pause(), Duration(0));
  flow.lone->deliver({result_of(brief[0]), result_of(brief[1])});
  ASSERT_EQ(outcome->size(), 1U);
  flow.answer(1, milliseconds(1));
  EXPECT_GT(flow.pause(), Duration(0));
}

TEST(Shard, NothingGathersAtTheEndOfAStream) {
  Flow flow;
  bool gathered = false;
  while (!flow.sent.empty()) {
    flow.answer(std::min<size_t>(8, flow.sent.size()), milliseconds(3));
    const bool flows = flow.sent.size() >= 32;
    const Duration pause = flow.pause();
    gathered = gathered || pause > Duration(0);
    if (!flows) {
      EXPECT_EQ(pause, Duration(0)) << flow.sent.size();
    }
  }
  EXPECT_TRUE(gathered);
  EXPECT_EQ(flow.outcome->size(), 1U);
}

TEST(Shard, MemoryIsAConstantOfTheSession) {
  Cluster cluster({2, 1, 8, 1024, {}});
  const size_t before = cluster.shard(0).memory_bytes();
  Tensors<float> tensors = random_floats(2, 300000, 2);
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  EXPECT_EQ(cluster.shard(0).memory_bytes(), before);
  EXPECT_LT(before, 2U << 20);
}

}  // namespace
}  // namespace switchml::testing
