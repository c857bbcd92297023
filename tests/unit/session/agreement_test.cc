#include "session/agreement.h"

#include <gtest/gtest.h>

#include <set>

#include "base/limits.h"
#include "fake_controller.h"
#include "fixture.h"
#include "session/path_speed.h"
#include "session/roll_call.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "softswitch/slot_store.h"
#include "transport/sockaddr.h"

namespace switchml {
namespace {

bool contains(const Status& status, const std::string& part) {
  return status.message().find(part) != std::string::npos;
}

/// The outcome of every rank that takes part; `absent` ones do not.
struct Outcome {
  std::vector<Result<Agreed>> ranks;
};

/// Every rank agrees in a thread of its own.
Outcome agree_each(int size, const std::set<int>& absent, const std::function<Result<Agreed>(int)>& agree_as) {
  std::vector<std::optional<Result<Agreed>>> results(static_cast<size_t>(size));
  each_rank(size, [&](int rank) {
    if (absent.count(rank) == 0) results[static_cast<size_t>(rank)].emplace(agree_as(rank));
  });
  Outcome outcome;
  for (auto& result : results) {
    if (result) outcome.ranks.push_back(std::move(*result));
  }
  return outcome;
}

Outcome agree_all(int size, const std::function<Config(int)>& config_of, Rendezvous& store,
                  const std::set<int>& absent = {}, std::shared_ptr<ControllerClient> controller = nullptr,
                  Duration timeout = seconds(20)) {
  return agree_each(size, absent, [&](int rank) {
    const Config config = config_of(rank);
    return agree(config, {rank, size, "group g"}, store, monotonic_now() + timeout, controller);
  });
}

/// What one rank reads instead of what another has left there.
struct Alteration {
  int reader;
  std::string key;
  std::function<void(Blob*)> change;
};
Outcome agree_altered(int size, const Config& config, const Alteration& alteration) {
  MapStore store;
  return agree_each(size, {}, [&](int rank) {
    AlteredStore altered(store, rank == alteration.reader ? alteration.key : "", alteration.change);
    return agree(config, {rank, size, "group g"}, altered, monotonic_now() + seconds(20));
  });
}
/// Rank 0 hears something else in rank 1's hello.
Alteration other_hello(const std::string& key, const std::string& value) {
  return {0, rank_key("hello", 1), [key, value](Blob* hello) { hello->set(key, value); }};
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
  const auto outcome = agree_all(
      4, [](int) { return quick_config(); }, store, {1, 3}, nullptr, seconds(5));
  ASSERT_EQ(outcome.ranks.size(), 2U);
  const Status status = common_failure(outcome);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(contains(status, "ranks 1, 3 of group g did not come")) << status.message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
}

// Rank 0 comes last and has time left when another rank's is over.
TEST(Agreement, WhoseTimeIsOverFirstNamesTheMissingToo) {
  MapStore store;
  const GroupInfo first{1, 3, "group g"};
  const GroupInfo zero{0, 3, "group g"};
  std::thread late([&] {
    ASSERT_TRUE(store.get(rank_key("hello", 1), monotonic_now() + seconds(20)).ok());
    EXPECT_FALSE(agree(quick_config(), zero, store, monotonic_now() + seconds(3)).ok());
  });
  const auto outcome = agree(quick_config(), first, store, monotonic_now() + seconds(1));
  late.join();
  EXPECT_TRUE(contains(outcome.status(), "rank 2 of group g did not come within")) << outcome.status().message();
}

/// One rank comes when the others have waited for longer than a switch may be looked for.
void agree_with_late_rank(const Config& config, int late, int hosts) {
  MapStore store;
  const int size = 3;
  Outcome outcome = agree_each(size, {}, [&](int rank) {
    if (rank == late) {
      const int last = late == size - 1 ? 0 : size - 1;
      EXPECT_TRUE(store.get(rank_key("hello", last), monotonic_now() + seconds(60)).ok());
      std::this_thread::sleep_for(config.connect_timeout * 5 / 4);
    }
    // As if rank 0 were alone on its host.
    AlteredStore altered(store, hosts == 2 && rank == 0 ? rank_key("hello", 0) : "",
                         [](Blob* hello) { hello->set("host", "elsewhere"); });
    return agree(config, {rank, size, "group g"}, altered, monotonic_now() + seconds(60));
  });
  for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

TEST(Agreement, ALateRankIsAwaitedForLongerThanASwitch) {
  struct Case {
    const char* transport;
    int hosts;
    int late;
  };
  const std::vector<Case> cases = {{"udp", 1, 0}, {"udp", 1, 2}, {"auto", 1, 0}, {"auto", 1, 2}, {"auto", 2, 2}};
  each_rank(static_cast<int>(cases.size()), [&](int i) {
    const Case& c = cases[static_cast<size_t>(i)];
    Config config = quick_config(seconds(8));
    config.transport = c.transport;
    config.interface = "lo";
    agree_with_late_rank(config, c.late, c.hosts);
  });
}

TEST(Agreement, AMissingRankZeroIsNamed) {
  MapStore store;
  const auto outcome = agree_all(
      2, [](int) { return quick_config(); }, store, {0}, nullptr, milliseconds(300));
  EXPECT_EQ(outcome.ranks[0].status().code(), Code::kTimeout);
  EXPECT_TRUE(contains(outcome.ranks[0].status(), "rank 0 of group g did not come within"))
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
      {[](Config* c) { c->transport = "auto"; }, "rank 1 has SWITCHML_TRANSPORT \"auto\" but rank 0 has \"udp\""},
      {[](Config* c) { c->transport = "shm"; }, "rank 1 has SWITCHML_TRANSPORT \"shm\" but rank 0 has \"udp\""},
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

TEST(Agreement, OtherVersionsAreNamed) {
  Status status = common_failure(agree_altered(2, quick_config(), other_hello("protocol", "9")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has protocol version \"9\" but rank 0 has \"2\"")) << status.message();
  status = common_failure(agree_altered(2, quick_config(), other_hello("package", "99.0")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has switchml version \"99.0\"")) << status.message();
}

TEST(Agreement, ALoopbackSwitchCannotServeSeveralHosts) {
  Config config = quick_config();
  config.switch_address = "127.0.0.1:5";
  const Status status = common_failure(agree_altered(2, config, other_hello("host", "another host")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "loopback")) << status.message();
}

// ---- slots ----

/// A switch with memory for so many slots of 1024 bytes, and two ranks whose paths lead off the host, as rank 0 hears
/// it, carry as much in one packet and hold 500 chunks.
struct FarRanks {
  explicit FarRanks(size_t room, int slots = 0) {
    ServerOptions options;
    options.softswitch.slot_memory_bytes = room * softswitch::SlotStore::slot_bytes(1024);
    server = start_switch(options);
    Config config = quick_config();
    config.switch_address = to_string(server->local());
    config.slots = slots;
    outcome = agree_each(2, {}, [&](int rank) {
      AlteredStore far(store, rank == 0 ? rank_key("path", 1) : "", [](Blob* path) {
        path->set("leaves_host", 1);
        path->set("frame_bytes", 1024 + wire::kHeaderBytes);
      });
      AlteredStore fast(far, rank == 0 ? rank_key("speed", 1) : "", [](Blob* speed) { speed->set("chunks", 500); });
      return agree(config, {rank, 2, "group g"}, fast, monotonic_now() + seconds(20));
    });
  }
  /// What both ranks have; 0: something else each, or an error.
  int slots() const {
    for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
    if (!outcome.ranks[0].ok() || !outcome.ranks[1].ok()) return 0;
    const SessionParameters& first = outcome.ranks[0]->parameters;
    const SessionParameters& second = outcome.ranks[1]->parameters;
    EXPECT_EQ(first.payload_bytes, 1024U);
    EXPECT_EQ(first.session_key, second.session_key);
    EXPECT_EQ(first.secret[0], second.secret[0]);
    return first.slots == second.slots ? first.slots : 0;
  }
  uint64_t opened() const { return server->counters().sessions_opened.get(); }
  uint64_t closed() const { return server->counters().sessions_closed.get(); }

  MapStore store;
  std::unique_ptr<SwitchServer> server;
  Outcome outcome;
};

SessionParameters preset() {
  SessionParameters session;
  session.slots = 128;
  return session;
}

TEST(Agreement, PathsThatHoldMoreGetMoreSlots) {
  const FarRanks ranks(10000);
  if (ranks.server->limits().receive_buffer_bytes < 16 << 20) GTEST_SKIP() << "the kernel gives sockets small queues";
  EXPECT_EQ(ranks.slots(), slots_for(500, UINT64_MAX, preset()));
  EXPECT_EQ(ranks.opened(), 2U);
  EXPECT_EQ(ranks.closed(), 1U);
}

TEST(Agreement, TheSlotsThatThereAreAreNotGivenUpForFewer) {
  for (const size_t more : {0, 2, 50, 128}) {
    const FarRanks ranks(128 + more);
    if (ranks.server->limits().receive_buffer_bytes < 16 << 20) GTEST_SKIP() << "the kernel gives sockets small queues";
    EXPECT_EQ(ranks.slots(), 128) << more;
    EXPECT_EQ(ranks.opened() - ranks.closed(), 1U) << more;
  }
}

TEST(Agreement, SlotsThatAreNamedStay) {
  const FarRanks ranks(10000, 64);
  EXPECT_EQ(ranks.slots(), 64);
  EXPECT_EQ(ranks.opened(), 1U);
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

// ---- memory ----

Config memory_config(const std::string& transport, Duration timeout = seconds(10)) {
  Config config = preset_config(timeout);
  config.transport = transport;
  return config;
}

/// All ranks have the same memory, and rank 0 has left a listener for the others' watches.
void expect_memory(const Outcome& outcome, int size) {
  ASSERT_EQ(outcome.ranks.size(), static_cast<size_t>(size));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    ASSERT_NE(rank->memory, nullptr);
  }
  const Agreed& zero = *outcome.ranks[0].operator->();
  zero.memory->data()[5] = 77;
  for (int i = 0; i < size; ++i) {
    const Agreed& rank = *outcome.ranks[static_cast<size_t>(i)].operator->();
    EXPECT_EQ(rank.memory->data()[5], 77) << "rank " << i;
    EXPECT_EQ(rank.memory->size(), shm::shape_for(size).bytes());
    EXPECT_EQ(rank.memory->fd(), -1) << "rank " << i << " keeps a descriptor that nobody needs";
    EXPECT_TRUE(rank.transports.empty());
    EXPECT_EQ(rank.embedded, nullptr);
    EXPECT_EQ(rank.parameters.worker, i);
    EXPECT_EQ(rank.parameters.workers, size);
    EXPECT_EQ(rank.parameters.shards, 1);
    EXPECT_EQ(rank.parameters.slots, shm::shape_for(size).slots);
    EXPECT_EQ(rank.parameters.payload_bytes, shm::shape_for(size).chunk_bytes);
    EXPECT_EQ(rank.parameters.switch_name, "memory of this host");
    EXPECT_EQ(rank.watch_listener.valid(), i == 0);
    EXPECT_EQ(rank.watch_key, zero.watch_key);
    if (i > 0) {
      EXPECT_EQ(to_string(rank.watch_address), to_string(local_endpoint(zero.watch_listener.get())));
      EXPECT_NE(rank.memory->data(), zero.memory->data()) << "a mapping of its own";
    }
  }
}

/// All ranks use a switch that is embedded in rank 0.
void expect_embedded_switch(const Outcome& outcome) {
  for (size_t i = 0; i < outcome.ranks.size(); ++i) {
    const auto& rank = outcome.ranks[i];
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr) << "rank " << i;
    EXPECT_EQ(rank->transports.size(), 1U) << "rank " << i;
    EXPECT_EQ(rank->embedded != nullptr, i == 0);
    EXPECT_NE(rank->parameters.switch_name.find("embedded in rank 0"), std::string::npos);
  }
}

TEST(AgreementOnMemory, RanksOfOneHostShareIt) {
  for (const char* transport : {"auto", "shm"}) {
    for (const int size : {1, 2, 3, 4}) {
      MapStore store;
      SCOPED_TRACE(transport + std::string(", ranks: ") + std::to_string(size));
      const auto outcome = agree_all(
          size, [&](int) { return memory_config(transport); }, store);
      expect_memory(outcome, size);
    }
  }
}

TEST(AgreementOnMemory, GroupsDoNotShareWithEachOther) {
  MapStore stores[2];
  const auto config_of = [](int) { return memory_config("auto"); };
  const auto a = agree_all(2, config_of, stores[0]);
  const auto b = agree_all(2, config_of, stores[1]);
  expect_memory(a, 2);
  ASSERT_TRUE(b.ranks[0].ok());
  EXPECT_EQ(b.ranks[0]->memory->data()[5], 0);
  EXPECT_NE(a.ranks[0]->watch_key, b.ranks[0]->watch_key);
}

TEST(AgreementOnMemory, ASwitchThatIsNamedIsTaken) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  Config config = memory_config("auto");
  config.switch_address = to_string(server->local());
  MapStore store;
  const auto outcome = agree_all(
      2, [&](int) { return config; }, store);
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr);
    EXPECT_EQ(rank->transports.size(), 1U);
    EXPECT_EQ(rank->parameters.switch_endpoint, server->local());
  }
}

