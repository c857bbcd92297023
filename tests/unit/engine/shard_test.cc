#include "engine/shard.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cluster.h"

namespace switchml::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename T>
using Tensors = std::vector<std::vector<T>>;

template <typename T>
Collective collective(ReduceOp op, ElementType type, std::vector<T>& tensor) {
  Collective c;
  c.op = op;
  c.type = type;
  c.input = tensor.data();
  c.output = tensor.data();
  c.count = tensor.size();
  c.output_end = tensor.size();
  return c;
}

Tensors<float> random_floats(int workers, size_t count, uint32_t seed, float spread = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  Tensors<float> tensors(static_cast<size_t>(workers), std::vector<float>(count));
  for (auto& tensor : tensors) {
    for (float& x : tensor) x = normal(random);
  }
  return tensors;
}

// In-place all-reduce of all workers' tensors; all must succeed.
template <typename T>
void all_reduce(Cluster& cluster, ReduceOp op, ElementType type, Tensors<T>& tensors, float divisor = 1.0F) {
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (size_t w = 0; w < tensors.size(); ++w) {
    Collective c = collective(op, type, tensors[w]);
    c.divisor = divisor;
    outcomes.push_back(cluster.submit(static_cast<int>(w), c));
  }
  ASSERT_TRUE(cluster.run());
  for (const auto& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    ASSERT_TRUE(outcome->front().ok()) << outcome->front().to_string();
  }
}

// The bound that block floating point promises: n/2 units of the block's quantum, plus the result's own rounding.
void expect_sums(const Tensors<float>& inputs, const std::vector<float>& result, size_t block, float divisor = 1.0F) {
  const int n = static_cast<int>(inputs.size());
  const int bits = quant::magnitude_bits(n);
  for (size_t begin = 0; begin < result.size(); begin += block) {
    const size_t end = std::min(begin + block, result.size());
    double largest = 0;
    for (const auto& input : inputs) {
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(static_cast<double>(input[i])));
    }
    const double quantum = std::ldexp(1.0, std::max(std::ilogb(largest) + 1, -125) - bits);
    for (size_t i = begin; i < end; ++i) {
      double sum = 0;
      for (const auto& input : inputs) sum += input[i];
      const double bound = (n / 2.0 * quantum + std::fabs(sum) * 1.2e-7) / divisor + 1e-45;
      ASSERT_NEAR(result[i], sum / divisor, bound) << "element " << i;
    }
  }
}

class ShardSizes : public ::testing::TestWithParam<std::tuple<int, size_t, int>> {};

TEST_P(ShardSizes, SumsFloatsOfAnyLength) {
  const auto [workers, payload, shards] = GetParam();
  Cluster cluster({workers, shards, 8 * shards, payload, {}});
  const size_t block = ChunkPlan::block_elements_for(payload);
  for (const size_t count : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{255}, size_t{257}, size_t{5000},
                             ChunkPlan::max_group_elements(payload) + 3}) {
    const Tensors<float> inputs = random_floats(workers, count, static_cast<uint32_t>(count));
    Tensors<float> tensors = inputs;
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
    for (const auto& tensor : tensors) ASSERT_EQ(tensor, tensors[0]);
    expect_sums(inputs, tensors[0], block);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShardSizes,
                         ::testing::Combine(::testing::Values(2, 3, 8), ::testing::Values(256, 1024, 8192),
                                            ::testing::Values(1, 3)));

TEST(Shard, AveragesDivideTheSum) {
  Cluster cluster({3, 1, 8, 1024, {}});
  const Tensors<float> inputs = random_floats(3, 1000, 5);
  Tensors<float> tensors = inputs;
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors, 3.0F);
  expect_sums(inputs, tensors[1], 256, 3.0F);
}

