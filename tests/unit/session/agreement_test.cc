#include "session/agreement.h"

#include <gtest/gtest.h>

#include <set>

#include "base/limits.h"
#include "fake_controller.h"
#include "fixture.h"

namespace switchml {
namespace {

bool contains(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

/// The outcome of every rank that takes part; `absent` ones do not.
struct Outcome {
  std::vector<Result<Agreed>> ranks;
};

Outcome agree_all(int size, const std::function<Config(int)>& config_of, MapStore& store,
                  const std::set<int>& absent = {}, std::shared_ptr<ControllerClient> controller = nullptr) {
  std::vector<std::optional<Result<Agreed>>> results(static_cast<size_t>(size));
  each_rank(size, [&](int rank) {
    if (absent.count(rank) != 0) return;
    const Config config = config_of(rank);
    results[static_cast<size_t>(rank)].emplace(
        agree(config, {rank, size, "group g"}, store, monotonic_now() + seconds(20), controller));
  });
  Outcome outcome;
  for (auto& result : results) {
    if (result) outcome.ranks.push_back(std::move(*result));
  }
  return outcome;
}

/// All failed, with the same message, which is returned.
Status common_failure(const Outcome& outcome) {
  for (const auto& rank : outcome.ranks) {
    EXPECT_FALSE(rank.ok());
    if (rank.ok()) return {};
    EXPECT_EQ(rank.status().to_string(), outcome.ranks[0].status().to_string());
  }
  return outcome.ranks[0].status();
}

TEST(Agreement, RanksOfOneHostShareAnEmbeddedSwitch) {
  MapStore store;
  Config config = quick_config();
  config.shards = 2;
  auto outcome = agree_all(
      3, [&](int) { return config; }, store);
  for (int rank = 0; rank < 3; ++rank) {
    auto& result = outcome.ranks[static_cast<size_t>(rank)];
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    const SessionParameters& p = result->parameters;
    const SessionParameters& first = outcome.ranks[0]->parameters;
    EXPECT_EQ(p.worker, rank);
    EXPECT_EQ(p.workers, 3);
    EXPECT_EQ(p.shards, 2);
    EXPECT_EQ(p.slots % 2, 0);
    EXPECT_EQ(p.payload_bytes, kLoopbackPayloadBytes);
    EXPECT_EQ(p.epoch, first.epoch);
    EXPECT_EQ(p.job, first.job);
    EXPECT_EQ(p.session_key, first.session_key);
    EXPECT_EQ(p.secret[0], first.secret[0]);
    EXPECT_EQ(p.secret[1], first.secret[1]);
    EXPECT_NE(p.secret[0], p.secret[1]);
    EXPECT_TRUE(is_loopback(p.switch_endpoint));
    EXPECT_TRUE(p.switch_name.find("embedded in rank 0") != std::string::npos) << p.switch_name;
    EXPECT_EQ(result->transports.size(), 2U);
    EXPECT_EQ(result->embedded != nullptr, rank == 0);
  }
}

TEST(Agreement, SettingsReachTheSwitch) {
  MapStore store;
  Config config = quick_config();
  config.payload_bytes = 512;
  config.slots = 12;
  auto outcome = agree_all(
      2, [&](int) { return config; }, store);
  ASSERT_TRUE(outcome.ranks[1].ok()) << outcome.ranks[1].status().to_string();
  EXPECT_EQ(outcome.ranks[1]->parameters.payload_bytes, 512U);
  EXPECT_EQ(outcome.ranks[1]->parameters.slots, 12);
}

TEST(Agreement, AStandaloneSwitchServesSeveralGroups) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  Config config = quick_config();
  config.switch_address = to_string(server->local());
  MapStore stores[2];
  auto a = agree_all(
      2, [&](int) { return config; }, stores[0]);
  auto b = agree_all(
      2, [&](int) { return config; }, stores[1]);
  ASSERT_TRUE(a.ranks[0].ok() && b.ranks[0].ok());
  EXPECT_EQ(a.ranks[0]->embedded, nullptr);
  EXPECT_NE(a.ranks[0]->parameters.job, b.ranks[0]->parameters.job);
  EXPECT_EQ(server->counters().sessions_opened.get(), 2U);
  for (auto* outcome : {&a, &b}) {
    for (auto& rank : outcome->ranks) leave(rank->parameters, monotonic_now() + seconds(5));
  }
  EXPECT_EQ(server->counters().sessions_closed.get(), 2U);
}

TEST(Agreement, RanksThatDoNotComeAreNamedOnAll) {
  MapStore store;
  const Time begin = monotonic_now();
  const auto outcome = agree_all(4, [](int) { return quick_config(seconds(1)); }, store, {1, 3});
  ASSERT_EQ(outcome.ranks.size(), 2U);
  const Status status = common_failure(outcome);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(contains(status, "ranks 1, 3 of group g did not come")) << status.message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 5.0);
}

TEST(Agreement, AMissingRankZeroIsNamed) {
  MapStore store;
  const auto outcome = agree_all(2, [](int) { return quick_config(milliseconds(300)); }, store, {0});
  EXPECT_EQ(outcome.ranks[0].status().code(), Code::kTimeout);
  EXPECT_TRUE(contains(outcome.ranks[0].status(), "rank 0 of group g did not find a switch within"))
      << outcome.ranks[0].status().message();
}

TEST(Agreement, AWrongAddressIsNamedOnAll) {
  MapStore store;
  Config config = quick_config(seconds(1));
  config.switch_address = to_string(closed_port());
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "switch " + config.switch_address + " does not answer")) << status.message();
  EXPECT_TRUE(contains(status, "switchml-switchd")) << status.message();
}

