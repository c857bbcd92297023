// Two streams in one shard: collectives of few chunks go past those of many, each stream keeps its order, ranks that
// disagree find out whichever stream they chose, and no bit depends on it.
#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "cluster.h"
#include "lone_shard.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

// Of 64 slots: 0 to 11 calls, 12 to 15 elements, 16 to 19 the bulk stream's calls, 20 to 63 its elements.
constexpr int kSlots = kLeastSlotsForBulk;
constexpr size_t kChunk = 256;        // elements
constexpr size_t kMany = 5 * kChunk;  // one more than there are slots for elements of few

LoneOptions two_streams() {
  LoneOptions options;
  options.slots = kSlots;
  return options;
}

Collective sum_of_ints(std::vector<int32_t>& tensor) { return in_place(ReduceOp::kSum, ElementType::kInt32, tensor); }

ClusterOptions cluster_of(int slots, NetFaults faults = {}, int shards = 1) {
  ClusterOptions options;
  options.workers = 3;
  options.shards = shards;
  options.slots = slots * shards;
  options.faults = faults;
  return options;
}

std::vector<int> range(int first, int last) {
  std::vector<int> all;
  for (int i = first; i <= last; ++i) all.push_back(i);
  return all;
}

TEST(LaneSlots, AreAllSlotsAndAtLeastOneEach) {  // [LANE-1, LANE-4]
  for (int slots = 2; slots <= 2048; ++slots) {
    const LaneSlots lanes = LaneSlots::of(slots);
    EXPECT_EQ(lanes.calls + lanes.data + lanes.bulk_calls + lanes.bulk_data, slots);
    EXPECT_EQ(lanes.has_bulk(), slots >= kSlots);
    EXPECT_GE(std::min(lanes.calls, lanes.data), 1);
    EXPECT_GE(std::min(lanes.bulk_calls, lanes.bulk_data), lanes.has_bulk() ? 4 : 0);
  }
  EXPECT_EQ(LaneSlots::of(7).calls, 1);
  EXPECT_EQ(LaneSlots::of(63).calls, 15);
  EXPECT_EQ(LaneSlots::of(512).calls, 48);
  EXPECT_EQ(LaneSlots::of(512).data, 16);
  EXPECT_EQ(LaneSlots::of(512).bulk_calls, 16);
  EXPECT_EQ(LaneSlots::of(512).bulk_data, 432);
}

TEST(ShardStreams, WhatFitsTheSlotsIsShort) {  // [LANE-5, LANE-6]
  std::vector<int32_t> few(kMany - kChunk, 1);
  LoneShard brief(two_streams());
  brief.submit(sum_of_ints(few));
  EXPECT_EQ(slots_of(brief.step()), (std::vector<int>{0, 12, 13, 14, 15}));

  std::vector<int32_t> many(kMany - kChunk + 1, 1);
  LoneShard bulk(two_streams());
  bulk.submit(sum_of_ints(many));
  const std::vector<Bytes> frames = bulk.step();
  // Announced in the short stream, called and sent in its own.
  EXPECT_EQ(slots_of(frames), (std::vector<int>{0, 16, 20, 21, 22, 23, 24}));
  EXPECT_EQ(words_of(frames[0]), 0U);
  EXPECT_EQ(words_of(frames[1]), 0U);
}

TEST(ShardStreams, ACallerMayChoose) {
  std::vector<int32_t> few(kChunk, 1);
  LoneShard lone(two_streams());
  Collective bulk = sum_of_ints(few);
  bulk.stream = StreamChoice::kBulk;
  const auto end = lone.submit(bulk);
  const std::vector<Bytes> frames = lone.step();
  EXPECT_EQ(slots_of(frames), (std::vector<int>{16, 20})) << "not announced";
  lone.answer_all(frames);
  EXPECT_EQ(end->size(), 1U);
}

TEST(ShardStreams, WhatDoesNotFitTheShortStreamIsNotAskedOfIt) {
  std::vector<int32_t> fits(4 * kChunk, 1), does_not(4 * kChunk + 1, 1);
  LoneShard lone(two_streams());
  Collective brief = sum_of_ints(fits);
  brief.stream = StreamChoice::kShort;
  lone.submit(brief);
  EXPECT_EQ(slots_of(lone.step()), (std::vector<int>{0, 12, 13, 14, 15}));
  EXPECT_DEATH(
      {
        Collective longer = sum_of_ints(does_not);
        longer.stream = StreamChoice::kShort;
        lone.submit(longer);
        lone.step();
      },
      "assertion failed");
}

