#include "failover/standby.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/switches.h"
#include "socket/sockaddr.h"
#include "store/map_store.h"
#include "store/store_exchange.h"
#include "wire/control.h"

namespace switchml {
namespace {

/// Ranks whose hosts are "aab": two on one and one on another. What `reader` hears under `key` is changed.
struct Group {
  explicit Group(const std::string& hosts) : size(static_cast<int>(hosts.size())) {
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts.find(hosts[rank]) == rank) leaders.push_back(static_cast<int>(rank));
    }
    lost.switch_endpoint = closed_port();
    lost.own_address = with_port(lost.switch_endpoint, 0);  // on loopback
    lost.switch_name = "s";
    lost.shards = 2;
    lost.slots = 64;
    lost.payload_bytes = 1024;
    lost.workers = size;
    lost.exact = true;
    config.shards = 2;
  }
  std::vector<Status> start() {
    std::vector<Status> outcomes(static_cast<size_t>(size));
    all.resize(static_cast<size_t>(size));
    each_rank(size, [&](int rank) {
      AlteredStore seen(store, rank == reader ? key : "", change);
      StoreChannel channel(seen, rank, for_seconds(10));
      SessionParameters mine = lost;
      mine.worker = rank;
      auto& standby = all[static_cast<size_t>(rank)];
      standby = std::make_unique<Standby>(config, GroupInfo{rank, size, "g"}, leaders, mine, channel, 4);
      outcomes[static_cast<size_t>(rank)] = standby->start();
    });
    return outcomes;
  }
  void end() {
    each_rank(size, [&](int rank) { all[static_cast<size_t>(rank)].reset(); });
  }
  std::vector<std::string> places() {
    std::vector<std::string> found;
    for (const int leader : leaders) {
      const auto text = store.get(rank_key("standby/4/place", leader), monotonic_now());
      found.push_back(Blob::parse(text.value())->text("address"));
    }
    return found;
  }

  const int size;
  std::vector<int> leaders;
  SessionParameters lost;
  Config config = quick_config();
  MapStore store;
  int reader = -1;
  std::string key;
  std::function<void(Blob*)> change;
  std::vector<std::unique_ptr<Standby>> all;
};

void expect_the_same_session(bool sealed) {
  Group group("aabcc");
  group.lost.seals_ranks = sealed;
  for (const Status& status : group.start()) ASSERT_TRUE(status.ok()) << status.to_string();
  const auto places = group.places();
  ASSERT_EQ(places.size(), 3U);
  EXPECT_NE(places[0], places[1]);
  const Route route = group.all[0]->route();
  std::vector<Transports> links;
  for (auto& standby : group.all) {
    EXPECT_EQ(standby->route().epoch, route.epoch);
    EXPECT_EQ(standby->route().session_key, route.session_key);
    EXPECT_EQ(standby->route().switch_endpoint.size, 0);
    EXPECT_EQ(standby->route().seal.has_value(), sealed);
    EXPECT_EQ(standby->route().seal, route.seal);
    EXPECT_FALSE(standby->route().controlled);
    links.push_back(standby->take_transports());
    EXPECT_EQ(links.back().size(), 2U);
  }
  // Each of them knows every rank, and says so to rank 0.
  for (const std::string& place : places) {
    const Endpoint endpoint = literal_address(place, 0).value();
    Transport& link = *links[0][1];
    SessionParameters member = group.lost;
    static_cast<Route&>(member) = route;
    uint8_t frame[wire::kMaxControlBytes];
    const auto size = static_cast<uint32_t>(wire::build_probe(member.membership(), 0, 1, 77, frame));
    const TxFrame tx{frame, size, &endpoint};
    wire::Reply reply;
    for (int tries = 0; tries < 100 && reply.request_id != 77; ++tries) {
      link.send(&tx, 1);
      link.wait(milliseconds(100));
      RxFrame answer;
      if (link.receive(&answer, 1) == 1) wire::parse_reply(answer.data, answer.size, &reply);
      link.release();
    }
    EXPECT_EQ(reply.status, wire::ReplyStatus::kOk);
    EXPECT_EQ(reply.probe.joined_low, 0b11111U) << place;
  }
  links.clear();
  group.end();
}

TEST(Standby, EachHostHasASwitchAndAllHaveTheSameSession) { expect_the_same_session(false); }  // [MOVE-6]
TEST(Standby, LinksAreSealedWhereRanksSealWhatTheySendEachOther) { expect_the_same_session(true); }

TEST(Standby, WhatOneHostCannotDoIsAnErrorOfAll) {
  const struct {
    const char* topic;
    const char* key;
    const char* value;
    const char* why;
  } cases[] = {{"keys", "seed", "none", "no keys"},
               {"place", "address", "nowhere", "nowhere"},
               {"session", "slots", "1", "granted a session that this version cannot use"},
               {"session", "flags", "0", "add otherwise"}};
  for (const auto& c : cases) {
    Group group("ab");
    group.reader = 1;
    group.key = rank_key(std::string("standby/4/") + c.topic, 0);
    group.change = [&c](Blob* blob) { blob->set(c.key, c.value); };
    const auto outcomes = group.start();
    for (const Status& status : outcomes) {
      ASSERT_FALSE(status.ok()) << c.topic;
      EXPECT_NE(status.message().find(c.why), std::string::npos) << status.message();
    }
    EXPECT_EQ(outcomes[0].message().rfind("rank 1: ", 0), 0U) << outcomes[0].message();
    group.end();
  }
}

}  // namespace
}  // namespace switchml
