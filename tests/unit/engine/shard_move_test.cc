// Streams that move to another switch half-way: nothing is lost, nothing counts twice, the bits stay the same.
#include <set>

#include "cluster.h"
#include "engine/shard.h"
#include "lone_shard.h"
#include "slots/resync_plan.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

struct Mover {
  Cluster& cluster;
  int workers;
  int shards;
  int supplied = 0;  // results that one rank had and another lacked

  /// What ranks do among themselves when they have lost their switch.
  void move(bool supply) {
    const Route route = cluster.new_switch();
    for (int s = 0; s < shards; ++s) {
      std::vector<std::vector<uint32_t>> accepted;
      for (int w = 0; w < workers; ++w) {
        cluster.shard(w, s).suspend();
        accepted.push_back(cluster.shard(w, s).accepted());
      }
      if (supply) catch_up(s, accepted);
      for (int w = 0; w < workers; ++w) cluster.shard(w, s).resume(route, nullptr, cluster.now());
    }
  }

 private:
  void catch_up(int s, const std::vector<std::vector<uint32_t>>& accepted) {
    const ResyncPlan plan(accepted);
    EXPECT_TRUE(plan.possible());
    for (int holder = 0; holder < workers; ++holder) {
      for (const int slot : plan.gives(holder)) {
        for (int w = 0; w < workers; ++w) {
          if (!plan.lacks(w, slot)) continue;
          cluster.shard(w, s).supply(cluster.shard(holder, s).last_result(slot), cluster.now());
          EXPECT_EQ(cluster.shard(w, s).accepted()[static_cast<size_t>(slot)], plan.last(slot));
          ++supplied;
        }
      }
    }
  }
};

ClusterOptions lossy(uint64_t seed, int shards = 1) {
  ClusterOptions options;
  options.workers = 3;
  options.shards = shards;
  options.slots = 8 * shards;
  options.payload = 256;
  options.faults.seed = seed;
  options.faults.loss = 0.1;
  options.faults.duplicate = 0.05;
  options.faults.max_delay_rounds = 6;
  options.keep_results = true;
  return options;
}

/// Sums of floats and of integers in a cluster that changes its switch every few rounds. Returns how many results
/// were supplied.
int sums_while_moving(uint64_t seed, int shards) {
  Cluster cluster(lossy(seed, shards));
  Mover mover{cluster, 3, shards};
  const Tensors<float> inputs = random_floats(3, 3000, seed);
  Tensors<float> tensors = inputs;
  Tensors<int32_t> numbers(3, std::vector<int32_t>(2000));
  for (int w = 0; w < 3; ++w) {
    for (size_t i = 0; i < 2000; ++i) numbers[static_cast<size_t>(w)][i] = w * 1000 + static_cast<int32_t>(i);
    cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[static_cast<size_t>(w)]));
    cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, numbers[static_cast<size_t>(w)]));
    cluster.submit(w, barrier());
  }
  int moves = 0;
  for (int i = 0; i < 200000 && !cluster.all_done(); ++i) {
    cluster.round();
    if (i % 37 == 36 && moves < 40) {
      mover.move(true);
      ++moves;
    }
  }
  EXPECT_TRUE(cluster.all_done()) << "seed " << seed;
  EXPECT_GT(moves, 5);
  EXPECT_TRUE(cluster.failures.empty()) << cluster.failures[0].to_string();
  for (int w = 0; w < 3; ++w) {
    expect_sums(inputs, tensors[static_cast<size_t>(w)], 64);
    EXPECT_EQ(tensors[static_cast<size_t>(w)], tensors[0]);
    for (size_t i = 0; i < 2000; ++i) {
      EXPECT_EQ(numbers[static_cast<size_t>(w)][i], static_cast<int32_t>(3 * i) + 3000);
    }
  }
  return mover.supplied;
}

TEST(ShardMove, StreamsGoOnWithAnotherSwitch) {  // [MOVE-1, MOVE-5]
  int supplied = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) supplied += sums_while_moving(seed, 1);
  EXPECT_GT(supplied, 100) << "no rank was ahead of another: the test tests little";
}

TEST(ShardMove, EachShardMoves) { EXPECT_GT(sums_while_moving(7, 3), 0); }

/// Three ranks of which only rank 0 gets its results, until the switch is gone.
struct OneAhead {
  OneAhead() : cluster(lossless()), tensors(3, std::vector<int32_t>(100, 7)) {
    cluster.network().tamper = nullptr;
    for (int w = 0; w < 3; ++w)
      cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, tensors[static_cast<size_t>(w)]));
    for (int i = 0; i < 20; ++i) {
      cluster.round();
      for (const int w : {1, 2}) cluster.transport(w).inbox.clear();
    }
    EXPECT_EQ(tensors[0], std::vector<int32_t>(100, 21));
    tensors[0].assign(100, 1000);  // its call has returned, so its tensor is the caller's again
  }
  static ClusterOptions lossless() {
    ClusterOptions options;
    options.workers = 3;
    options.keep_results = true;
    return options;
  }
  Cluster cluster;
  Tensors<int32_t> tensors;
};

