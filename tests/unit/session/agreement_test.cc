#include "session/agreement.h"

#include <gtest/gtest.h>

#include "agree_each.h"
#include "base/limits.h"
#include "client/fake_controller.h"
#include "path/path_speed.h"
#include "slots/slot_store.h"

namespace switchml {
namespace {

TEST(Agreement, RanksOfOneHostShareAnEmbeddedSwitch) {  // [WIT-1]
  MapStore store;
  Config config = quick_config();
  config.shards = 2;
  auto outcome = agree_all(
      3, [&](int) { return config; }, store);
  for (int rank = 0; rank < 3; ++rank) {
    auto& result = outcome.ranks[static_cast<size_t>(rank)];
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    const SessionParameters& p = result->sessions[0];
    const SessionParameters& first = outcome.ranks[0]->sessions[0];
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

TEST(Agreement, SessionsAreExactWhereSoftwareAddsAndNothingElseIsAskedFor) {
  ServerOptions chip;
  chip.softswitch.whole_chunks = true;  // as a chip, which adds integers
  const auto software = start_switch();
  const auto hardware = start_switch(chip);
  const auto is_exact = [](const Config& config) {
    MapStore store;
    const auto outcome = agree_all(
        2, [&](int) { return config; }, store);
    for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
    if (!outcome.ranks[0].ok() || !outcome.ranks[1].ok()) return false;
    EXPECT_EQ(outcome.ranks[0]->sessions[0].exact, outcome.ranks[1]->sessions[0].exact);
    return outcome.ranks[0]->sessions[0].exact;
  };
  Config config = quick_config();
  EXPECT_TRUE(is_exact(config)) << "embedded in a rank";
  config.switch_address = to_string(software->local());
  EXPECT_TRUE(is_exact(config));
  config.precision = Precision::kInteger;
  EXPECT_FALSE(is_exact(config));
  config.precision = Precision::kAuto;
  config.fallback = true;  // hosts go on with the same sums
  EXPECT_TRUE(is_exact(config));
  config.fallback = false;
  config.switch_address = to_string(hardware->local());
  EXPECT_FALSE(is_exact(config));
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
  EXPECT_NE(a.ranks[0]->sessions[0].job, b.ranks[0]->sessions[0].job);
  EXPECT_EQ(server->counters().sessions_opened.get(), 2U);
  for (auto* outcome : {&a, &b}) {
    for (auto& rank : outcome->ranks) leave(rank->sessions, monotonic_now() + seconds(5));
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

// ---- several switches ----

/// So many switches in software; the last one as `last` says.
struct SeveralSwitches {
  explicit SeveralSwitches(size_t count, const ServerOptions& last = {}) {
    for (size_t i = 0; i < count; ++i) servers.push_back(start_switch(i + 1 < count ? ServerOptions() : last));
  }
  std::string address(size_t i) const { return to_string(servers[i]->local()); }
  /// All, from that one on in rotation.
  std::string named(size_t first = 0) const {
    std::string text;
    for (size_t i = 0; i < servers.size(); ++i) {
      text += (i == 0 ? "" : ",") + address((first + i) % servers.size());
    }
    return text;
  }
  /// None of them keeps a session that nobody uses.
  void expect_all_closed() const {
    for (const auto& server : servers) {
      EXPECT_EQ(server->counters().sessions_opened.get(), server->counters().sessions_closed.get());
    }
  }
  std::vector<std::unique_ptr<SwitchServer>> servers;
};

Outcome agree_naming(const std::string& switches, Duration patience = seconds(20), int size = 3,
                     const std::string& faults = "") {
  MapStore store;
  Config config = quick_config(patience);
  config.switch_address = switches;
  config.faults = faults;
  return agree_all(
      size, [&](int) { return config; }, store, {}, nullptr, seconds(60));
}

TEST(SeveralNamedSwitches, OneThatDoesNotAnswerIsNamed) {
  const SeveralSwitches switches(2);
  const std::string nobody = to_string(closed_port());
  for (const std::string& named : {switches.named() + "," + nobody, nobody + "," + switches.named()}) {
    const Status status = common_failure(agree_naming(named, seconds(2)));
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_TRUE(contains(status, "switch " + nobody + " does not answer")) << status.message();
  }
  switches.expect_all_closed();
  EXPECT_EQ(switches.servers[0]->counters().sessions_opened.get(), 1U);
}

TEST(SeveralNamedSwitches, OneThatAddsIntegersIsNamed) {
  ServerOptions chip;
  chip.softswitch.whole_chunks = true;
  const SeveralSwitches switches(3, chip);
  const Status status = common_failure(agree_naming(switches.named(1)));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "switch " + switches.address(2) + " adds integers")) << status.message();
  switches.expect_all_closed();
}

TEST(SeveralNamedSwitches, OneThatHasNoRoomIsNamed) {
  ServerOptions small;
  small.softswitch.slot_memory_bytes = 1000;
  const SeveralSwitches switches(3, small);
  const Status status = common_failure(agree_naming(switches.named(), seconds(2)));
  EXPECT_TRUE(contains(status, "switch " + switches.address(2) + " has no slot memory left")) << status.message();
  switches.expect_all_closed();
}

// What the first grants, all must; then it does.
TEST(SeveralNamedSwitches, OneThatGrantsAnotherPayloadIsNamed) {  // [SHARE-1]
  ServerOptions short_ones;
  short_ones.softswitch.max_payload_bytes = 1024;
  const SeveralSwitches switches(2, short_ones);
  const Status status = common_failure(agree_naming(switches.named()));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "switch " + switches.address(1) + " grants 1024 bytes of payload")) << status.message();
  EXPECT_TRUE(contains(status, "SWITCHML_PAYLOAD")) << status.message();
  switches.expect_all_closed();
  for (const auto& rank : agree_naming(switches.named(1)).ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    for (const SessionParameters& session : rank->sessions) EXPECT_EQ(session.payload_bytes, 1024U);
  }
}

// More than a socket has buffers; each may answer once more while a rank speaks to the next.
TEST(SeveralNamedSwitches, FaultsDoNotHinderManyOfThem) {
  const SeveralSwitches switches(40);
  const Outcome outcome =
      agree_naming(switches.named(), seconds(60), 2, "seed=5,send_loss=0.05,receive_loss=0.05,duplicate=0.3");
  for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

/// Both ranks' paths lead off the host, as rank 0 hears it, and carry less than what the switches grant.
TEST(SeveralNamedSwitches, AllAreLeftForAPayloadThatPasses) {  // [PATH-10]
  const SeveralSwitches switches(2);
  Config config = quick_config();
  config.switch_address = switches.named();
  MapStore store;
  const Outcome outcome = agree_each(2, {}, [&](int rank) {
    AlteredStore far(store, rank == 0 ? rank_key("path", 1) : "", [](Blob* path) { path->set("leaves_host", 1); });
    AlteredStore narrow(far, rank == 0 ? rank_key("passes", 1) : "", [](Blob* passes) { passes->set("payload", 512); });
    return agree(config, {rank, 2, "group g"}, narrow, monotonic_now() + seconds(60));
  });
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    for (const SessionParameters& session : rank->sessions) EXPECT_EQ(session.payload_bytes, 512U);
  }
  for (const auto& server : switches.servers) {
    EXPECT_EQ(server->counters().sessions_opened.get(), 2U);
    EXPECT_EQ(server->counters().sessions_closed.get(), 1U);
  }
}

// ---- slots ----

/// A switch with memory for so many slots of 1024 bytes, as elements or as integers, and two ranks whose paths lead off
/// the host, as rank 0 hears it, carry as much in one packet and hold 500 chunks.
struct FarRanks {
  explicit FarRanks(size_t room, int slots = 0, bool integers = false) {
    ServerOptions options;
    options.softswitch.slot_memory_bytes = room * SlotStore::slot_bytes(1024, integers ? 0 : 2);
    server = start_switch(options);
    Config config = quick_config();
    config.switch_address = to_string(server->local());
    config.slots = slots;
    if (integers) config.precision = Precision::kInteger;
    outcome = agree_each(2, {}, [&](int rank) {
      AlteredStore far(store, rank == 0 ? rank_key("path", 1) : "", [](Blob* path) {
        path->set("leaves_host", 1);
        path->set("frame_bytes", 1024 + wire::kExactHeaderBytes);
      });
      const auto fast = [](Blob* speed) { speed->set("chunks", 500); };
      AlteredStore one(far, rank == 0 ? rank_key("speed", 1) : "", fast);
      AlteredStore zero(one, rank == 0 ? rank_key("speed", 0) : "", fast);  // whatever a busy machine measures
      return agree(config, {rank, 2, "group g"}, zero, monotonic_now() + seconds(20));
    });
  }
  /// What both ranks have; 0: something else each, or an error.
  int slots() const {
    for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
    if (!outcome.ranks[0].ok() || !outcome.ranks[1].ok()) return 0;
    const SessionParameters& first = outcome.ranks[0]->sessions[0];
    const SessionParameters& second = outcome.ranks[1]->sessions[0];
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

SessionParameters preset(bool exact) {
  SessionParameters session;
  session.exact = exact;
  session.slots = 128;
  return session;
}

TEST(Agreement, PathsThatHoldMoreGetMoreSlots) {  // [RATE-1, RATE-6]
  for (const bool integers : {false, true}) {
    const FarRanks ranks(10000, 0, integers);
    if (ranks.server->limits().receive_buffer_bytes < 16 << 20) GTEST_SKIP() << "the kernel gives sockets small queues";
    EXPECT_EQ(ranks.slots(), slots_for(500, UINT64_MAX, preset(!integers)));
    EXPECT_EQ(ranks.outcome.ranks[1]->sessions[0].exact, !integers);
    EXPECT_EQ(ranks.opened(), 2U);
    EXPECT_EQ(ranks.closed(), 1U);
  }
}

TEST(Agreement, TheSlotsThatThereAreAreNotGivenUpForFewer) {  // [RATE-6]
  for (const size_t more : {0, 2, 50, 128}) {
    const FarRanks ranks(128 + more);
    if (ranks.server->limits().receive_buffer_bytes < 16 << 20) GTEST_SKIP() << "the kernel gives sockets small queues";
    EXPECT_EQ(ranks.slots(), 128) << more;
    EXPECT_EQ(ranks.opened() - ranks.closed(), 1U) << more;
  }
}

TEST(Agreement, SlotsThatAreNamedStay) {  // [RATE-1]
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
    for (auto& rank : first.ranks) leave(rank->sessions, monotonic_now() + seconds(5));
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
    EXPECT_EQ(rank->sessions[0].switch_endpoint, controller.place());
    EXPECT_EQ(rank->sessions[0].switch_name, to_string(controller.place()) + " (of controller c:1)");
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

TEST(Agreement, SwitchesOfAControllerMayAddElements) {
  const auto server = start_switch();
  FakeController controller;
  controller.move_to(server->local());
  controller.adds_integers = false;
  controller.flags = wire::kOpenTree;
  MapStore store;
  const auto outcome = agree_all(
      2, [](int) { return controlled_config(); }, store, {}, borrowed(controller));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_TRUE(rank->sessions[0].exact);
    EXPECT_TRUE(rank->sessions[0].tree);
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

TEST(Agreement, FaultsDoNotHinderIt) {
  MapStore store;
  Config config = quick_config(seconds(20));
  config.faults = "seed=5,send_loss=0.2,receive_loss=0.2,duplicate=0.2";
  const auto outcome = agree_all(
      3, [&](int) { return config; }, store);
  for (const auto& rank : outcome.ranks) EXPECT_TRUE(rank.ok()) << rank.status().to_string();
}

TEST(Agreement, AControllerWithoutAClientIsAnError) {
  MapStore store;
  const Status status = common_failure(agree_all(
      2, [](int) { return controlled_config(); }, store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_CONTROLLER=\"c:1\"")) << status.message();
}

// ---- ranks that end early ----

/// What rank 1 of 3 reads wrong so that its part ends where others still wait for a word of it.
TEST(Agreement, NobodyWaitsForARankWhosePartEndsEarly) {
  const auto one_reads = [](const std::string& topic, const std::string& key, const std::string& value) {
    return Alteration{1, rank_key(topic, 0), [key, value](Blob* blob) { blob->set(key, value); }};
  };
  const struct {
    Alteration alteration;
    const char* why;
  } cases[] = {
      {one_reads("switch", "switch/0/address", "no address"), "no address"},
      {one_reads("switch", "hosts", "7"), "hosts"},
      {one_reads("plan", "secret0", "none"), "rank 0 sent no secret"},
      {one_reads("plan", "session/0/slots", "1"), "granted a session that this version cannot use"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = agree_altered(3, quick_config(seconds(60)), c.alteration);
    for (size_t rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(outcome.ranks[rank].ok()) << c.why;
      const Status& status = outcome.ranks[rank].status();
      EXPECT_TRUE(contains(status, c.why)) << status.message();
      EXPECT_EQ(contains(status, "rank 1: "), rank != 1) << status.message();
    }
  }
}

/// Rank 0's, too, which has said all that it had to find out.
TEST(Agreement, NobodyWaitsForARankZeroWhosePartEndsEarly) {
  const Alteration alteration{0, rank_key("plan", 0), [](Blob* plan) { plan->set("secret0", "none"); }};
  const Outcome outcome = agree_altered(3, quick_config(seconds(60)), alteration);
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_FALSE(outcome.ranks[rank].ok());
    EXPECT_TRUE(contains(outcome.ranks[rank].status(), rank == 0 ? "rank 0 sent" : "rank 0: rank 0 sent no secret"))
        << outcome.ranks[rank].status().message();
  }
}

}  // namespace
}  // namespace switchml
