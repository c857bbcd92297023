#include "failover/share_failovers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <utility>

#include "client/fake_controller.h"
#include "failover/whole_sums.h"

namespace switchml {
namespace {

constexpr int kRanks = 3;

/// Switches, a controller that plans shares over them, and ranks that add, whatever happens.
struct Planned {
  explicit Planned(size_t switches, bool integers = false) {
    for (size_t i = 0; i < switches; ++i) servers.push_back(start_switch());
    for (const auto& server : servers) places.push_back(server->local());
    config = quick_config(seconds(20));
    config.controller = "c:1";
    config.fallback = true;
    config.failure_timeout = seconds(2);
    config.payload_bytes = 1024;
    config.shards = 2;
    controller.adds_integers = integers;
  }
  /// A share at switch number `at`, in a tree of that number.
  FakeController::Planned at(size_t at, uint32_t weight = 1) const { return {weight, places[at], at + 1}; }

  /// Sums on all ranks, all of them right, until each rank has seen `goal`, which rank 0 works for by `act` once.
  struct Step {
    std::function<void()> act;
    std::function<bool(Session&)> goal;
  };
  void run(const std::vector<Step>& steps) {
    each_rank(kRanks, [&](int rank) {
      auto session =
          Session::open(config, {rank, kRanks, "group p"}, store, monotonic_now() + seconds(20), borrowed(controller));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      int round = 0;
      for (const Step& step : steps) {
        if (rank == 0) step.act();
        for (float seen = 0; seen < kRanks; ++round) {
          sum_whole(*session.value(), rank, kRanks, round, step.goal(*session.value()) ? 1.0F : 0.0F, &seen);
        }
        if (::testing::Test::HasFatalFailure()) return;
      }
      session.value()->await_others();
    });
  }

  uint64_t sessions_open() const {
    uint64_t open = 0;
    for (const auto& server : servers) {
      if (server) open += server->counters().sessions_opened.get() - server->counters().sessions_closed.get();
    }
    return open;
  }
  uint64_t uses(size_t number) const { return servers[number]->counters().uses_completed.get(); }

