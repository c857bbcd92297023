// How many chunks a shard has under way where frames may be lost.
#include <algorithm>

#include "cluster.h"
#include "lone_shard.h"

namespace switchml::testing {
namespace {

constexpr size_t kWindowChunk = 256;  // elements

LoneOptions with_window(int slots = 512) {
  LoneOptions options;
  options.slots = slots;
  options.congestion_control = true;
  return options;
}

Collective sum_of(std::vector<int32_t>& tensor) { return in_place(ReduceOp::kSum, ElementType::kInt32, tensor); }

std::vector<Bytes> results_of(const std::vector<Bytes>& frames, size_t begin = 0) {
  std::vector<Bytes> results;
  for (size_t i = begin; i < frames.size(); ++i) results.push_back(result_of(frames[i]));
  return results;
}

/// Elements of many chunks. Parameter: exactly, or as integers.
class ShardWindow : public ::testing::TestWithParam<bool> {
 protected:
  ShardWindow() : tensor(10000 * kWindowChunk, 1) {}

  std::vector<Bytes> open(LoneShard* lone) {
    Collective many = sum_of(tensor);
    many.stream = StreamChoice::kBulk;  // announced by nothing
    lone->submit(many);
    return data_of(lone->step());
  }
  /// After 100 us, which leaves no timer to expire.
  static std::vector<Bytes> answer(LoneShard* lone, const std::vector<Bytes>& results) {
    lone->now += microseconds(100);
    std::vector<Bytes> sent;
    for (const Bytes& frame : results) lone->transport->inbox.push_back(frame);
    while (!lone->transport->inbox.empty()) {
      for (Bytes& frame : lone->step()) sent.push_back(std::move(frame));
    }
    return data_of(sent);
  }
  static std::vector<Bytes> data_of(std::vector<Bytes> frames) {
    const auto no_elements = [](const Bytes& frame) { return frame.size() < 1024; };
    frames.erase(std::remove_if(frames.begin(), frames.end(), no_elements), frames.end());
    return frames;
  }
  LoneOptions options() const {
    LoneOptions options = with_window();
    options.exact = GetParam();
    return options;
  }