TEST(AgreementOnMemory, AControllerThatIsNamedIsAsked) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  FakeController controller;
  controller.move_to(server->local());
  Config config = memory_config("auto");
  config.controller = "c:1";
  MapStore store;
  const auto outcome = agree_all(
      2, [&](int) { return config; }, store, {}, borrowed(controller));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr);
    EXPECT_EQ(rank->parameters.switch_endpoint, server->local());
  }
}

TEST(AgreementOnMemory, FaultsOfAnyRankNeedPackets) {
  for (const int faulty : {0, 2}) {
    MapStore store;
    const auto outcome = agree_all(
        3,
        [&](int rank) {
          Config config = memory_config("auto");
          if (rank == faulty) config.faults = "seed=1,duplicate=0.1";
          return config;
        },
        store);
    SCOPED_TRACE(faulty);
    expect_embedded_switch(outcome);
  }
}

// Ranks that reach each other over loopback all the same, so that the switch works.
TEST(AgreementOnMemory, RanksOnSeveralHostsUseASwitch) {
  Config config = memory_config("auto");
  config.interface = "lo";
  expect_embedded_switch(agree_altered(2, config, other_hello("host", "another host")));
}

TEST(AgreementOnMemory, RanksOnSeveralHostsCannotBeToldToShare) {
  const Status status = common_failure(agree_altered(2, memory_config("shm"), other_hello("host", "another host")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_TRANSPORT=\"shm\"")) << status.message();
  EXPECT_TRUE(contains(status, "rank 1 is on another host")) << status.message();
  EXPECT_TRUE(contains(status, "use auto or udp")) << status.message();
}

