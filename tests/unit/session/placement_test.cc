#include "session/placement.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

using List = std::vector<int>;
using Lists = std::vector<List>;

MachineRanks rank_of(int index, int count) { return {index, count, 1, false}; }

/// What ranks tell whose processes may use those processors.
std::vector<ProcessorShare> shares(const std::vector<List>& allowed) {
  std::vector<ProcessorShare> all;
  for (const List& list : allowed) all.push_back({list, {}});
  return all;
}

TEST(MachineRanks, AreThoseOfOneMachineWhateverTheirNetwork) {
  const auto all =
      machine_ranks({"a/1", "b/1", "a/2", "a/1", "b/1"}, shares({{0}, {0}, {1}, {1, 2}, {0}}), {1, 1, 1, 1, 1});
  const char* const expected[] = {"0/3/3/1", "0/2/1/0", "1/3/3/1", "2/3/3/1", "1/2/1/0"};
  for (size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(to_text(all[rank]), expected[rank]);
}

TEST(MachineRanks, BusyPollIfAllTheirThreadsHaveProcessors) {
  const auto may_spin = [](const std::vector<List>& allowed, const List& threads) {
    const std::vector<std::string> hosts(allowed.size(), "a/1");
    const bool may = machine_ranks(hosts, shares(allowed), threads).front().may_spin;
    EXPECT_EQ(machine_ranks(hosts, shares(allowed), threads).front().spin(), may ? kSpin : Duration(0));
    return may;
  };
  EXPECT_TRUE(may_spin({{0}, {1}}, {1, 1}));
  EXPECT_FALSE(may_spin({{0}, {1}}, {2, 1})) << "rank 0 hosts a switch";
  EXPECT_TRUE(may_spin({{0, 2}, {1}}, {2, 1}));
}

TEST(MachineRanks, TravelAsText) {
  for (const char* text : {"0/1/0/0", "2/3/1/1", "1023/1024/8192/0"}) {
    EXPECT_EQ(to_text(read_machine_ranks(text)), text);
  }
  for (const char* bad :
       {"", "/", "3/3/1/0", "1", "0/1/1", "0/0/1/0", "0/1025/1/0", "x/2/1/0", "-1/2/1/0", "0/1/1/2", "0/1/1/0/1"}) {
    EXPECT_EQ(to_text(read_machine_ranks(bad)), "0/1/1/0") << bad;
  }
}

TEST(Placement, AListIsDealtOutInRotation) {
  EXPECT_EQ(place_on({2, 3, 8}, rank_of(0, 1), 2), (Lists{{2}, {3}}));
  EXPECT_EQ(place_on({2, 3, 8}, rank_of(1, 2), 2), (Lists{{8}, {2}}));
  EXPECT_EQ(place_on({5}, rank_of(3, 4), 1), Lists{{5}});
  EXPECT_EQ(place_on({}, rank_of(0, 1), 2), Lists{});
}

TEST(Affinity, AProcessorThatCannotBeHadIsNamed) {
  Config config;
  EXPECT_TRUE(check_affinity(config).ok());
  config.affinity = to_processor_list(allowed_processors());
  EXPECT_TRUE(check_affinity(config).ok());
  config.affinity += ",8191";
  const Status status = check_affinity(config);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "SWITCHML_AFFINITY=\"" + config.affinity +
                                  "\" names processor 8191, on which this process may not run: use some of " +
                                  to_processor_list(allowed_processors()) + ", or off");
}

TEST(Affinity, ReachesTheEngine) {
  Config config;
  EngineOptions options;
  options.session.shards = 2;
  config.affinity = std::to_string(allowed_processors().front());
  place_threads(config, rank_of(0, 1), options.session.shards, &options);
  EXPECT_EQ(options.processors, Lists(2, {allowed_processors().front()}));
  EngineOptions off;
  place_threads(Config(), rank_of(0, 1), off.session.shards, &off);
  EXPECT_EQ(off.processors, Lists{});
}

// The shards of a session of hosts are driven by several ranks, each of which has a place for its own.
TEST(Placement, ARankPlacesTheShardsThatItDrives) {
  Config config;
  const std::vector<int> allowed = allowed_processors();
  ASSERT_FALSE(allowed.empty());
  config.affinity = to_processor_list(allowed);
  for (int index = 0; index < 4; ++index) {
    EngineOptions options;
    options.session.shards = 4;
    place_threads(config, rank_of(index, 4), 1, &options);
    const int expected = allowed[static_cast<size_t>(index) % allowed.size()];
    EXPECT_EQ(options.processors, (std::vector<std::vector<int>>{{expected}}));
  }
}

}  // namespace
}  // namespace switchml
