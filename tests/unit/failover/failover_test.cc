#include "failover/failover.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <future>
#include <map>
#include <random>

#include "client/fake_controller.h"
#include "failover/whole_sums.h"
#include "session/fixture.h"
#include "store/store_exchange.h"
#include "temporary_file.h"

namespace switchml {
namespace {

Config fallback_to(const Endpoint& where, int shards = 1) {
  Config config = quick_config(seconds(20));
  config.switch_address = to_string(where);
  config.fallback = true;
  config.failure_timeout = seconds(1);
  config.payload_bytes = 1024;
  config.shards = shards;
  return config;
}

std::vector<float> input_of(int rank, int round) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + round));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(60000);
  for (float& value : values) value = uniform(random);
  return values;
}

/// A switch to lose, and ranks that meet on it.
struct Losable {
  explicit Losable(int shards = 1, const ServerOptions& options = {}) {
    server = start_switch(options);
    where = to_string(server->local());
    config = fallback_to(server->local(), shards);
  }
  /// Runs `body` for each rank, with its session.
  void each(int size, const std::function<void(int rank, Session&)>& body) {
    each_rank(size, [&](int rank) {
      AlteredStore seen(store, rank == 1 ? altered_key : "", change);
      auto session =
          Session::open(config, {rank, size, "group f"}, seen, monotonic_now() + seconds(20), borrowed(controller));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      body(rank, *session.value());
    });
  }
  /// Two ranks, whose first call comes when the switch is gone; `check` sees the call's outcome and result.
  void lose_before_the_first_call(
      const std::function<void(Session&, const Status&, const std::vector<float>& values)>& check) {
    std::atomic<int> open{0};
    each(2, [&](int rank, Session& session) {
      ++open;
      while (open.load() < 2) std::this_thread::yield();
      if (rank == 0) server.reset();
      std::vector<float> values(1000, 1.0F);
      const Status status = all_reduce(session, &values, seconds(30));
      check(session, status, values);
    });
  }

  std::unique_ptr<SwitchServer> server;
  std::string where;
  Config config;
  FakeController controller;  // asked where the configuration says so
  MapStore store;
  std::string altered_key;  // what rank 1 reads there is changed
  std::function<void(Blob*)> change;
};

/// The results of `rounds` sums on `size` ranks, per rank; the switch ends when `ends_at` sums have begun (0: never).
std::vector<std::vector<std::vector<float>>> sums(int size, int shards, bool integers, int rounds, int ends_at,
                                                  std::atomic<int>* moved) {
  Losable losable(shards);
  if (integers) losable.config.precision = Precision::kInteger;
  std::vector<std::vector<std::vector<float>>> results(static_cast<size_t>(size));
  std::atomic<int> begun{0};
  std::atomic<bool> ended{ends_at == 0};
  std::thread killer([&] {
    while (ends_at > 0 && begun.load() < ends_at * size) std::this_thread::sleep_for(microseconds(100));
    std::this_thread::sleep_for(milliseconds(2));
    if (ends_at > 0) losable.server.reset();
    ended = true;
  });
  losable.each(size, [&](int rank, Session& session) {
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> values = input_of(rank, round);
      ++begun;
      while (round + 1 == rounds && !ended) std::this_thread::yield();  // the last one comes too late for the switch
      const Status status = all_reduce(session, &values, seconds(30));
      ASSERT_TRUE(status.ok()) << status.to_string();
      results[static_cast<size_t>(rank)].push_back(std::move(values));
    }
    if (session.without_switch()) ++*moved;
  });
  killer.join();
  return results;
}

TEST(Failover, WhatIsUnderWayIsCompletedAndTheBitsAreTheSame) {
  for (const auto& [shards, integers] : {std::pair{1, true}, {2, true}, {1, false}, {2, false}}) {
    std::atomic<int> stayed{0};
    std::atomic<int> moved{0};
    const auto with_switch = sums(3, shards, integers, 6, 0, &stayed);
    const auto without = sums(3, shards, integers, 6, 3, &moved);
    EXPECT_EQ(stayed.load(), 0);
    EXPECT_EQ(moved.load(), 3);
    for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(without[rank], with_switch[0]) << "rank " << rank;
  }
}

/// Sums, all of them right, until all ranks see that the session is without its switch, or has one.
void sum_until(Session& session, int rank, int size, bool without, int* round) {
  for (float seen = 0; seen < static_cast<float>(size); ++*round) {
    sum_whole(session, rank, size, *round, session.without_switch() == without ? 1.0F : 0.0F, &seen);
  }
}

/// Four ranks lose their switch twice, and it comes back at the place that `back` makes known.
void lose_twice(Losable& losable, const std::function<void()>& back) {
  constexpr int kSize = 4;
  losable.each(kSize, [&](int rank, Session& session) {
    const SessionParameters first = session.parameters();
    int round = 0;
    for (int loss = 1; loss <= 2; ++loss) {
      if (rank == 0) losable.server.reset();
      sum_until(session, rank, kSize, true, &round);
      if (rank == 0) back();
      sum_until(session, rank, kSize, false, &round);
      EXPECT_NE(session.parameters().epoch, first.epoch);
      sum_until(session, rank, kSize, false, &round);
    }
  });
  EXPECT_GT(losable.server->counters().uses_completed.get(), 100U);
  EXPECT_EQ(losable.server->counters().sessions_opened.get(), losable.server->counters().sessions_closed.get())
      << "the last session is left";
}