// The ranks of a host hand large tensors on piece by piece, and small ones beside them, as they come.
TEST(ShardStreams, StreamsThatAreChosenHaveNoOrderBetweenThem) {
  Cluster cluster(cluster_of(kSlots));
  std::vector<std::vector<int32_t>> pieces(3, std::vector<int32_t>(7 * kChunk, 1)), brief(3, {1, 2, 3});
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (int w = 0; w < 3; ++w) {
    Collective piece = sum_of_ints(pieces[static_cast<size_t>(w)]);
    piece.stream = StreamChoice::kBulk;
    Collective small = sum_of_ints(brief[static_cast<size_t>(w)]);
    small.stream = StreamChoice::kShort;
    const bool piece_first = w != 1;
    outcomes.push_back(cluster.submit(w, piece_first ? piece : small));
    outcomes.push_back(cluster.submit(w, piece_first ? small : piece));
  }
  ASSERT_TRUE(cluster.run());
  for (const auto& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_TRUE(outcome->front().ok()) << outcome->front().to_string();
  }
  for (size_t w = 0; w < 3; ++w) {
    EXPECT_EQ(pieces[w], std::vector<int32_t>(7 * kChunk, 3));
    EXPECT_EQ(brief[w], (std::vector<int32_t>{3, 6, 9}));
  }
}

TEST(ShardStreams, AFewChunksDoNotWaitForMany) {
  LoneShard lone(two_streams());
  std::vector<int32_t> many(100 * kChunk, 3), few(2 * kChunk, 5);
  const auto bulk = lone.submit(sum_of_ints(many));
  std::vector<Bytes> first = lone.step();
  EXPECT_EQ(first.size(), 2U + 44U);  // its slots are full
  const auto brief = lone.submit(sum_of_ints(few));
  const std::vector<Bytes> frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{1, 12, 13}));
  lone.deliver({result_of(frames[0]), result_of(frames[1]), result_of(frames[2])});
  ASSERT_EQ(brief->size(), 1U);
  EXPECT_TRUE(brief->front().ok());
  EXPECT_TRUE(bulk->empty());
  lone.answer_all(first);
  ASSERT_EQ(bulk->size(), 1U);
  EXPECT_TRUE(bulk->front().ok());
  EXPECT_EQ(many, std::vector<int32_t>(100 * kChunk, 3));
  EXPECT_EQ(few, std::vector<int32_t>(2 * kChunk, 5));
}

TEST(ShardStreams, ABarrierEndsAfterWhatWasCalledBeforeIt) {
  LoneShard lone(two_streams());
  std::vector<int32_t> many(100 * kChunk, 3);
  const auto bulk = lone.submit(sum_of_ints(many));
  const std::vector<Bytes> first = lone.step();
  const auto end = lone.submit(barrier());
  const std::vector<Bytes> frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{1}));
  lone.deliver({result_of(frames[0])});
  EXPECT_TRUE(end->empty());
  lone.answer_all(first);
  EXPECT_EQ(bulk->size(), 1U);
  EXPECT_EQ(end->size(), 1U);
}

TEST(ShardStreams, WhatIsShortGoesFirst) {  // [LANE-8]
  LoneShard lone(two_streams());
  std::vector<int32_t> many(kMany, 3), few(kChunk, 5);
  lone.submit(sum_of_ints(many));
  lone.submit(sum_of_ints(few));
  std::vector<int> expected = {0, 1, 12, 16};
  for (const int slot : range(20, 24)) expected.push_back(slot);
  EXPECT_EQ(slots_of(lone.step()), expected);
}

TEST(ShardStreams, EachKeepsItsOrder) {  // [LANE-3]
  LoneShard lone(two_streams());
  std::vector<std::vector<int32_t>> tensors;
  for (int i = 0; i < 6; ++i) tensors.emplace_back(i % 2 == 0 ? 20 * kChunk : kChunk, i);
  for (auto& tensor : tensors) lone.submit(sum_of_ints(tensor));
  const std::vector<Bytes> frames = lone.step();
  std::vector<int> expected = {0, 1, 12, 2, 3, 13, 4, 5, 14};
  std::vector<int> brief;
  std::vector<int> bulk;
  for (const int slot : slots_of(frames)) (slot < 16 ? brief : bulk).push_back(slot);
  std::sort(expected.begin(), expected.end());
  std::sort(brief.begin(), brief.end());
  EXPECT_EQ(brief, expected);
  std::vector<int> in_order = {16, 17, 18};  // calls run ahead of elements
  for (const int slot : range(20, 63)) in_order.push_back(slot);
  EXPECT_EQ(bulk, in_order);
  lone.answer_all(frames);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tensors[static_cast<size_t>(i)].back(), i);
}