  std::vector<int32_t> tensor;
};

TEST_P(ShardWindow, BeginsWithTenChunksAndDoublesWithTheirAnswers) {
  LoneShard lone(options());
  std::vector<Bytes> sent = open(&lone);
  EXPECT_EQ(sent.size(), 10U);
  sent = answer(&lone, results_of(sent));
  EXPECT_EQ(sent.size(), 20U);
  EXPECT_EQ(answer(&lone, results_of(sent)).size(), 40U);
}

TEST_P(ShardWindow, ShrinksOnceForAllThatWasLost) {
  LoneShard lone(options());
  std::vector<Bytes> sent = open(&lone);
  sent = answer(&lone, results_of(answer(&lone, results_of(sent))));
  ASSERT_EQ(sent.size(), 40U);
  // The first four are lost: with the others' answers the window grows to 76, and then shrinks.
  sent = answer(&lone, results_of(sent, 4));
  EXPECT_EQ(lone.counters().window_reductions.get(), 1U);
  EXPECT_EQ(lone.counters().retransmissions.get(), 4U);
  EXPECT_GE(sent.size(), 4U + 36U) << "the lost ones, and as many new ones as were answered";
  EXPECT_LE(sent.size(), 4U + 32U + 32U);
  sent = answer(&lone, results_of(sent));
  EXPECT_EQ(lone.counters().window_reductions.get(), 1U);
}

TEST_P(ShardWindow, ShrinksByAMark) {
  LoneShard lone(options());
  std::vector<Bytes> sent = open(&lone);
  for (const Ecn ecn : lone.transport->sent_as) EXPECT_EQ(ecn, Ecn::kCapable);
  lone.transport->arrives_as = Ecn::kMarked;
  sent = answer(&lone, results_of(sent));
  EXPECT_GE(sent.size(), 5U);
  EXPECT_LE(sent.size(), 8U);
  EXPECT_EQ(lone.counters().window_reductions.get(), 1U);
  EXPECT_EQ(lone.counters().retransmissions.get(), 0U);
}

// A rank that is late looks like a loss.
TEST_P(ShardWindow, DoesNotShrinkByTimeouts) {
  LoneShard lone(options());
  const std::vector<Bytes> sent = open(&lone);
  lone.pass(milliseconds(200));
  EXPECT_GT(lone.counters().timeouts.get(), 0U);
  EXPECT_EQ(lone.counters().window_reductions.get(), 0U);
  EXPECT_GE(answer(&lone, results_of(sent)).size(), 10U);
}

TEST_P(ShardWindow, IsNoneWhereNothingIsLost) {
  LoneOptions options = this->options();
  options.carrier = Carrier::kTcp;
  LoneShard lone(options);
  EXPECT_GT(open(&lone).size(), 300U) << "all slots";
  for (const Ecn ecn : lone.transport->sent_as) EXPECT_EQ(ecn, Ecn::kNone);
}

// A chip keeps the mark of one contribution.
TEST_P(ShardWindow, SaysNothingOfMarksToWhoLosesThem) {  // [ECN-3]
  LoneOptions options = this->options();
  options.whole_chunks = true;
  LoneShard lone(options);
  open(&lone);
  for (const Ecn ecn : lone.transport->sent_as) EXPECT_EQ(ecn, Ecn::kNone);
}

TEST_P(ShardWindow, IsOfAllShardsTogether) {
  LoneOptions options = this->options();
  options.shards = 2;
  options.slots *= 2;
  LoneShard lone(options);
  EXPECT_EQ(open(&lone).size(), 5U);
}

TEST_P(ShardWindow, OfManyChunksLeavesRoomForFew) {
  LoneShard lone(options());
  std::vector<int32_t> few(3 * kWindowChunk, 5);
  ASSERT_EQ(open(&lone).size(), 10U);
  Collective brief = sum_of(few);
  brief.stream = StreamChoice::kShort;
  lone.submit(brief);
  EXPECT_EQ(data_of(lone.step()).size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(All, ShardWindow, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Exact" : "Integers"; });

// One rank's window is full of chunks that the other one comes to only after those of another stream.
TEST(ShardWindows, OfRanksDoNotWaitForEachOther) {
  for (const bool exact : {false, true}) {
    ClusterOptions options;
    options.slots = 512;
    options.exact = exact;
    Cluster cluster(options);
    std::vector<std::vector<int32_t>> many(2, std::vector<int32_t>(40 * kWindowChunk, 1)),
        few(2, std::vector<int32_t>(12 * kWindowChunk, 2));
    const auto submit = [&cluster](int worker, std::vector<int32_t>& tensor, StreamChoice stream) {
      Collective collective = sum_of(tensor);
      collective.stream = stream;
      return cluster.submit(worker, collective);
    };
    submit(0, many[0], StreamChoice::kBulk);
    submit(0, few[0], StreamChoice::kShort);
    for (int i = 0; i < 3; ++i) cluster.round();
    const auto first = submit(1, many[1], StreamChoice::kBulk);
    for (int i = 0; i < 1000 && first->empty(); ++i) cluster.round();
    ASSERT_EQ(first->size(), 1U) << "the other rank's few chunks keep its many from going";
    submit(1, few[1], StreamChoice::kShort);
    ASSERT_TRUE(cluster.run());
    for (size_t w = 0; w < 2; ++w) {
      EXPECT_EQ(many[w], std::vector<int32_t>(40 * kWindowChunk, 2));
      EXPECT_EQ(few[w], std::vector<int32_t>(12 * kWindowChunk, 4));
    }
  }
}

TEST(ShardWindows, StandHeavyLosses) {
  ClusterOptions options;
  options.workers = 3;
  options.slots = 512;
  options.faults.loss = 0.3;
  Cluster cluster(options);
  std::vector<std::vector<int32_t>> many(3, std::vector<int32_t>(200 * kWindowChunk, 1));
  for (int w = 0; w < 3; ++w) cluster.submit(w, sum_of(many[static_cast<size_t>(w)]));
  ASSERT_TRUE(cluster.run());
  for (const auto& tensor : many) EXPECT_EQ(tensor, std::vector<int32_t>(200 * kWindowChunk, 3));
}

}  // namespace
}  // namespace switchml::testing
