#include "session/place.h"

#include <gtest/gtest.h>

#include "agree_each.h"
#include "base/processors.h"
#include "client/control_client.h"
#include "client/switch_entry.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "socket/sockaddr.h"

namespace switchml {
namespace {

TEST(Place, AWrongAddressIsNamedOnAll) {
  MapStore store;
  Config config = quick_config(seconds(1));
  config.switch_address = to_string(closed_port());
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "switch " + config.switch_address + " does not answer")) << status.message();
  EXPECT_TRUE(contains(status, "switchml-switchd")) << status.message();
}

TEST(Place, AnImpossibleAddressIsRefusedOnAll) {
  MapStore store;
  Config config = quick_config();
  config.switch_address = "10.0.0.1:notaport";
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_SWITCH=\"10.0.0.1:notaport\"")) << status.message();
}

TEST(Place, OtherVersionsAreNamed) {
  Status status = common_failure(agree_altered(2, quick_config(), other_hello("protocol", "9")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  const std::string ours = "rank 0 has \"" + std::to_string(wire::kVersion) + "\"";
  EXPECT_TRUE(contains(status, "rank 1 has protocol version \"9\" but " + ours)) << status.message();
  status = common_failure(agree_altered(2, quick_config(), other_hello("package", "99.0")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has switchml version \"99.0\"")) << status.message();
}

TEST(Place, ALoopbackSwitchCannotServeSeveralHosts) {
  Config config = quick_config();
  config.switch_address = "127.0.0.1:5";
  const Status status = common_failure(agree_altered(2, config, other_hello("host", "another host")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "loopback")) << status.message();
}

// ---- memory ----

Config memory_config(const std::string& transport, Duration timeout = seconds(10)) {
  Config config = preset_config(timeout);
  config.transport = transport;
  return config;
}

/// Whether ranks may busy-poll that run on those processors, the i-th rank on the i-th of them, and on no others.
bool may_spin_on(const std::vector<int>& processors, const Config& config) {
  MapStore store;
  const int size = static_cast<int>(processors.size());
  const Outcome outcome = agree_each(size, {}, [&](int rank) {
    EXPECT_TRUE(run_on({processors[static_cast<size_t>(rank)]}));  // in a thread of its own
    return agree(config, {rank, size, "group g"}, store, monotonic_now() + seconds(60));
  });
  int spinning = 0;
  for (const auto& rank : outcome.ranks) {
    EXPECT_TRUE(rank.ok()) << rank.status().to_string();
    if (rank.ok() && rank->local.may_spin) ++spinning;
  }
  EXPECT_TRUE(spinning == 0 || spinning == size) << "all decide alike";
  return spinning > 0;
}

TEST(Place, RanksBusyPollIfTheyHaveAProcessorEachWhateverTheirMasks) {
  const ProcessorShare own = own_processors();
  const int first = own.allowed.front();
  const int last = own.allowed.back();
  const bool enough = all_run_at_once({{{first}, own.quotas}, {{last}, own.quotas}}, {1, 1});
  const auto server = start_switch();
  Config at_switch = quick_config();
  at_switch.switch_address = to_string(server->local());
  for (const Config& config : {memory_config("auto"), at_switch}) {
    EXPECT_FALSE(may_spin_on({first, first}, config));
    EXPECT_EQ(may_spin_on({first, last}, config), enough);
  }
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
    EXPECT_EQ(rank.memory->size(), zero.memory->size());
    EXPECT_GE(rank.memory->size(), shm::shape_for(size).bytes());
    EXPECT_EQ(rank.memory->fd(), -1) << "rank " << i << " keeps a descriptor that nobody needs";
    EXPECT_TRUE(rank.transports.empty());
    EXPECT_EQ(rank.embedded, nullptr);
    EXPECT_EQ(rank.sessions[0].worker, i);
    EXPECT_EQ(rank.sessions[0].workers, size);
    EXPECT_EQ(rank.sessions[0].shards, 1);
    EXPECT_EQ(rank.sessions[0].slots, shm::shape_for(size).slots);
    EXPECT_EQ(rank.sessions[0].payload_bytes, shm::shape_for(size).chunk_bytes);
    EXPECT_EQ(rank.sessions[0].switch_name, "memory of this host");
    EXPECT_EQ(rank.watch_meeting.listener.valid(), i == 0);
    EXPECT_NE(rank.watch_meeting.number(), 0U);
    EXPECT_EQ(rank.watch_meeting.number(), zero.watch_meeting.number());
    if (i > 0) {
      EXPECT_EQ(to_string(rank.watch_meeting.address), to_string(local_endpoint(zero.watch_meeting.listener.get())));
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
    EXPECT_NE(rank->sessions[0].switch_name.find("embedded in rank 0"), std::string::npos);
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
  const auto outcome = agree_altered(2, config, other_hello("host", "another host"));
  for (size_t i = 0; i < outcome.ranks.size(); ++i) {
    const auto& rank = outcome.ranks[i];
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr) << "rank " << i;
    EXPECT_NE(rank->embedded, nullptr) << "rank " << i << "'s host has a part";
    EXPECT_EQ(rank->transports.size(), 2U);
    ASSERT_EQ(rank->sessions.size(), 2U);
    EXPECT_NE(rank->sessions[0].switch_name.find("embedded in rank 0"), std::string::npos);
    EXPECT_NE(rank->sessions[1].switch_name.find("embedded in rank 1"), std::string::npos);
    EXPECT_EQ(rank->sessions[1].worker, static_cast<int>(i));
  }
  config.precision = Precision::kInteger;
  expect_embedded_switch(agree_altered(2, config, other_hello("host", "another host")));
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
    auto offer = offer_memory(shm::shape_for(3), 0, &blob);
    ASSERT_TRUE(offer.ok()) << offer.status().to_string();
    if (!hands_out) offer->segment_server.reset();
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
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "rank 1 (") && contains(status, "is gone")) << status.message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
}