TEST(ShardStreams, ItIsOverWhenItsAnnouncementIs) {
  LoneShard lone(two_streams());
  std::vector<int32_t> many(kMany, 3);
  const auto outcome = lone.submit(sum_of_ints(many));
  const std::vector<Bytes> frames = lone.step();
  for (size_t i = 1; i < frames.size(); ++i) lone.deliver({result_of(frames[i])});
  EXPECT_TRUE(outcome->empty());
  lone.deliver({result_of(frames[0])});
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
}

// While announcements are open the calls behind them wait, but what is ahead of them goes on.
TEST(ShardStreams, AnnouncementsTakeSlotsOfTheCallLane) {  // [LANE-7]
  LoneShard lone(two_streams());
  std::vector<std::vector<int32_t>> tensors(13, std::vector<int32_t>(kMany, 1));
  for (auto& tensor : tensors) lone.submit(sum_of_ints(tensor));
  const auto end = lone.submit(barrier());
  std::vector<Bytes> frames = lone.step();
  std::vector<int> calls;
  for (const int slot : slots_of(frames)) {
    if (slot < 12) calls.push_back(slot);
  }
  EXPECT_EQ(calls, range(0, 11));
  lone.answer_all(frames);
  ASSERT_EQ(end->size(), 1U);
  EXPECT_TRUE(end->front().ok());
  for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<int32_t>(kMany, 1));
}

// ---- workers and a switch ----

/// By tensor and worker; for both streams, two of them with infinities.
std::vector<Tensors<float>> tensors_of_all_sizes() {
  const size_t sizes[] = {40 * kChunk, 10, 700, 5 * kChunk, 3, 4 * kChunk, 60 * kChunk, 1};
  std::vector<Tensors<float>> all;
  for (const size_t size : sizes) all.push_back(random_floats(3, size, static_cast<uint32_t>(all.size())));
  all[3][1][5] = std::numeric_limits<float>::infinity();
  all[2][0][5] = -std::numeric_limits<float>::infinity();
  return all;
}

/// All-reduces of several sizes that are under way at a time, what ranks get for them.
std::vector<Tensors<float>> mixed(const ClusterOptions& options, bool late_rank) {
  Cluster cluster(options);
  std::vector<Tensors<float>> all = tensors_of_all_sizes();
  for (int w = 0; w < 3; ++w) {
    for (int i = 0; w == 2 && late_rank && i < 50; ++i) cluster.round();
    for (auto& tensors : all) {
      cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[static_cast<size_t>(w)]));
    }
  }
  EXPECT_TRUE(cluster.run());
  EXPECT_TRUE(cluster.failures.empty());
  return all;
}

bool same_bits(const std::vector<Tensors<float>>& a, const std::vector<Tensors<float>>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t w = 0; w < a[i].size(); ++w) {
      if (std::memcmp(a[i][w].data(), b[i][w].data(), a[i][w].size() * sizeof(float)) != 0) return false;
    }
  }
  return a.size() == b.size();
}

TEST(ShardStreams, NoBitDependsOnTheStream) {
  const std::vector<Tensors<float>> one = mixed(cluster_of(kSlots - 1), false);
  EXPECT_TRUE(same_bits(one, mixed(cluster_of(kSlots), false)));
  EXPECT_TRUE(same_bits(one, mixed(cluster_of(kSlots), true)));
  EXPECT_TRUE(same_bits(one, mixed(cluster_of(kSlots, {}, 2), true)));
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    NetFaults faults;
    faults.loss = 0.05;
    faults.duplicate = 0.05;
    faults.max_delay_rounds = 4;
    faults.seed = seed;
    EXPECT_TRUE(same_bits(one, mixed(cluster_of(kSlots, faults), true))) << "seed " << seed;
  }
}

