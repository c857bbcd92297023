// How often ranks write to the store and read it while they open a group, as their number grows.
#include <gtest/gtest.h>

#include <numeric>

#include "agree_each.h"

namespace switchml {
namespace {

/// Counts what one rank writes, and the keys that it asks for: how often it asks for one depends on time.
class CountingStore : public Rendezvous {
 public:
  explicit CountingStore(Rendezvous& below) : below_(below) {}
  Status set(const std::string& key, const std::string& value) override {
    ++writes;
    return below_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    asked.insert(key);
    return below_.get(key, deadline);
  }
  Result<std::vector<std::string>> get_all(const std::vector<std::string>& keys) override {
    asked.insert(keys.begin(), keys.end());
    return below_.get_all(keys);
  }
  size_t writes = 0;
  std::set<std::string> asked;

 private:
  Rendezvous& below_;
};

struct Use {
  size_t writes = 0, reads = 0;
};

/// Of all ranks together, which are spread over so many hosts.
Use use_of(int ranks, int hosts, const Config& config) {
  MapStore store;
  std::vector<Use> uses(static_cast<size_t>(ranks));
  each_rank(ranks, [&](int rank) {
    CountingStore counting(store);
    PlacedStore placed(counting, rank, static_cast<char>('0' + rank * hosts / ranks));
    Rendezvous& own = hosts > 1 ? static_cast<Rendezvous&>(placed) : counting;
    const auto session = Session::open(config, {rank, ranks, "group t"}, own, monotonic_now() + seconds(600));
    EXPECT_TRUE(session.ok()) << session.status().to_string();
    uses[static_cast<size_t>(rank)] = {counting.writes, counting.asked.size()};
  });
  return std::accumulate(uses.begin(), uses.end(), Use(), [](const Use& sum, const Use& one) {
    return Use{sum.writes + one.writes, sum.reads + one.reads};
  });
}

/// They are at most so many for each rank, however many ranks there are.
void expect_use(const std::function<int(int)>& hosts_of, const Config& config, Use each) {
  for (const int ranks : {4, 8, 16, 32, 64}) {
    const Use use = use_of(ranks, hosts_of(ranks), config);
    EXPECT_LE(use.writes, static_cast<size_t>(ranks) * each.writes) << ranks;
    EXPECT_LE(use.reads, static_cast<size_t>(ranks) * each.reads) << ranks;
  }
}

Config patient(Config config) {
  config.connect_timeout = seconds(300);
  return config;
}

TEST(StoreUse, OnOneHost) {
  expect_use([](int) { return 1; }, patient(preset_config()), {4, 8});
}

TEST(StoreUse, OnHostsOfSeveralRanks) {
  expect_use([](int ranks) { return ranks / 4 + 1; }, patient(config_over("auto")), {7, 12});
}

TEST(StoreUse, OnHostsOfOneRank) {
  expect_use([](int ranks) { return ranks; }, patient(config_over("udp")), {7, 12});
}

}  // namespace
}  // namespace switchml