// ---- no switch is named, and the hosts are several ----

/// Hosts that reach each other over loopback.
Config config_on_hosts(const std::string& transport) {
  Config config = memory_config(transport);
  config.interface = "lo";
  return config;
}

/// Rank `rank` of those in `hosts` hosts an aggregator exactly if it is the first one of its host.
bool is_leader(const std::string& hosts, size_t rank) { return hosts.find(hosts[rank]) == rank; }

/// Every host's first rank has an aggregator, and all ranks have a session with each, in the order of hosts.
void expect_part_of_each_host(const Outcome& outcome, const std::string& hosts) {
  std::vector<const Agreed*> leaders;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    ASSERT_TRUE(outcome.ranks[rank].ok()) << outcome.ranks[rank].status().to_string();
    const Agreed& agreed = *outcome.ranks[rank].operator->();
    ASSERT_EQ(agreed.embedded != nullptr, is_leader(hosts, rank)) << "rank " << rank;
    EXPECT_EQ(agreed.memory != nullptr, agreed.hosts.ranks() > 0) << "of the host";
    if (is_leader(hosts, rank)) leaders.push_back(&agreed);
  }
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const std::vector<SessionParameters> sessions = outcome.ranks[rank]->sessions;
    ASSERT_EQ(sessions.size(), leaders.size());
    for (size_t host = 0; host < sessions.size(); ++host) {
      const SessionParameters& session = sessions[host];
      const SessionParameters of_leader = leaders[host]->sessions[host];
      EXPECT_EQ(session.switch_endpoint, leaders[host]->embedded->local());
      EXPECT_TRUE(session.exact);
      EXPECT_EQ(session.weight, 1U);
      EXPECT_EQ(session.job, of_leader.job);
      EXPECT_EQ(session.epoch, of_leader.epoch);
      EXPECT_EQ(session.session_key, of_leader.session_key);
      EXPECT_EQ(session.secret[0], sessions[0].secret[0]);
      EXPECT_EQ(session.payload_bytes, sessions[0].payload_bytes);
      EXPECT_EQ(session.worker, sessions[0].worker);
      EXPECT_EQ(session.workers, sessions[0].workers);
      EXPECT_EQ(session.shards, sessions[0].shards);
    }
  }
  for (const Agreed* leader : leaders) {
    const SwitchCounters counters = leader->embedded->counters();
    EXPECT_EQ(counters.sessions_opened.get(), 1U);
    EXPECT_EQ(counters.sessions_closed.get(), 0U);
  }
}

TEST(EveryHost, HasAnAggregatorInItsFirstRank) {
  for (const std::string hosts : {"ab", "abab", "aaabc", "abbcc"}) {
    for (const char* transport : {"auto", "udp"}) {
      SCOPED_TRACE(hosts + " " + transport);
      MapStore store;
      const Outcome outcome = agree_on_hosts(hosts, config_on_hosts(transport), store);
      expect_part_of_each_host(outcome, hosts);
      for (size_t rank = 0; rank < hosts.size() && outcome.ranks[rank].ok(); ++rank) {
        const auto sessions = outcome.ranks[rank]->sessions;
        const bool of_hosts = std::string(transport) == "auto" && hosts != "ab";
        EXPECT_EQ(sessions[0].workers, static_cast<int>(of_hosts ? sessions.size() : hosts.size()));
        EXPECT_EQ(outcome.ranks[rank]->hosts.ranks() > 0, of_hosts);
      }
    }
  }
}

TEST(EveryHost, InvitesItsGroupOnly) {
  MapStore store;
  const Outcome outcome = agree_on_hosts("ab", config_on_hosts("udp"), store);
  expect_part_of_each_host(outcome, "ab");
  uint64_t keys[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    const auto said = Blob::parse(store.get(rank_key("aggregator", rank), monotonic_now()).value());
    ASSERT_TRUE(said.ok());
    ASSERT_TRUE(said->number("client_key", UINT64_MAX, &keys[rank]));
    EXPECT_NE(keys[rank], 0U);
  }
  EXPECT_NE(keys[0], keys[1]);
  for (const auto& rank : outcome.ranks) {
    const Endpoint at = rank->embedded->local();
    auto link = connect_to_switch(at, rank->sessions.front().seal);
    ASSERT_TRUE(link.ok()) << link.status().to_string();
    ControlClient client(*link.value(), at, "embedded");
    wire::Open asked;
    asked.client_key = keys[0] ^ keys[1];
    asked.workers = asked.shards = 1;
    asked.payload = 1024;
    const Status refused = client.open(asked, monotonic_now() + seconds(20)).status();
    EXPECT_TRUE(contains(refused, "serves another group")) << refused.to_string();
  }
}