TEST(Agreement, AnImpossibleAddressIsRefusedOnAll) {
  MapStore store;
  Config config = quick_config();
  config.switch_address = "10.0.0.1:notaport";
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_SWITCH=\"10.0.0.1:notaport\"")) << status.message();
}

TEST(Agreement, SettingsThatDifferAreNamedOnAll) {
  struct Case {
    std::function<void(Config*)> change;
    const char* part;
  };
  const Case cases[] = {
      {[](Config* c) { c->shards = 2; }, "rank 1 has SWITCHML_SHARDS \"2\" but rank 0 has \"1\""},
      {[](Config* c) { c->payload_bytes = 256; }, "rank 1 has SWITCHML_PAYLOAD \"256\" but rank 0 has none"},
      {[](Config* c) { c->slots = 8; }, "rank 1 has SWITCHML_SLOTS \"8\""},
      {[](Config* c) { c->switch_address = "1.2.3.4:5"; },
       "rank 1 has SWITCHML_SWITCH \"1.2.3.4:5\" but rank 0 has none (the default)"},
  };
  for (const Case& c : cases) {
    MapStore store;
    const Status status = common_failure(agree_all(
        2,
        [&c](int rank) {
          Config config = quick_config();
          if (rank == 1) c.change(&config);
          return config;
        },
        store));
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_TRUE(contains(status, c.part)) << status.message();
  }
}

// Speaks for rank 1 of 2 with a changed hello.
Status against_forged_hello(const std::string& key, const std::string& value) {
  MapStore store;
  MapStore scratch;
  // A real hello first, to change one value of it.
  agree_all(2, [](int) { return quick_config(milliseconds(100)); }, scratch, {0});
  const std::string hello = scratch.get("switchml/hello/1", monotonic_now()).value();
  Blob blob = Blob::parse(hello).value();
  blob.set(key, value);
  EXPECT_TRUE(store.set("switchml/hello/1", blob.encode()).ok());
  return agree_all(2, [](int) { return quick_config(seconds(2)); }, store, {1}).ranks[0].status();
}

TEST(Agreement, OtherVersionsAreNamed) {
  Status status = against_forged_hello("protocol", "9");
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has protocol version \"9\" but rank 0 has \"1\"")) << status.message();
  status = against_forged_hello("package", "99.0");
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has switchml version \"99.0\"")) << status.message();
}

TEST(Agreement, ALoopbackSwitchCannotServeSeveralHosts) {
  MapStore scratch;
  MapStore store;
  Config config = quick_config(seconds(2));
  config.switch_address = "127.0.0.1:5";
  Config hasty = config;
  hasty.connect_timeout = milliseconds(100);
  agree_all(2, [&](int) { return hasty; }, scratch, {0});
  Blob blob = Blob::parse(scratch.get("switchml/hello/1", monotonic_now()).value()).value();
  blob.set("host", "another host");
  ASSERT_TRUE(store.set("switchml/hello/1", blob.encode()).ok());
  const Status status = agree_all(2, [&](int) { return config; }, store, {1}).ranks[0].status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "loopback")) << status.message();
}