TEST(Shard, TheSameBitsUnderAnyArrivalOrderLossAndPayload) {
  const Tensors<float> inputs = random_floats(4, 20000, 9);
  std::vector<float> expected;
  for (const size_t payload : {size_t{1024}, size_t{4096}}) {
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

TEST(Shard, MinimumAndMaximumAreExact) {
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
  EXPECT_GT(cluster.shard(0).counters().nonfinite_groups.get(), 0U);
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
          cluster.submit(w, collective(ReduceOp::kSum, ElementType::kFloat32, tensor[static_cast<size_t>(w)])));
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
      Collective c = collective(ReduceOp::kSum, ElementType::kFloat32, input);
      c.output = parts[w].data() + 1;
      c.output_begin = begin;
      c.output_end = end;
      static std::vector<std::vector<float>> keep;
      keep.push_back(std::move(input));
      c.input = keep.back().data();
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

// ---- disagreement, damage, silence ----

struct Disagreement {
  ReduceOp op;
  ElementType type;
  size_t count;
  uint64_t tag;
};

class ShardDisagrees : public ::testing::TestWithParam<Disagreement> {};

TEST_P(ShardDisagrees, EveryRankGetsAMismatchAndNoneASum) {
  Cluster cluster({3, 1, 8, 1024, {}});
  std::vector<float> a(1000, 1.0F), b(1000, 1.0F), c(4000, 1.0F);
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  outcomes.push_back(cluster.submit(0, collective(ReduceOp::kSum, ElementType::kFloat32, a)));
  outcomes.push_back(cluster.submit(1, collective(ReduceOp::kSum, ElementType::kFloat32, b)));
  Collective other = collective(GetParam().op, GetParam().type, c);
  other.count = other.output_end = GetParam().count;
  other.tag = GetParam().tag;
  outcomes.push_back(cluster.submit(2, other));
  ASSERT_TRUE(cluster.run(seconds(10)));
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome->front().code(), Code::kMismatch) << outcome->front().to_string();
    EXPECT_NE(outcome->front().message().find("elements"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShardDisagrees,
                         ::testing::Values(Disagreement{ReduceOp::kSum, ElementType::kFloat32, 999, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 4000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 0, 0},
                                           Disagreement{ReduceOp::kMax, ElementType::kFloat32, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kInt32, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat16, 1000, 0},
                                           Disagreement{ReduceOp::kSum, ElementType::kFloat32, 1000, 3}));

TEST(Shard, DamagedFramesNeverGiveAWrongSum) {
  int right = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster({3, 1, 8, 1024, {seed, 0.01, 0.01, 0.01, 3}});
    const Tensors<float> inputs = random_floats(3, 4000, static_cast<uint32_t>(seed));
    Tensors<float> tensors = inputs;
    std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
    for (size_t w = 0; w < 3; ++w) {
      Collective c = collective(ReduceOp::kSum, ElementType::kFloat32, tensors[w]);
      c.deadline = cluster.now() + seconds(5);
      outcomes.push_back(cluster.submit(static_cast<int>(w), c));
    }
    ASSERT_TRUE(cluster.run(seconds(10)));
    for (size_t w = 0; w < 3; ++w) {
      if (!outcomes[w]->front().ok()) continue;
      ++right;
      expect_sums(inputs, tensors[w], 256);
    }
  }
  EXPECT_GT(right, 0);
}

TEST(Shard, ARankThatDoesNotCallIsNamedAtTheDeadline) {
  Cluster cluster({4, 1, 8, 1024, {}});
  std::vector<float> tensor(100, 1.0F);
  std::vector<std::vector<float>> copies(4, tensor);
  for (const int w : {0, 1, 3}) {
    Collective c = collective(ReduceOp::kSum, ElementType::kFloat32, copies[static_cast<size_t>(w)]);
    c.deadline = cluster.now() + seconds(2);
    cluster.submit(w, c);
  }
  ASSERT_TRUE(cluster.run(seconds(3)));
  ASSERT_EQ(cluster.failures.size(), 3U);
  for (const Status& status : cluster.failures) {
    EXPECT_EQ(status.code(), Code::kTimeout);
    EXPECT_NE(status.message().find("no contribution from rank 2 "), std::string::npos) << status.message();
  }
  // Waiting for a straggler must not flood: one packet per lane and timeout, not a window.
  EXPECT_LT(cluster.frames_sent(), 1000U);
}

TEST(Shard, ASilentSwitchIsNamedAtTheDeadline) {
  Cluster cluster({2, 1, 8, 1024, {}});
  cluster.switch_alive = false;
  std::vector<float> tensor(100, 1.0F);
  Collective c = collective(ReduceOp::kSum, ElementType::kFloat32, tensor);
  c.deadline = cluster.now() + seconds(2);
  const auto outcome = cluster.submit(0, c);
  ASSERT_TRUE(cluster.run(seconds(3)));
  EXPECT_EQ(outcome->front().code(), Code::kTimeout);
  EXPECT_NE(outcome->front().message().find("switch virtual has not answered"), std::string::npos);
}

TEST(Shard, ARefusingHostEndsTheSessionBeforeTheDeadline) {
  Cluster cluster({2, 1, 8, 1024, {}});
  cluster.switch_alive = false;
  std::vector<float> tensor(100, 1.0F);
  Collective c = collective(ReduceOp::kSum, ElementType::kFloat32, tensor);
  c.deadline = cluster.now() + seconds(1000);
  const auto outcome = cluster.submit(0, c);
  for (int i = 0; i < 30000 && outcome->empty(); ++i) {
    cluster.transport(0).error = "connection refused";
    cluster.round();
  }
  ASSERT_FALSE(outcome->empty());
  EXPECT_EQ(outcome->front().code(), Code::kUnavailable);
  EXPECT_NE(outcome->front().message().find("connection refused"), std::string::npos);
}

TEST(Shard, AStoppedRankDelaysButDoesNotBreak) {
  Cluster cluster({3, 1, 8, 1024, {}});
  Tensors<float> inputs = random_floats(3, 30000, 2), tensors = inputs;
  for (size_t w = 0; w < 3; ++w)
    cluster.submit(static_cast<int>(w), collective(ReduceOp::kSum, ElementType::kFloat32, tensors[w]));
  for (int i = 0; i < 5; ++i) cluster.round();
  cluster.stopped[1] = true;
  for (int i = 0; i < 50000; ++i) cluster.round();
  cluster.stopped[1] = false;
  ASSERT_TRUE(cluster.run());
  expect_sums(inputs, tensors[1], 256);
}

TEST(Shard, ForeignStaleAndMalformedFramesAreCountedAndIgnored) {
  Cluster cluster({2, 1, 8, 1024, {}});
  Tensors<float> inputs = random_floats(2, 5000, 2), tensors = inputs;
  for (size_t w = 0; w < 2; ++w)
    cluster.submit(static_cast<int>(w), collective(ReduceOp::kSum, ElementType::kFloat32, tensors[w]));
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    wire::Header header;
    header.version = wire::kVersion;
    header.kind = static_cast<uint8_t>(wire::Kind::kResult);
    header.job = cluster.session().job;
    header.worker = kAllWorkers;
    header.epoch = cluster.session().epoch + (i % 2 == 0 ? 1 : 0);
    header.slot = static_cast<uint16_t>(random() % 16);
    header.seq = 1 + random() % 100;
    std::vector<uint8_t> frame(wire::kHeaderBytes + 4 * (random() % 257) + (i % 5 == 0 ? 1 : 0), 0x55);
    wire::write_header(header, frame.data());
    if (i % 7 == 0) frame.resize(random() % 20);
    cluster.inject(0, frame);
    cluster.round();
  }
  ASSERT_TRUE(cluster.run());
  expect_sums(inputs, tensors[0], 256);
  const WorkerCounters& counters = cluster.shard(0).counters();
  EXPECT_GT(counters.results_foreign.get(), 0U);
  EXPECT_GT(counters.results_stale.get(), 0U);
  EXPECT_GT(counters.results_malformed.get(), 0U);
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
