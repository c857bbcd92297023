// Sessions at a chip that is the end of unreliable queue pairs, by cards that are not there (tests/rdma).
#include <gtest/gtest.h>

#include "agree_each.h"
#ifdef SWITCHML_FAKE_VERBS
#include "chip.h"
#include "fake_library.h"

namespace switchml {
namespace {

/// Sums on so many ranks, over cards that behave so.
class SessionAtAChip : public ::testing::Test {
 protected:
  static constexpr size_t kCounts[] = {1, 1000, 100001};

  void open(const fake_verbs::Behaviour& behaviour) { library_.emplace(behaviour); }

  void add(int size, int shards, const std::function<void(int round)>& between = nullptr) {
    Config config = config_over("rdma");
    config.controller = "c:1";
    config.precision = Precision::kInteger;
    config.shards = shards;
    Chip chip;
    FakeController controller;
    controller.move_to(chip.local());
    MapStore store;
    each_rank(size, [&](int rank) {
      auto session =
          Session::open(config, {rank, size, "group t"}, store, monotonic_now() + seconds(60), borrowed(controller));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      EXPECT_EQ(session.value()->abilities().transport, "rdma");
      int round = 0;
      for (const size_t count : kCounts) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000 + static_cast<size_t>(rank));
        const Status status = all_reduce(*session.value(), &values, seconds(60));
        ASSERT_TRUE(status.ok()) << status.to_string();
        for (size_t i = 0; i < count; ++i) {
          ASSERT_NEAR(values[i], size * static_cast<int>(i % 1000) + size * (size - 1) / 2, 1e-3 * size) << i;
        }
        if (rank == 0 && between) between(round);
        ++round;
      }
      repeats_ += session.value()->engine().counters(0).retransmissions.get();
    });
    taken_ = chip.taken();
    written_ = chip.written();
    pairs_made_ = chip.pairs_made();
  }

  std::optional<fake_verbs::Library> library_;  // ends last
  uint64_t taken_ = 0, written_ = 0, pairs_made_ = 0;
  static thread_local bool is_last_;
  std::atomic<uint64_t> repeats_{0};
};

thread_local bool SessionAtAChip::is_last_ = false;

TEST_F(SessionAtAChip, AddsByPairs) {  // [RDMA-9 to RDMA-11]
  open({});
  testing::internal::CaptureStderr();
  add(3, 1);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the cards' path MTU leaves packets 512 bytes of payload"), std::string::npos) << log;
  const uint64_t chunks = 2 * 3 * (100001 * sizeof(float) / 512);
  EXPECT_GE(taken_ + written_, chunks);
  EXPECT_EQ(pairs_made_, 3U);
  add(2, 2);
  EXPECT_EQ(pairs_made_, 4U) << "one for each shard of each rank";
}

TEST_F(SessionAtAChip, WhatIsLostIsRepeated) {
  fake_verbs::Behaviour behaviour;
  behaviour.loss = behaviour.repeat = 0.02;
  behaviour.late = behaviour.overtake = 0.1;
  open(behaviour);
  add(2, 1);
  EXPECT_GT(repeats_.load(), 0U);
}

TEST_F(SessionAtAChip, BrokenPairsAreReplaced) {  // [MEET-4, RDMA-3]
  open({});
  add(2, 1, [this](int round) {
    if (round == 1) library_->break_pairs();
  });
  EXPECT_GT(pairs_made_, 2U);
}

// The ranks' own switches are reached by packets; another chip by places, as the first one.
TEST_F(SessionAtAChip, RanksGoOnWithoutItAndComeBackByPairs) {
  open({});
  Config config = config_over("rdma");
  config.controller = "c:1";
  config.precision = Precision::kInteger;
  config.fallback = true;
  config.failure_timeout = seconds(1);
  std::optional<Chip> chip(std::in_place);
  FakeController controller;
  controller.move_to(chip->local());
  MapStore store;
  each_rank(2, [&](int rank) {
    auto session =
        Session::open(config, {rank, 2, "group t"}, store, monotonic_now() + seconds(60), borrowed(controller));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    const auto add = [&](float last) {
      std::vector<float> values(1000, 1.0F);
      values.back() = last;
      const Status status = all_reduce(*session.value(), &values, seconds(60));
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_NEAR(values[0], 2, 1e-3);
      is_last_ = values.back() > 0.5F;  // the same on both
    };
    add(0);
    if (rank == 0) chip.reset();
    add(0);
    EXPECT_TRUE(session.value()->without_switch());
    if (rank == 0) controller.move_to(chip.emplace().local());
    const Time end = monotonic_now() + seconds(60);
    bool came_back = false;
    do {
      came_back = !session.value()->without_switch();
      add(rank == 0 && (came_back || monotonic_now() > end) ? 1 : 0);
    } while (!is_last_);
    EXPECT_TRUE(rank != 0 || came_back);
    session.value()->await_others();
  });
  EXPECT_GE(chip->pairs_made(), 2U);
  EXPECT_GT(chip->taken(), 0U);
  chip.reset();
}

}  // namespace
}  // namespace switchml
#endif