/// What mixed() reduces, through streams that are chosen, which every rank feeds in an order of its own.
std::vector<Tensors<float>> chosen(const ClusterOptions& options, uint32_t seed) {
  Cluster cluster(options);
  std::vector<Tensors<float>> all = tensors_of_all_sizes();
  std::mt19937 random(seed);
  for (size_t w = 0; w < 3; ++w) {
    std::deque<Collective> streams[2];
    for (auto& tensors : all) {
      Collective call = in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[w]);
      const bool is_short = call.count < kMany - kChunk;  // one that would be goes the other way
      call.stream = is_short ? StreamChoice::kShort : StreamChoice::kBulk;
      streams[is_short ? 0 : 1].push_back(std::move(call));
    }
    while (!streams[0].empty() || !streams[1].empty()) {
      std::deque<Collective>& next = streams[streams[0].empty() || (!streams[1].empty() && random() % 2 == 0) ? 1 : 0];
      cluster.submit(static_cast<int>(w), std::move(next.front()));
      next.pop_front();
      for (uint32_t i = random() % 8; i > 0; --i) cluster.round();
    }
  }
  EXPECT_TRUE(cluster.run());
  EXPECT_TRUE(cluster.failures.empty());
  return all;
}

TEST(ShardStreams, NoBitDependsOnTheOrderOfStreamsThatAreChosen) {
  const std::vector<Tensors<float>> one = mixed(cluster_of(kSlots - 1), false);
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    NetFaults faults;
    faults.loss = seed % 2 == 0 ? 0.05 : 0.0;
    faults.duplicate = faults.loss;
    faults.max_delay_rounds = 1 + static_cast<int>(seed % 4);
    faults.seed = seed;
    EXPECT_TRUE(same_bits(one, chosen(cluster_of(kSlots, faults), seed))) << "seed " << seed;
  }
}

// The announcement stands where the other rank has its call.
TEST(ShardStreams, RanksThatChoseDifferentStreamsFindOut) {  // [LANE-7]
  for (const bool floats : {false, true}) {
    Cluster cluster(cluster_of(kSlots));
    const ElementType type = floats ? ElementType::kFloat32 : ElementType::kInt32;
    std::vector<std::vector<int32_t>> tensors(3, std::vector<int32_t>(50 * kChunk, 1));
    tensors[2].resize(10);
    std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
    for (int w = 0; w < 3; ++w) {
      outcomes.push_back(cluster.submit(w, in_place(ReduceOp::kSum, type, tensors[static_cast<size_t>(w)])));
    }
    const Time begin = cluster.now();
    ASSERT_TRUE(cluster.run());
    EXPECT_LT(cluster.now() - begin, seconds(1));
    for (const auto& outcome : outcomes) {
      ASSERT_EQ(outcome->size(), 1U);
      EXPECT_FALSE(outcome->front().ok());
    }
  }
}

// Where one rank has called something else its next ones meet others' earlier ones: never is their sum a result.
TEST(ShardStreams, CollectivesThatLookAlikeAreNotTakenForEachOther) {
  for (const size_t size : {50 * kChunk, 2 * kChunk}) {         // in the bulk stream, in the short one
    for (const size_t other_size : {size_t{0}, 20 * kChunk}) {  // and the other way round
      Cluster cluster(cluster_of(kSlots));
      std::vector<std::vector<std::vector<int32_t>>> tensors(3);
      std::vector<int32_t> other(other_size, 1);
      for (size_t w = 0; w < 3; ++w) {
        for (int32_t call = 0; call < 4; ++call) tensors[w].emplace_back(size, 1 << (4 * call));
        for (size_t call = 0; call < 4; ++call) {
          const bool differs = w == 2 && call == 0;
          cluster.submit(static_cast<int>(w), sum_of_ints(differs ? other : tensors[w][call]));
        }
      }
      ASSERT_TRUE(cluster.run());
      for (const auto& mine : tensors) {
        for (size_t call = 0; call < 4; ++call) {
          const int32_t now = mine[call].back();
          EXPECT_TRUE(now == 1 << (4 * call) || now == 3 << (4 * call)) << "call " << call << ": " << now;
        }
      }
      ASSERT_FALSE(cluster.failures.empty());
      EXPECT_EQ(cluster.failures[0].code(), Code::kMismatch);
    }
  }
}

}  // namespace
}  // namespace switchml::testing