TEST(Agreement, AKernelThatCannotBeHadFailsOnAll) {
  MapStore store;
  const Status status = common_failure(agree_all(
      2,
      [](int rank) {
        Config config = quick_config();
        if (rank == 1) config.kernels = "abacus";
        return config;
      },
      store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "rank 1: ")) << status.message();
  EXPECT_TRUE(contains(status, "abacus")) << status.message();
}

TEST(Agreement, TheSwitchsRefusalReachesAll) {
  ServerOptions options;
  options.softswitch.slot_memory_bytes = 1000;
  const auto server = start_switch(options);
  ASSERT_NE(server, nullptr);
  MapStore store;
  Config config = quick_config(seconds(2));
  config.switch_address = to_string(server->local());
  const Status status = common_failure(agree_all(
      3, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "switch " + config.switch_address + " has no slot memory left")) << status.message();
}

Config controlled_config() {
  Config config = quick_config();
  config.controller = "c:1";
  return config;
}

TEST(Agreement, RoomThatComesInTimeIsWaitedFor) {
  ServerOptions options;
  options.softswitch.max_jobs = 1;
  const auto server = start_switch(options);
  ASSERT_NE(server, nullptr);
  Config config = quick_config(seconds(20));
  config.switch_address = to_string(server->local());
  const auto same = [&](int) { return config; };
  MapStore stores[2];
  auto first = agree_all(2, same, stores[0]);
  ASSERT_TRUE(first.ranks[0].ok());
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(700));
    for (auto& rank : first.ranks) leave(rank->parameters, monotonic_now() + seconds(5));
  });
  const auto second = agree_all(2, same, stores[1]);
  ends.join();
  for (const auto& rank : second.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

TEST(Agreement, AControllerSaysWhereTheSwitchIsAndOpens) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  FakeController controller;
  controller.move_to(server->local());
  MapStore store;
  const auto outcome = agree_all(
      3, [](int) { return controlled_config(); }, store, {}, borrowed(controller));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->parameters.switch_endpoint, controller.place());
    EXPECT_EQ(rank->parameters.switch_name, to_string(controller.place()) + " (of controller c:1)");
    EXPECT_EQ(rank->embedded, nullptr);
  }
  EXPECT_EQ(controller.name, "group g");
  ASSERT_EQ(controller.located.size(), 3U);
  EXPECT_EQ(controller.located, controller.opened);
  for (const auto& addresses : controller.located) {
    ASSERT_FALSE(addresses.empty());
    EXPECT_TRUE(addresses.back() == "127.0.0.1" || addresses.back() == "::1") << addresses.back();
  }
}

TEST(Agreement, AControllersRefusalReachesAll) {
  FakeController controller;
  controller.refusal = Status(Code::kUnavailable, "controller c:1 refuses: no switch for 10.0.0.7");
  MapStore store;
  const Status status = common_failure(agree_all(
      3, [](int) { return controlled_config(); }, store, {}, borrowed(controller)));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "no switch for 10.0.0.7")) << status.message();
}

TEST(Agreement, AControllerThatCountsWronglyIsRefused) {
  FakeController controller;
  controller.extra = 1;
  controller.move_to(endpoint_of("127.0.0.1:9"));
  MapStore store;
  const Status status = common_failure(agree_all(
      2, [](int) { return controlled_config(); }, store, {}, borrowed(controller)));
  EXPECT_TRUE(contains(status, "controller c:1 names 3 switches for 2 ranks")) << status.message();
}

TEST(Agreement, AControllerWithoutAClientIsAnError) {
  MapStore store;
  const Status status = common_failure(agree_all(
      2, [](int) { return controlled_config(); }, store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_CONTROLLER=\"c:1\"")) << status.message();
}

TEST(Agreement, FaultsDoNotHinderIt) {
  MapStore store;
  Config config = quick_config(seconds(20));
  config.faults = "seed=5,send_loss=0.2,receive_loss=0.2,duplicate=0.2";
  const auto outcome = agree_all(
      3, [&](int) { return config; }, store);
  for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

}  // namespace
}  // namespace switchml
