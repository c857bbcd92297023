// Sessions over TCP: where it is named, and where the paths are for it.
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "agree_each.h"
#include "path/path_report.h"

namespace switchml {
namespace {

Config over_tcp() { return config_over("tcp"); }

TEST(SessionOverTcp, AddsThroughASwitchInRankZero) {
  for (const char* precision : {"auto", "integer"}) {
    SCOPED_TRACE(precision);
    Config config = over_tcp();
    if (std::string(precision) == "integer") config.precision = Precision::kInteger;
    add_on_hosts("aaa", config, "tcp");
  }
}

TEST(SessionOverTcp, AddsThroughEachHost) {
  add_on_hosts("abc", over_tcp(), "tcp");
  add_on_hosts("aabbb", over_tcp(), "shm+tcp");
  Config shards = over_tcp();
  shards.shards = 2;
  add_on_hosts("ab", shards, "tcp");
}

TEST(SessionOverTcp, AddsThroughSwitchesThatAreNamed) {
  const auto one = start_switch(), other = start_switch();
  Config config = over_tcp();
  config.switch_address = to_string(one->local());
  add_on_hosts("aa", config, "tcp");
  config.switch_address += "*2," + to_string(other->local());
  add_on_hosts("aa", config, "tcp");
  EXPECT_GT(one->counters().uses_completed.get(), other->counters().uses_completed.get());
  EXPECT_GT(other->counters().uses_completed.get(), 0U);
}

TEST(SessionOverTcp, AddsOverFaults) {  // [TCP-7]
  Config config = over_tcp();
  config.faults = "seed=3,send_loss=0.02,receive_loss=0.02,duplicate=0.02,delay=0.02";
  MapStore store;
  each_rank(2, [&](int rank) {
    auto session = Session::open(config, {rank, 2, "group t"}, store, monotonic_now() + seconds(60));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    std::vector<float> values(200000, static_cast<float>(rank + 1));
    const Status status = all_reduce(*session.value(), &values, seconds(60));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(values, std::vector<float>(200000, 3.0F));
  });
}

TEST(SessionOverTcp, WaitsForASwitchThatStartsLater) {
  const Endpoint place = closed_port();
  Config config = over_tcp();
  config.switch_address = to_string(place);
  std::unique_ptr<SwitchServer> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(milliseconds(700));
    late = start_switch({}, to_string(place));
  });
  add_on_hosts("aa", config, "tcp");
  starter.join();
}

TEST(SessionOverTcp, NamesASwitchThatTakesNoConnection) {
  Config config = over_tcp();
  config.connect_timeout = milliseconds(300);
  config.switch_address = to_string(closed_port());
  MapStore store;
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "cannot connect to switch " + config.switch_address + "/tcp: Connection refused"))
      << status.message();
}

// ---- chosen ----

TEST(TcpIsChosen, WhereLinksAreFast) {  // [RATE-7]
  const auto server = start_switch();
  Config named = over_tcp();
  named.switch_address = to_string(server->local());
  expect_carrier(agree_on_paths("aa", named, true), Carrier::kTcp);
  EXPECT_EQ(server->counters().sessions_opened.get(), 2U);
  EXPECT_EQ(server->counters().sessions_closed.get(), 1U);
}

TEST(TcpIsChosen, FromTheStartWherePacketsDoNotPass) {
  const Alteration deaf{0, rank_key("path", 1), [](Blob* path) { path->set("tcp_alone", "a switch"); }};
  for (const std::string hosts : {"ab", "abc"}) {
    MapStore store;
    expect_carrier(agree_on_hosts(hosts, over_tcp(), store, deaf), Carrier::kTcp);
  }
  MapStore store;
  Config named = over_tcp();
  named.payload_bytes = 1408;
  for (const auto& rank : agree_on_hosts("ab", named, store, deaf).ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->sessions[0].switch_endpoint.carrier, Carrier::kTcp);
    EXPECT_EQ(rank->sessions[0].payload_bytes, 1408U);
  }
}

TEST(TcpIsChosen, NotForIntegersFaultsOrAPayloadThatIsNamed) {  // [RATE-1, RATE-7]
  Config integers = over_tcp();
  integers.precision = Precision::kInteger;
  const auto outcome = agree_on_paths("ab", integers, true);
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->sessions[0].switch_endpoint.carrier, Carrier::kPackets);
  }
  Config faulty = over_tcp();
  faulty.faults = "seed=1";
  expect_carrier(agree_on_paths("ab", faulty, true), Carrier::kPackets);
  Config named = over_tcp();
  named.payload_bytes = 1408;
  expect_carrier(agree_on_paths("ab", named, true), Carrier::kPackets);
}

}  // namespace
}  // namespace switchml