TEST(ShardMove, WhatOneRankHasTheOthersGet) {  // [MOVE-3]
  OneAhead one;
  Mover mover{one.cluster, 3, 1};
  mover.move(true);
  EXPECT_GT(mover.supplied, 0);
  ASSERT_TRUE(one.cluster.run(seconds(10)));
  EXPECT_EQ(one.tensors[1], std::vector<int32_t>(100, 21));
  EXPECT_EQ(one.tensors[2], std::vector<int32_t>(100, 21));
}

TEST(ShardMove, WithoutItTheOthersWouldWaitForEver) {
  OneAhead one;
  Mover{one.cluster, 3, 1}.move(false);
  EXPECT_FALSE(one.cluster.run(seconds(10)));
}

TEST(ShardMove, ALostSwitchSuspendsInsteadOfFailing) {
  ClusterOptions options = OneAhead::lossless();
  Cluster cluster(options);
  Tensors<int32_t> tensors(3, std::vector<int32_t>(100000, 2));
  for (int w = 0; w < 3; ++w)
    cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, tensors[static_cast<size_t>(w)]));
  for (int i = 0; i < 3; ++i) cluster.round();
  cluster.switch_alive = false;
  for (int i = 0; i < 150000 && cluster.lost.size() < 3; ++i) cluster.round();
  ASSERT_EQ(cluster.lost.size(), 3U);
  EXPECT_EQ(cluster.lost[0].code(), Code::kUnavailable);
  EXPECT_NE(cluster.lost[0].message().find("has not answered for 10"), std::string::npos) << cluster.lost[0].message();
  EXPECT_TRUE(cluster.failures.empty());
  const uint64_t sent = cluster.frames_sent();
  for (int i = 0; i < 10000; ++i) cluster.round();
  EXPECT_EQ(cluster.frames_sent(), sent) << "a suspended shard is silent";
  cluster.switch_alive = true;
  Mover{cluster, 3, 1}.move(true);
  ASSERT_TRUE(cluster.run(seconds(10)));
  for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<int32_t>(100000, 6));
}

TEST(ShardMove, ASuspendedShardStillTimesOut) {
  LoneShard lone;
  Collective c = barrier();
  c.deadline = lone.now + seconds(2);
  const auto outcome = lone.submit(c);
  lone.step();
  lone.shard->suspend();
  EXPECT_EQ(lone.shard->next_wakeup(), c.deadline);
  lone.pass(milliseconds(1999));
  EXPECT_TRUE(outcome->empty());
  lone.pass(milliseconds(1));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().code(), Code::kTimeout);
}

TEST(ShardMove, ResultsOfTheOldSwitchAreForeignAfterwards) {
  LoneShard lone;
  const auto outcome = lone.submit(barrier());
  const auto before = lone.step();
  lone.shard->suspend();
  EXPECT_TRUE(lone.deliver({result_of(before[0])}).empty());
  Route route;
  route.job = 3;
  route.epoch = 0x77;
  lone.shard->resume(route, nullptr, lone.now);
  const auto after = lone.step();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(header_of(after[0]).job, 3);
  EXPECT_EQ(header_of(after[0]).epoch, 0x77U);
  EXPECT_EQ(header_of(after[0]).seq, header_of(before[0]).seq);
  EXPECT_EQ(header_of(after[0]).witness, header_of(before[0]).witness);
  lone.deliver({result_of(before[0])});
  EXPECT_TRUE(outcome->empty());
  EXPECT_EQ(lone.counters().results_foreign.get(), 1U);
  lone.deliver({result_of(after[0])});
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
}

TEST(ShardMove, ASuppliedResultIsJudgedLikeAnyOther) {  // [MOVE-4]
  LoneShard lone;
  std::vector<int32_t> tensor(10, 5);
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  ASSERT_EQ(frames.size(), 2U);
  lone.shard->suspend();
  Bytes damaged = result_of(frames[1]);
  damaged.back() ^= 1;
  lone.shard->supply(damaged, lone.now);
  lone.shard->supply({1, 2, 3}, lone.now);
  lone.shard->supply(frames[1], lone.now);  // a contribution
  EXPECT_EQ(lone.shard->accepted(), std::vector<uint32_t>(8, 0));
  EXPECT_EQ(lone.counters().witness_failures.get(), 1U);
  for (const Bytes& frame : frames) lone.shard->supply(result_of(frame), lone.now);
  EXPECT_EQ(lone.shard->accepted(), (std::vector<uint32_t>{1, 0, 1, 0, 0, 0, 0, 0}));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
}

}  // namespace
}  // namespace switchml::testing
