// Ranks that agree, each in a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fixture.h"
#include "session/agreement.h"
#include "store/store_exchange.h"

namespace switchml {

/// The outcome of every rank that takes part; `absent` ones do not.
struct Outcome {
  std::vector<Result<Agreed>> ranks;
};

/// Every rank agrees in a thread of its own.
inline Outcome agree_each(int size, const std::set<int>& absent, const std::function<Result<Agreed>(int)>& agree_as) {
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

inline Outcome agree_all(int size, const std::function<Config(int)>& config_of, Rendezvous& store,
                         const std::set<int>& absent = {}, std::shared_ptr<ControllerClient> controller = nullptr,
                         Duration timeout = seconds(20)) {
  return agree_each(size, absent, [&](int rank) {
    const Config config = config_of(rank);
    return agree(config, {rank, size, "group g"}, store, monotonic_now() + timeout, controller);
  });
}

inline Config config_over(const std::string& transport) {
  Config config = quick_config(seconds(20));
  config.transport = transport;
  config.interface = "lo";
  return config;
}

/// Each rank of `hosts` ("aab") adds, and looks at its session.
inline void add_on_hosts(const std::string& hosts, const Config& config, const std::string& transport) {
  MapStore store;
  const int size = static_cast<int>(hosts.size());
  each_rank(size, [&](int rank) {
    PlacedStore placed(store, rank, hosts[static_cast<size_t>(rank)]);
    auto session = Session::open(config, {rank, size, "group t"}, placed, monotonic_now() + seconds(60));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    EXPECT_EQ(session.value()->abilities().transport, transport);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{100001}, size_t{3000000}}) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000 + static_cast<size_t>(rank));
      const Status status = all_reduce(*session.value(), &values, seconds(60));
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(values[i], static_cast<float>(size * (static_cast<int>(i % 1000)) + size * (size - 1) / 2)) << i;
      }
    }
  });
}

/// What a rank's host knows of a path that leads off it.
inline void leads_away(Blob* path) {
  path->set("leaves_host", 1);
  path->set("frame_bytes", 1472);
}

/// Ranks of hosts, or of one host and a switch, whose paths are `fast`, as rank 0 hears it.
inline Outcome agree_on_paths(const std::string& hosts, Config config, bool fast, const std::string& why_no_tcp = "") {
  config.transport = "auto";
  const int size = static_cast<int>(hosts.size());
  MapStore store;
  return agree_each(size, {}, [&](int rank) {
    PlacedStore placed(store, rank, hosts[static_cast<size_t>(rank)]);
    AlteredStore far(placed, rank == 0 ? rank_key("path", 1) : "", leads_away);
    const auto speed = [&](int of) {
      return [&, of](Blob* report) {
        report->set("rate", fast ? 100000 : 100);
        report->set("why_no_tcp", of == 1 ? why_no_tcp : "");
      };
    };
    AlteredStore one(far, rank == 0 ? rank_key("speed", 1) : "", speed(1));
    AlteredStore zero(one, rank == 0 ? rank_key("speed", 0) : "", speed(0));
    return agree(config, {rank, size, "group g"}, zero, monotonic_now() + seconds(60));
  });
}

/// All ranks came to sessions over it, with the payload that suits it, and left all others.
inline void expect_carrier(const Outcome& outcome, Carrier carrier) {
  const bool packets = carrier == Carrier::kPackets;
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    for (const SessionParameters& session : rank->sessions) {
      EXPECT_EQ(session.switch_endpoint.carrier, carrier);
      EXPECT_EQ(session.payload_bytes, packets ? 1408U : kMaxPayloadBytes);
      EXPECT_EQ(session.least_chunk_bytes > 0, !packets);
    }
    EXPECT_EQ(rank->transports.size(), rank->sessions.size());
    EXPECT_STREQ(rank->transports[0]->name(), packets ? "udp" : carrier == Carrier::kTcp ? "tcp" : "rdma");
    if (rank->embedded == nullptr) continue;
    const SwitchCounters counters = rank->embedded->counters();
    EXPECT_EQ(counters.sessions_opened.get() - counters.sessions_closed.get(), 1U) << "the other ones were left";
  }
}

/// What one rank reads instead of what another has left there.
struct Alteration {
  int reader;
  std::string key;
  std::function<void(Blob*)> change;
};
inline Outcome agree_altered(int size, const Config& config, const Alteration& alteration) {
  MapStore store;
  return agree_each(size, {}, [&](int rank) {
    AlteredStore altered(store, rank == alteration.reader ? alteration.key : "", alteration.change);
    return agree(config, {rank, size, "group g"}, altered, monotonic_now() + seconds(20));
  });
}
/// Ranks of several hosts: "aab" is two on one and one on another.
inline Outcome agree_on_hosts(const std::string& hosts, const Config& config, Rendezvous& store,
                              const Alteration& alteration = {-1, "", nullptr}, Duration timeout = seconds(20)) {
  const int size = static_cast<int>(hosts.size());
  return agree_each(size, {}, [&](int rank) {
    PlacedStore placed(store, rank, hosts[static_cast<size_t>(rank)]);
    AlteredStore altered(placed, rank == alteration.reader ? alteration.key : "", alteration.change);
    return agree(config, {rank, size, "group g"}, altered, monotonic_now() + timeout);
  });
}
/// Rank 0 hears something else in rank 1's hello.
inline Alteration other_hello(const std::string& key, const std::string& value) {
  return {0, rank_key("hello", 1), [key, value](Blob* hello) { hello->set(key, value); }};
}

/// All failed, with the same message, which is returned.
inline Status common_failure(const Outcome& outcome) {
  for (const auto& rank : outcome.ranks) {
    EXPECT_FALSE(rank.ok());
    if (rank.ok()) return {};
    EXPECT_EQ(rank.status().to_string(), outcome.ranks[0].status().to_string());
  }
  return outcome.ranks[0].status();
}

}  // namespace switchml
