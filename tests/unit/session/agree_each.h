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