/// What a rank reads of rank 0's offer so that it cannot fetch it, and what it says then.
struct Unfetchable {
  const char* key;
  const char* value;
  const char* why;
};
const Unfetchable kUnfetchable[] = {
    {"memory_key", "1", "refuses to share memory"},
    {"memory_key", "none", "another size than this rank expects"},
    {"memory_bytes", "4096", "another size than this rank expects"},
    {"memory", "switchml-nobody", "cannot be asked for memory"},
};

TEST(AgreementOnMemory, WhereOneRankCannotAllUseASwitch) {
  for (const Unfetchable& c : kUnfetchable) {
    for (const int reader : {1, 2}) {
      SCOPED_TRACE(c.key + std::string("=") + c.value);
      expect_embedded_switch(agree_altered(3, memory_config("auto"), {reader, rank_key("switch", 0), [&c](Blob* offer) {
                                                                        offer->set(c.key, c.value);
                                                                      }}));
    }
  }
}

TEST(AgreementOnMemory, WhereOneRankCannotButMustAllSayWhich) {
  for (const Unfetchable& c : kUnfetchable) {
    const Status status = common_failure(agree_altered(
        3, memory_config("shm"), {2, rank_key("switch", 0), [&c](Blob* offer) { offer->set(c.key, c.value); }}));
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_TRUE(contains(status, "rank 2: ")) << status.message();
    EXPECT_TRUE(contains(status, c.why)) << status.message();
  }
}