// Its address is gone between its hello and the place.
TEST(EveryHost, AnAggregatorThatCannotStartIsToldToAll) {
  for (const std::string hosts : {"abc", "aab"}) {
    MapStore store;
    const Alteration gone{2, rank_key("switch", 0), [](Blob* place) { place->set("address/2", "192.0.2.1"); }};
    const Status status = common_failure(agree_on_hosts(hosts, config_on_hosts("udp"), store, gone, seconds(60)));
    EXPECT_TRUE(contains(status, "rank 2 cannot add a part for its host: ")) << status.message();
    EXPECT_TRUE(contains(status, "192.0.2.1")) << status.message();
  }
}

/// Rank 1 is on another machine, with this address alone.
Outcome agree_with_host_at(const std::string& address, Config config) {
  return agree_altered(2, config, {0, rank_key("hello", 1), [address](Blob* hello) {
                                     hello->set("host", "another-machine/4026531840");
                                     for (const char* key : {"candidates", "sources"}) hello->set(key, address);
                                   }});
}

TEST(EveryHost, OneAddressOfTwoHostsIsAnErrorOfAllAtOnce) {
  Config config = config_on_hosts("auto");
  config.connect_timeout = seconds(3600);
  const Status status = common_failure(agree_with_host_at("127.0.0.1", config));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  for (const char* part : {"rank 0, rank 1", "127.0.0.1", "SWITCHML_INTERFACE"})
    EXPECT_TRUE(contains(status, part)) << status.message();
}

TEST(EveryHost, ANamedSwitchNeedsNoAddressOfTheHosts) {
  Config config = quick_config();
  config.interface = "lo";
  const auto server = start_for_all(&config);
  const auto outcome = agree_with_host_at("127.0.0.1", config);
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->sessions[0].own_address.size, 0);
    EXPECT_FALSE(rank->watch_meeting.listener.valid());
  }
}

/// What rank 2 reads wrong, so that its part ends where others still wait.
TEST(EveryHost, NobodyWaitsForARankWhosePartEndsEarly) {
  const auto two_reads = [](const std::string& topic, int of, const std::string& key, const std::string& value) {
    return Alteration{2, rank_key(topic, of), [key, value](Blob* blob) { blob->set(key, value); }};
  };
  const struct {
    Alteration alteration;
    const char* why;
  } cases[] = {
      {two_reads("switch", 0, "each_host", "7"), "hosts"},
      {two_reads("aggregators", 0, "switch/0/address", "nowhere"), "address \"nowhere\""},
      {two_reads("aggregators", 0, "switch/1/weight", "0"), "announced no switch"},
      {two_reads("aggregators", 0, "switches", "2"), "other aggregators than those of the hosts"},
      {two_reads("plan", 0, "session/2/slots", "1"), "granted a session that this version cannot use"},
  };
  for (const auto& c : cases) {
    MapStore store;
    const Outcome outcome = agree_on_hosts("abc", config_on_hosts("udp"), store, c.alteration, seconds(60));
    for (size_t rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(outcome.ranks[rank].ok()) << c.why;
      const Status& status = outcome.ranks[rank].status();
      EXPECT_TRUE(contains(status, c.why)) << status.message();
      EXPECT_EQ(contains(status, "rank 2: "), rank != 2) << status.message();
    }
  }
}

// It has said hello, and then it dies.
TEST(EveryHost, ALeaderThatDiesIsNamed) {
  MapStore scratch;
  agree_on_hosts("ab", config_on_hosts("udp"), scratch);
  MapStore store;
  ASSERT_TRUE(store.set(rank_key("hello", 1), scratch.get(rank_key("hello", 1), monotonic_now()).value()).ok());
  const auto zero = agree_each(2, {1}, [&](int rank) {
    PlacedStore placed(store, rank, 'a');
    return agree(config_on_hosts("udp"), {rank, 2, "group g"}, placed, monotonic_now() + seconds(2));
  });
  const Status status = zero.ranks[0].status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(contains(status, "rank 1 of group g did not add a part for its host within")) << status.message();
}

TEST(EveryHost, AddressesOfTwoFamiliesAreRefused) {
  MapStore store;
  const Outcome outcome = agree_on_hosts(
      "ab", config_on_hosts("udp"), store,
      {0, rank_key("aggregator", 1), [](Blob* blob) { blob->set("address", "[::1]:4000"); }}, seconds(60));
  ASSERT_FALSE(outcome.ranks[0].ok());
  EXPECT_TRUE(contains(outcome.ranks[0].status(), "IPv4 and of IPv6")) << outcome.ranks[0].status().message();
  EXPECT_FALSE(outcome.ranks[1].ok());
}

}  // namespace
}  // namespace switchml
