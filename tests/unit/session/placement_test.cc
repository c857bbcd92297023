#include "session/placement.h"

#include <gtest/gtest.h>

#include "base/processors.h"

namespace switchml {
namespace {

using List = std::vector<int>;
using Lists = std::vector<List>;

MachineRanks rank_of(int index, int count, int switches = 0) {
  MachineRanks local;
  local.index = index;
  local.count = count;
  local.switches = switches;
  return local;
}

TEST(MachineRanks, AreThoseOfOneMachineWhateverTheirNetwork) {
  const std::vector<std::string> hosts = {"a/1", "b/1", "a/2", "a/1", "b/1"};
  EXPECT_EQ(to_text(machine_ranks(hosts, 0, {0})), "0/3+1");
  EXPECT_EQ(to_text(machine_ranks(hosts, 1, {0})), "0/2+0");
  EXPECT_EQ(to_text(machine_ranks(hosts, 2, {0, 1, 2})), "1/3+2");
  EXPECT_EQ(to_text(machine_ranks(hosts, 3, {})), "2/3+0");
  EXPECT_EQ(to_text(machine_ranks(hosts, 4, {0, 1, 2})), "1/2+1");
  EXPECT_EQ(rank_of(0, 3, 1).engine_threads(2), 7);
}

TEST(MachineRanks, ThatShareMemoryHaveMoreThreads) {
  EXPECT_EQ(rank_of(0, 2).memory_threads(2, 2), 4);
  EXPECT_EQ(rank_of(0, 8, 1).memory_threads(8, 4), 13);
  EXPECT_EQ(rank_of(0, 6).memory_threads(3, 2), 10) << "two hosts of three ranks on one machine";
  EXPECT_EQ(rank_of(0, 5).memory_threads(3, 1), 7) << "and one of them has two";
}

TEST(MachineRanks, TravelAsText) {
  for (const char* text : {"0/1+0", "2/3+1", "127/128+128"}) EXPECT_EQ(to_text(read_machine_ranks(text)), text);
  for (const char* bad :
       {"", "+", "3/3+0", "1", "/+", "0/0+0", "0/129+0", "x/2+0", "-1/2+0", "0/1++", "0/1", "0/1+129"}) {
    EXPECT_EQ(to_text(read_machine_ranks(bad)), "0/1+0") << bad;
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
  EngineOptions more;
  place_threads(Config(), rank_of(0, 1000), more.session.shards, &more);
  EXPECT_EQ(more.processors, Lists{});
  EXPECT_EQ(more.spin, Duration(0)) << "a thousand ranks on one machine";
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
