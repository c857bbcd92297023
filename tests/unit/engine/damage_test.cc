// Bits that change on the way, past every checksum of the network: asked for again, or an error, never a wrong result.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "cluster.h"
#include "engine/shard.h"

namespace switchml::testing {
namespace {

constexpr int kWorkers = 3;

struct Damage {
  bool of_result;  // by the switch, the same for all; else of worker 1's contribution
  size_t word;
  uint8_t mask;  // of the word's first byte, where guarded words have their value
  int times;
};

std::string name_of(const ::testing::TestParamInfo<Damage>& info) {
  const Damage& d = info.param;
  return std::string(d.of_result ? "Result" : "Contribution") + "Word" + std::to_string(d.word) + "Mask" +
         std::to_string(d.mask) + (d.times > 1 ? "Always" : "Once");
}

// Alters `times` frames that fit the description, a retransmission like any other.
void plant(Cluster& cluster, const Damage& damage) {
  auto left = std::make_shared<int>(damage.times);
  cluster.network().tamper = [damage, left](int from, std::vector<uint8_t>& frame) {
    const bool of_switch = from == Cluster::kSwitch;
    if (of_switch != damage.of_result || (!of_switch && from != 2) || *left == 0) return;
    wire::DataPacket packet;
    const wire::Kind kind = of_switch ? wire::Kind::kResult : wire::Kind::kContribution;
    if (wire::parse_data(frame.data(), frame.size(), kind, &packet) != wire::ParseError::kNone) return;
    if (packet.operation != wire::Operation::kMax || packet.words <= damage.word) return;
    --*left;
    frame[wire::kHeaderBytes + 4 * damage.word] ^= damage.mask;
  };
}

class ExponentDamage : public ::testing::TestWithParam<Damage> {};

// 2000 elements of 1.0: 8 blocks with exponent 127 (0b01111111), then a flag word.
TEST_P(ExponentDamage, NeverCostsPrecision) {  // [CALL-7]
  Cluster cluster({kWorkers, 1, 8, 1024, {}});
  plant(cluster, GetParam());
  std::vector<std::vector<float>> tensors(kWorkers, std::vector<float>(2000, 1.0F));
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (int w = 0; w < kWorkers; ++w) {
    Collective c;
    auto& tensor = tensors[static_cast<size_t>(w)];
    c.operands()->input = c.operands()->output.data = tensor.data();
    c.count = c.operands()->output.end = tensor.size();
    c.deadline = cluster.now() + seconds(5);
    outcomes.push_back(cluster.submit(w, c));
  }
  ASSERT_TRUE(cluster.run(seconds(10)));
  uint64_t seen = 0;
  for (int w = 0; w < kWorkers; ++w) {
    seen += cluster.shard(w).counters().witness_failures.get();
    const Status& outcome = outcomes[static_cast<size_t>(w)]->front();
    if (!outcome.ok()) {
      EXPECT_EQ(outcome.code(), Code::kMismatch) << outcome.to_string();
      continue;
    }
    EXPECT_EQ(tensors[static_cast<size_t>(w)], std::vector<float>(2000, 3.0F));
  }
  EXPECT_GT(seen, 0U);
  // A result damaged on its way is asked for again; a damaged contribution is in the switch for good.
  const bool repairable = GetParam().of_result && GetParam().times == 1;
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome->front().ok(), repairable) << outcome->front().to_string();
}

INSTANTIATE_TEST_SUITE_P(All, ExponentDamage,
                         ::testing::Values(Damage{true, 2, 0x40, 1}, Damage{true, 2, 0x20, 1}, Damage{true, 8, 0x01, 1},
                                           Damage{true, 2, 0x40, 1000}, Damage{true, 2, 0x80, 1000},
                                           Damage{false, 2, 0x40, 1}, Damage{false, 8, 0x02, 1}),
                         name_of);

// A maximum chooses one of the words; what came back below one's own was not chosen by it.
TEST(MaximumDamage, AResultBelowOnesOwnIsAskedForAgain) {  // [MAX-1]
  Cluster cluster({kWorkers, 1, 8, 1024, {}});
  plant(cluster, {true, 5, 0x40, 1});
  std::vector<std::vector<int32_t>> tensors(kWorkers, std::vector<int32_t>(100, 0x7f000000));
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (int w = 0; w < kWorkers; ++w) {
    Collective c;
    auto& tensor = tensors[static_cast<size_t>(w)];
    c.op = ReduceOp::kMax;
    c.type = ElementType::kInt32;
    c.operands()->input = c.operands()->output.data = tensor.data();
    c.count = c.operands()->output.end = tensor.size();
    outcomes.push_back(cluster.submit(w, c));
  }
  ASSERT_TRUE(cluster.run(seconds(10)));
  for (int w = 0; w < kWorkers; ++w) {
    EXPECT_TRUE(outcomes[static_cast<size_t>(w)]->front().ok());
    EXPECT_EQ(tensors[static_cast<size_t>(w)], std::vector<int32_t>(100, 0x7f000000));
  }
  EXPECT_GT(cluster.shard(0).counters().witness_failures.get(), 0U);
}

// Every fifth packet is damaged, of every kind and in both directions, while leases are renewed all the time and the
// switch is asked whom everybody waits for.
TEST(ControlDamage, NobodyTakesADamagedMessageForWhatItSays) {  // [CTL-8, CTL-9]
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    ClusterOptions options{kWorkers, 1, 8, 1024, {}};
    options.exact = true;
    options.lease = milliseconds(40);
    options.faults.seed = seed;
    options.faults.corrupt = 0.2;
    Cluster cluster(options);
    for (int call = 1; call <= 3; ++call) {
      std::vector<std::vector<float>> tensors(kWorkers, std::vector<float>(5000, static_cast<float>(call)));
      const auto sum = [&](int w) {
        Collective c;
        auto& tensor = tensors[static_cast<size_t>(w)];
        c.operands()->input = c.operands()->output.data = tensor.data();
        c.count = c.operands()->output.end = tensor.size();
        cluster.submit(w, c);
      };
      sum(0);
      ASSERT_FALSE(cluster.run(milliseconds(2500))) << "rank 0 waits for the others";
      for (int w = 1; w < kWorkers; ++w) sum(w);
      ASSERT_TRUE(cluster.run());
      for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(5000, 3.0F * static_cast<float>(call)));
    }
    for (const Status& failure : cluster.failures) ADD_FAILURE() << failure.to_string();
    EXPECT_GT(cluster.the_switch().counters().control_malformed.get(), 0U);
    EXPECT_GT(cluster.shard(0).counters().results_malformed.get(), 0U);
  }
}

}  // namespace
}  // namespace switchml::testing