TEST(AgreementOnMemory, RanksMustWantTheSame) {
  const char* const transports[] = {"auto", "shm", "udp"};
  for (const std::string zero : transports) {
    for (const std::string one : transports) {
      if (zero == one) continue;
      MapStore store;
      const Status status = common_failure(agree_all(
          2, [&](int rank) { return memory_config(rank == 0 ? zero : one); }, store));
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_TRUE(contains(status, "rank 1 has SWITCHML_TRANSPORT \"" + one + "\" but rank 0 has \"" + zero + "\""))
          << status.message();
    }
  }
}

// Rank 0 does not hear that rank 1 could not fetch it.
TEST(AgreementOnMemory, ARankThatHasNoneDoesNotGoOnWithIt) {
  MapStore store;
  const Outcome outcome = agree_each(2, {}, [&](int rank) {
    const std::string key = rank == 0 ? rank_key("memory", 1) : rank_key("switch", 0);
    AlteredStore altered(store, key,
                         [rank](Blob* blob) { rank == 0 ? blob->set("why", "") : blob->set("memory_key", "1"); });
    return agree(memory_config("auto"), {rank, 2, "group g"}, altered, monotonic_now() + seconds(20));
  });
  const auto& one = outcome.ranks[1];
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.status().code(), Code::kMismatch);
  EXPECT_TRUE(contains(one.status(), "this one has none")) << one.status().message();
}