TEST(Failover, ReturnsToTheSwitchWhenItIsBackEachTime) {
  for (const char* transport : {"udp", "tcp"}) {
    SCOPED_TRACE(transport);
    Losable losable(2);
    losable.config.transport = transport;
    lose_twice(losable, [&] { losable.server = start_switch({}, losable.where); });
  }
}

// What takes its place has another key.
TEST(Failover, ReturnsToASwitchWithAKey) {
  ServerOptions keyed;
  keyed.seal = random_seal_key();
  const TemporaryFile file(to_hex(*keyed.seal));
  ASSERT_EQ(::chmod(file.path().c_str(), 0600), 0);
  Losable losable(2, keyed);
  losable.config.encryption = Encryption::kOn;
  losable.config.switch_key_file = file.path();
  lose_twice(losable, [&] { losable.server = start_switch(keyed, losable.where); });
}

// Rank 1 does not hear most of the results, so that it lacks some when rank 0 has them all and its script ends.
TEST(Failover, WhoHasEverythingStaysForThoseThatLackSomething) {
  Losable losable;
  std::atomic<bool> gone{false};
  Config deaf = losable.config;
  deaf.faults = "receive_loss=0.6,seed=5";
  deaf.failure_timeout = losable.config.failure_timeout = seconds(8);
  each_rank(2, [&](int rank) {
    auto session = Session::open(rank == 1 ? deaf : losable.config, {rank, 2, "group f"}, losable.store,
                                 monotonic_now() + seconds(20));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    std::vector<float> values = input_of(rank, 1);
    const Status status = all_reduce(*session.value(), &values, seconds(30));
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (rank == 0) {
      losable.server.reset();
      gone = true;
    }
    EXPECT_TRUE(gone) << "rank 1 has got everything from the switch: the test tests nothing";
    const std::vector<float> mine = input_of(0, 1), theirs = input_of(1, 1);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], mine[i] + theirs[i], 1e-5);
    session.value()->await_others();
  });
}

TEST(Failover, WhoIsFirstAtTheEndWaitsForTheOthersButNotForEver) {
  Losable losable;
  losable.config.failure_timeout = seconds(2);
  std::promise<void> zero_is_gone;
  losable.each(3, [&](int rank, Session& session) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds(500));
    if (rank == 2) zero_is_gone.get_future().wait();  // which takes for ever where the first one waits for ever
    const Time begin = monotonic_now();
    session.await_others();
    if (rank == 0) {
      EXPECT_GE(monotonic_now() - begin, milliseconds(1900)) << "rank 2 is busy";
      zero_is_gone.set_value();
    }
  });
}

TEST(Failover, AfterSettlingNothingOfTheKindBegins) {
  Losable losable;
  std::atomic<int> settled{0};
  losable.each(2, [&](int rank, Session& session) {
    session.await_others();
    session.await_others();
    ++settled;
    while (settled.load() < 2) std::this_thread::yield();
    if (rank == 0) losable.server.reset();
    std::vector<float> values(1000, 1.0F);
    EXPECT_FALSE(all_reduce(session, &values, seconds(4)).ok());
    EXPECT_FALSE(session.without_switch());
  });
}

TEST(Failover, ReturnsToWhereTheControllerSays) {
  Losable losable(2);
  losable.controller.move_to(losable.server->local());
  losable.config.switch_address.clear();
  losable.config.controller = "c:1";
  lose_twice(losable, [&] {
    losable.server = start_switch();
    losable.controller.move_to(losable.server->local());
  });
}

TEST(Failover, ASwitchThatIsLostBeforeTheFirstCall) {
  std::atomic<int> moved{0};
  Losable().lose_before_the_first_call([&](Session& session, const Status& status, const std::vector<float>& values) {
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(values, std::vector<float>(1000, 2.0F));
    if (session.without_switch()) ++moved;
  });
  EXPECT_EQ(moved.load(), 2);
}

TEST(Failover, WhereTheRanksCannotGoOnTheCallFailsAndSaysBoth) {
  Losable losable;
  losable.altered_key = rank_key("standby/0/place", 0);
  losable.change = [](Blob* place) { *place = Blob::failure({Code::kUnavailable, "no other way was found"}); };
  std::atomic<int> failed{0};
  losable.lose_before_the_first_call([&](Session&, const Status& status, const std::vector<float>&) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find("the switch"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("could not go on without it: "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("no other way was found"), std::string::npos) << status.message();
    ++failed;
  });
  EXPECT_EQ(failed.load(), 2);
}

}  // namespace
}  // namespace switchml
