// Random traffic through the switch and through a model of it that is written differently: it keeps every contribution
// of a session in maps for ever and computes a result from them when it is asked for.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "fixture.h"

namespace switchml::softswitch {
namespace {

class Model {
 public:
  explicit Model(int workers) : workers_(workers) {}

  /// What the switch must send: nothing, or a result to one or to all.
  struct Answer {
    bool any = false;
    bool to_all = false;
    ResultPacket result;
  };

  Answer put(const Contribution& c) {
    const auto key = std::pair(c.slot, c.seq % 2);
    std::vector<Contribution>& use = uses_[{c.slot, c.seq}];
    auto& latest = latest_[key];
    if (latest && *latest != c.seq) {
      const auto age = static_cast<int32_t>(c.seq - *latest);
      if (age < 0) return {};
      use.clear();
    }
    latest = c.seq;
    const bool was_complete = static_cast<int>(use.size()) == workers_;
    for (const Contribution& other : use) {
      if (other.worker != c.worker) continue;
      if (!was_complete) return {};
      Answer answer{true, false, result(use)};  // no longer than what asks for it
      answer.result.words.resize(std::min(answer.result.words.size(), c.words.size()));
      return answer;
    }
    use.push_back(c);
    if (static_cast<int>(use.size()) < workers_) return {};
    return {true, true, result(use)};
  }

 private:
  static ResultPacket result(const std::vector<Contribution>& use) {
    ResultPacket out;
    out.header.exponent = 0;
    size_t width = 0;
    for (const Contribution& c : use) {
      width = std::max(width, c.words.size());
      out.header.exponent = std::max(out.header.exponent, c.exponent);
      out.header.witness = static_cast<uint32_t>(uint64_t{out.header.witness} + c.witness);
    }
    for (size_t i = 0; i < width; ++i) {
      int64_t sum = 0;
      std::optional<int64_t> top;
      for (const Contribution& c : use) {
        const int64_t word = i < c.words.size() ? c.words[i] : 0;
        sum += word;
        top = top ? std::max(*top, word) : word;
      }
      const bool maximum = use[0].operation == wire::Operation::kMax;
      out.words.push_back(static_cast<int32_t>(static_cast<uint32_t>(maximum ? *top : sum)));
    }
    return out;
  }

  int workers_;
  std::map<std::pair<uint16_t, uint32_t>, std::vector<Contribution>> uses_;
  std::map<std::pair<uint16_t, uint32_t>, std::optional<uint32_t>> latest_;
};

class Differential : public ::testing::TestWithParam<int> {};

TEST_P(Differential, SwitchAndModelAgreeOnRandomTraffic) {
  const auto seed = static_cast<unsigned>(GetParam());
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  Bench bench;
  std::vector<Job> jobs;
  std::vector<Model> models;
  std::vector<uint32_t> starts;
  for (int j = 0; j < 3; ++j) {
    const int workers = 1 + static_cast<int>(below(j == 0 ? 5 : 90));
    jobs.emplace_back(bench, workers, 1, 4, 256, static_cast<uint64_t>(j) + 1, 200 * j);
    models.emplace_back(workers);
    starts.push_back(below(2) != 0 ? 0xfffffff0U : 1U);
  }
  uint64_t completed = 0;
  uint64_t answered = 0;
  std::vector<uint32_t> steps(3, 0);
  for (int i = 0; i < 30000; ++i) {
    const size_t j = below(3);
    if (below(static_cast<uint32_t>(jobs[j].workers) * 12) == 0) ++steps[j];
    Contribution c;
    c.worker = static_cast<uint8_t>(below(static_cast<uint32_t>(jobs[j].workers)));
    c.slot = static_cast<uint16_t>(below(4));
    uint32_t back = below(10) == 0 ? below(4) : below(2);
    if (back > steps[j]) back = steps[j];
    c.seq = starts[j];
    for (uint32_t k = 0; k < steps[j] - back; ++k) c.seq = wire::next_seq(c.seq);
    c.operation = c.seq % 3 == 0 ? wire::Operation::kMax : wire::Operation::kSum;
    c.exponent = static_cast<uint16_t>(random());
    c.witness = static_cast<uint32_t>(random());
    c.words.resize(below(5) == 0 ? below(65) : 17);
    for (int32_t& word : c.words) word = static_cast<int32_t>(random());

    const Model::Answer expected = models[j].put(c);
    const auto sent = jobs[j].put(c);
    ASSERT_EQ(!sent.empty(), expected.any) << "seed " << seed << " packet " << i;
    if (!expected.any) continue;
    ASSERT_EQ(sent.size(), 1U);
    ASSERT_EQ(sent[0].multicast, expected.to_all) << "seed " << seed << " packet " << i;
    const ResultPacket got = result_of(sent[0].frame);
    ASSERT_EQ(got.words, expected.result.words) << "seed " << seed << " packet " << i;
    ASSERT_EQ(got.header.exponent, expected.result.header.exponent);
    ASSERT_EQ(got.header.witness, expected.result.header.witness);
    ASSERT_EQ(got.header.seq, c.seq);
    ASSERT_EQ(got.header.slot, c.slot);
    ASSERT_EQ(sent[0].to.size(), expected.to_all ? static_cast<size_t>(jobs[j].workers) : 1U);
    expected.to_all ? ++completed : ++answered;
  }
  // The traffic must have been interesting.
  EXPECT_GT(completed, 100U);
  EXPECT_GT(answered, 1000U);
  EXPECT_EQ(bench.sw.counters().uses_completed.get(), completed);
  EXPECT_EQ(bench.sw.counters().duplicates_answered.get(), answered);
  EXPECT_GT(bench.sw.counters().dropped_stale.get(), 100U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Differential, ::testing::Range(1, 9));

TEST(Garbage, NeverHarmsNorAnswers) {
  std::mt19937 random(7);
  Bench bench;
  Job job(bench, 2);
  const auto valid = contribution_frame({}, job.granted.job, job.granted.epoch);
  for (int i = 0; i < 50000; ++i) {
    std::vector<uint8_t> frame(random() % 80);
    for (uint8_t& byte : frame) byte = static_cast<uint8_t>(random());
    // Half of them begin as a valid packet does.
    if (i % 2 == 0) std::copy_n(valid.begin(), std::min<size_t>(frame.size(), random() % 17), frame.begin());
    bench.put(frame, endpoint(static_cast<int>(random() % 4)));
  }
  EXPECT_EQ(bench.sw.counters().packets_received.get(), 50005U) << "the joins take two each";
  EXPECT_LE(bench.sw.sessions(), 255);
}

}  // namespace
}  // namespace switchml::softswitch