// Rank 0 has made its offer and ends, with or without somebody who still hands the memory out.
TEST(AgreementOnMemory, ARankZeroThatDiesOverItIsNamedByTheDeadline) {
  for (const bool hands_out : {true, false}) {
    MapStore store;
    Blob blob;
    auto offer = offer_memory(shm::shape_for(3), &blob);
    ASSERT_TRUE(offer.ok()) << offer.status().to_string();
    if (!hands_out) offer->handout.reset();
    ASSERT_TRUE(store.set(rank_key("switch", 0), blob.encode()).ok());
    const Time begin = monotonic_now();
    const auto outcome = agree_all(
        3, [](int) { return memory_config("auto"); }, store, {0}, nullptr, milliseconds(500));
    EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
    ASSERT_EQ(outcome.ranks.size(), 2U);
    for (const auto& rank : outcome.ranks) {
      ASSERT_FALSE(rank.ok());
      EXPECT_EQ(rank.status().code(), Code::kTimeout);
      EXPECT_TRUE(contains(rank.status(), "rank 0 of group g did not say whether all ranks share memory"))
          << rank.status().message();
    }
  }
}

// The hello of a rank that then dies.
TEST(AgreementOnMemory, ARankThatDiesOverItIsNamedOnAll) {
  MapStore scratch;
  agree_all(
      2, [](int) { return memory_config("auto"); }, scratch, {0}, nullptr, milliseconds(100));
  const std::string hello = scratch.get(rank_key("hello", 1), monotonic_now()).value();
  MapStore store;
  Blob blob = Blob::parse(hello).value();
  blob.set("size", uint64_t{3});
  ASSERT_TRUE(store.set(rank_key("hello", 1), blob.encode()).ok());
  const Time begin = monotonic_now();
  const Status status = common_failure(agree_all(
      3, [](int) { return memory_config("auto"); }, store, {1}, nullptr, seconds(5)));
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(contains(status, "rank 1 of group g did not come")) << status.message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
}

}  // namespace
}  // namespace switchml