  std::vector<std::unique_ptr<SwitchServer>> servers;
  std::vector<Endpoint> places;
  Config config;
  FakeController controller;
  MapStore store;
};

void nothing() {}
bool at_once(Session&) { return true; }

/// Whether the session's switches are these, in order, and none of them is lost.
std::function<bool(Session&)> at_switches(const Planned& planned, const std::vector<size_t>& numbers) {
  std::string names;
  for (const size_t number : numbers) {
    names += (names.empty() ? "" : ", ") + to_string(planned.places[number]) + " (of controller c:1)";
  }
  return [names](Session& session) { return session.switch_names() == names && !session.without_switch(); };
}

TEST(ShareFailovers, ARunningGroupGoesWhereItIsPlanned) {
  for (const bool integers : {false, true}) {
    Planned planned(2, integers);
    planned.controller.plan({planned.at(0)});
    planned.run({{nothing, at_switches(planned, {0})},
                 {[&] { planned.controller.plan({planned.at(1)}); }, at_switches(planned, {1})},
                 {[&] { planned.controller.plan({planned.at(0)}); }, at_switches(planned, {0})},
                 {nothing, at_once}});
    EXPECT_EQ(planned.sessions_open(), 0U) << "the sessions before are left";
  }
}

TEST(ShareFailovers, EachShareMovesByItself) {
  Planned planned(4);
  planned.controller.plan({planned.at(0), planned.at(1)});
  planned.run({{nothing, at_switches(planned, {0, 1})},
               {[&] {
                  planned.controller.plan({planned.at(0), planned.at(2)});
                },
                at_switches(planned, {0, 2})},
               {[&] {
                  planned.controller.plan({planned.at(1), planned.at(3)});
                },
                at_switches(planned, {1, 3})},
               {nothing, at_once}});
  EXPECT_EQ(planned.servers[0]->counters().sessions_opened.get(), 1U) << "it stays where it need not move";
  EXPECT_EQ(planned.sessions_open(), 0U);
}

TEST(ShareFailovers, SharesOfOneTreeMoveTogether) {
  Planned planned(2);
  planned.controller.plan({planned.at(0), planned.at(0)});
  planned.run({{nothing, at_switches(planned, {0, 0})},
               {[&] {
                  planned.controller.plan({planned.at(1), planned.at(1)});
                },
                at_switches(planned, {1, 1})},
               {nothing, at_once}});
  EXPECT_EQ(planned.sessions_open(), 0U);
}

TEST(ShareFailovers, AShareWhoseSwitchIsLostIsReplacedAndPlannedElsewhere) {
  Planned planned(3);
  planned.controller.plan({planned.at(0), planned.at(1)});
  planned.run({{nothing, at_switches(planned, {0, 1})},
               {[&] { planned.servers[1].reset(); }, [](Session& session) { return session.without_switch(); }},
               {[&] {
                  planned.controller.plan({planned.at(0), planned.at(2)});
                },
                at_switches(planned, {0, 2})},
               {nothing, at_once}});
  EXPECT_EQ(planned.sessions_open(), 0U);
}

TEST(ShareFailovers, OtherWeightsCountFromOneCollectiveOn) {
  Planned planned(2);
  planned.controller.plan({planned.at(0, 1), planned.at(1, 1)});
  uint64_t before[2] = {};
  const auto first_has = [&](uint64_t percent_at_least, uint64_t percent_at_most) {
    return [&, percent_at_least, percent_at_most](Session& session) {
      if (session.parameters().worker != 0) return true;
      uint64_t used[2];
      for (size_t i = 0; i < 2; ++i) used[i] = planned.uses(i) - std::exchange(before[i], planned.uses(i));
      const uint64_t all = used[0] + used[1];
      return all > 0 && all < 1000 && used[0] * 100 >= percent_at_least * all && used[0] * 100 <= percent_at_most * all;
    };
  };
  planned.run({{nothing, first_has(40, 60)},
               {[&] {
                  planned.controller.plan({planned.at(0, 1), planned.at(1, 9)});
                },
                first_has(5, 20)},
               {[&] {
                  planned.controller.plan({planned.at(0, 9), planned.at(1, 1)});
                },
                first_has(80, 95)},
               {[&] {
                  planned.controller.plan({planned.at(0, 1), planned.at(1, 1)});
                },
                first_has(40, 60)}});
}

TEST(ShareFailovers, APlanOfAnotherNumberOfSharesIsNotFollowed) {
  Planned planned(2);
  planned.controller.plan({planned.at(0)});
  int asked = 0;
  const auto plan = [&] {
    planned.controller.plan({planned.at(1), planned.at(0)});
    asked = planned.controller.times_located;
  };
  const auto heard = [&](Session& session) {
    return session.parameters().worker != 0 || planned.controller.times_located > asked + 2;
  };
  planned.run({{nothing, at_switches(planned, {0})}, {plan, heard}, {nothing, at_switches(planned, {0})}});
  EXPECT_EQ(planned.servers[1]->counters().sessions_opened.get(), 0U);
}

/// Plans and losses in any order, while the ranks add.
TEST(ShareFailovers, WhateverHappensEachSumIsRight) {
  std::mt19937 random(static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed()));
  Planned planned(4);
  planned.controller.plan({planned.at(0), planned.at(1)});
  std::atomic<bool> over{false};
  std::promise<void> opened;  // A group that is still opening ends with its switch.
  std::thread trouble([&] {
    opened.get_future().wait_for(seconds(60));
    for (int event = 0; event < 6; ++event) {
      const size_t lost = random() % 4;
      const size_t first = random() % 4;
      planned.controller.plan({planned.at(first, 1 + random() % 3), planned.at((first + 1) % 4, 1 + random() % 3)});
      std::this_thread::sleep_for(milliseconds(random() % 1500));
      if (event % 2 == 0) continue;
      planned.servers[lost].reset();
      std::this_thread::sleep_for(milliseconds(random() % 500));
      planned.servers[lost] = start_switch({}, to_string(planned.places[lost]));
    }
    planned.controller.plan({planned.at(2), planned.at(3)});
    over = true;
  });
  const auto there = at_switches(planned, {2, 3});
  planned.run({{[&] { opened.set_value(); }, [&](Session& session) { return over && there(session); }}});
  trouble.join();
}

}  // namespace
}  // namespace switchml
