#include "session/failover.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>

#include "fixture.h"
#include "thread_reducer.h"

namespace switchml {
namespace {

// ---- who lacks what ----

TEST(Catchup, TheLowestRankThatHasAResultGivesIt) {
  const Catchup plan({{1, 4, 0, 7}, {2, 4, 1, 7}, {2, 3, 1, 7}});
  EXPECT_TRUE(plan.possible());
  EXPECT_EQ(plan.gives(0), (std::vector<int>{1}));
  EXPECT_EQ(plan.gives(1), (std::vector<int>{0, 2}));
  EXPECT_TRUE(plan.gives(2).empty());
  EXPECT_EQ(plan.takes_from(0), (std::vector<int>{1}));
  EXPECT_TRUE(plan.takes_from(1).empty());
  EXPECT_EQ(plan.takes_from(2), (std::vector<int>{0}));
  EXPECT_EQ(plan.last(0), 2U);
  EXPECT_EQ(plan.last(2), 1U);
}

TEST(Catchup, NumbersWrapAround) {
  const Catchup plan({{0xffffffffU}, {2}});
  EXPECT_TRUE(plan.possible());
  EXPECT_EQ(plan.gives(1), (std::vector<int>{0}));
}

TEST(Catchup, TwoUsesApartIsImpossible) {
  EXPECT_FALSE(Catchup({{3}, {5}}).possible());
  EXPECT_TRUE(Catchup({{3}, {4}}).possible());
}

// ---- with switches, sockets and threads ----

Config fallback_to(const Endpoint& where, int shards = 1) {
  Config config = quick_config(seconds(20));
  config.switch_address = to_string(where);
  config.fallback = true;
  config.failure_timeout = seconds(1);
  config.payload_bytes = 1024;
  config.shards = shards;
  return config;
}

Status all_reduce(Session& session, std::vector<float>* values) {
  auto done = std::make_shared<std::promise<Status>>();
  Collective collective;
  collective.input = values->data();
  collective.output = values->data();
  collective.count = values->size();
  collective.output_end = values->size();
  collective.deadline = monotonic_now() + seconds(30);
  collective.done = [done](const Status& status) { done->set_value(status); };
  auto result = done->get_future();
  session.engine().submit(std::move(collective));
  return result.get();
}

std::vector<float> input_of(int rank, int round) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + round));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(60000);
  for (float& value : values) value = uniform(random);
  return values;
}

/// The results of `rounds` sums on `size` ranks, per rank; the switch ends when `ends_at` sums have begun (0: never).
std::vector<std::vector<std::vector<float>>> sums(int size, int shards, int rounds, int ends_at,
                                                  std::atomic<int>* moved) {
  ServerOptions options;
  options.listen = endpoint_of("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  EXPECT_TRUE(server.ok());
  const Config config = fallback_to(server.value()->local(), shards);
  MapStore store;
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::vector<std::vector<float>>> results(static_cast<size_t>(size));
  std::atomic<int> begun{0};
  std::thread killer([&] {
    while (ends_at > 0 && begun.load() < ends_at * size) std::this_thread::sleep_for(microseconds(100));
    std::this_thread::sleep_for(milliseconds(2));
    if (ends_at > 0) server.value().reset();
  });
  each_rank(size, [&](int rank) {
    auto session = Session::open(
        config, {rank, size, "group f"}, store, monotonic_now() + seconds(20), nullptr,
        [meeting] { return Result<std::unique_ptr<RankReducer>>(std::make_unique<ThreadReducer>(meeting)); });
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> values = input_of(rank, round);
      ++begun;
      const Status status = all_reduce(*session.value(), &values);
      ASSERT_TRUE(status.ok()) << status.to_string();
      results[static_cast<size_t>(rank)].push_back(std::move(values));
    }
    if (session.value()->without_switch()) ++*moved;
  });
  killer.join();
  EXPECT_FALSE(meeting->sizes_differ);
  return results;
}

TEST(Failover, WhatIsUnderWayIsCompletedAndTheBitsAreTheSame) {
  for (const int shards : {1, 2}) {
    std::atomic<int> stayed{0};
    std::atomic<int> moved{0};
    const auto with_switch = sums(3, shards, 6, 0, &stayed);
    const auto without = sums(3, shards, 6, 3, &moved);
    EXPECT_EQ(stayed.load(), 0);
    EXPECT_EQ(moved.load(), 3);
    for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(without[rank], with_switch[0]) << "rank " << rank;
  }
}

TEST(Failover, ASwitchThatIsLostBeforeTheFirstCall) {
  std::atomic<int> moved{0};
  ServerOptions options;
  options.listen = endpoint_of("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  const Config config = fallback_to(server.value()->local());
  MapStore store;
  auto meeting = std::make_shared<Meeting>(2);
  std::atomic<int> open{0};
  each_rank(2, [&](int rank) {
    auto session = Session::open(
        config, {rank, 2, "group f"}, store, monotonic_now() + seconds(20), nullptr,
        [meeting] { return Result<std::unique_ptr<RankReducer>>(std::make_unique<ThreadReducer>(meeting)); });
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    ++open;
    while (open.load() < 2) std::this_thread::yield();
    if (rank == 0) server.value().reset();
    std::vector<float> values(1000, 1.0F);
    const Status status = all_reduce(*session.value(), &values);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(values, std::vector<float>(1000, 2.0F));
    if (session.value()->without_switch()) ++moved;
  });
  EXPECT_EQ(moved.load(), 2);
}

TEST(Failover, WithNothingToFallBackOnTheSettingIsRefused) {
  MapStore store;
  auto session = Session::open(fallback_to(closed_port()), {0, 1, "group f"}, store, monotonic_now() + seconds(5));
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), Code::kInvalidArgument);
  EXPECT_NE(session.status().message().find("SWITCHML_ON_SWITCH_FAILURE=\"fallback\""), std::string::npos);
}

TEST(Failover, WhereTheRanksCannotGoOnTheCallFailsAndSaysBoth) {
  ServerOptions options;
  options.listen = endpoint_of("127.0.0.1:0");
  auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok());
  const Config config = fallback_to(server.value()->local());
  MapStore store;
  std::atomic<int> open{0};
  each_rank(2, [&](int rank) {
    auto session = Session::open(config, {rank, 2, "group f"}, store, monotonic_now() + seconds(20), nullptr, [] {
      return Result<std::unique_ptr<RankReducer>>(Status(Code::kUnavailable, "no other way was found"));
    });
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    ++open;
    while (open.load() < 2) std::this_thread::yield();
    if (rank == 0) server.value().reset();
    std::vector<float> values(1000, 1.0F);
    const Status status = all_reduce(*session.value(), &values);
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find("the switch"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("could not go on without it: no other way was found"), std::string::npos);
  });
}

}  // namespace
}  // namespace switchml
