#include "session/placement.h"

#include <gtest/gtest.h>

#include "base/processors.h"
#include "socket/address.h"
#include "temporary_tree.h"

namespace switchml {
namespace {

using List = std::vector<int>;
using Lists = std::vector<List>;

List range(int first, int last) {
  List list;
  for (int i = first; i <= last; ++i) list.push_back(i);
  return list;
}

/// Two nodes of four cores with two threads each, numbered as Linux does: 0-3 and 8-11, 4-7 and 12-15.
TemporaryTree& two_nodes(TemporaryTree& tree) {
  tree.file("/sys/devices/system/cpu/online", "0-15\n");
  tree.file("/sys/devices/system/node/online", "0-1\n");
  tree.file("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
  tree.file("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
  for (int core = 0; core < 8; ++core) {
    for (const int cpu : {core, core + 8}) {
      tree.file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                std::to_string(core) + "," + std::to_string(core + 8) + "\n");
    }
  }
  tree.file("/sys/class/net/eth0/device/numa_node", "1\n");
  tree.file("/sys/class/net/eth1/device/numa_node", "-1\n");
  tree.file("/sys/class/net/veth0/mtu", "1500\n");
  return tree;
}

PlacementInput input(const LocalRanks& local, int shards = 1, int node = 1) {
  TemporaryTree tree;
  PlacementInput in;
  in.machine = read_machine(two_nodes(tree).root());
  in.node = node;
  in.allowed = range(0, 15);
  in.concurrent = 16;
  in.local = local;
  in.shards = shards;
  return in;
}
LocalRanks rank_of(int index, int count, int switches = 0) {
  LocalRanks local;
  local.index = index;
  local.count = count;
  local.switches = switches;
  return local;
}

TEST(Machine, ThreadsOfACoreAreNeighbours) {
  TemporaryTree tree;
  const Machine machine = read_machine(two_nodes(tree).root());
  EXPECT_EQ(machine.online, range(0, 15));
  EXPECT_EQ(machine.nodes, (Lists{{0, 8, 1, 9, 2, 10, 3, 11}, {4, 12, 5, 13, 6, 14, 7, 15}}));
}

TEST(Machine, WhatIsOfflineOrMissingIsLeftOut) {
  TemporaryTree tree;
  two_nodes(tree).file("/sys/devices/system/cpu/online", "0-3\n");
  tree.file("/sys/devices/system/node/online", "0-1,3\n");
  const Machine machine = read_machine(tree.root());
  EXPECT_EQ(machine.nodes, (Lists{{0, 1, 2, 3}, {}, {}, {}}));
  EXPECT_TRUE(read_machine("/nowhere").online.empty());
  EXPECT_TRUE(read_machine("/nowhere").nodes.empty());
}

TEST(Machine, IsThisOneToo) {
  const Machine machine = read_machine();
  const List allowed = allowed_processors();
  EXPECT_TRUE(std::includes(machine.online.begin(), machine.online.end(), allowed.begin(), allowed.end()));
}

TEST(Interface, TellsItsNode) {
  TemporaryTree tree;
  two_nodes(tree);
  EXPECT_EQ(node_of_interface("eth0", tree.root()), 1);
  for (const char* name : {"eth1", "veth0", "none", "", "../net/eth0"}) {
    EXPECT_EQ(node_of_interface(name, tree.root()), -1) << name;
  }
  EXPECT_EQ(interface_of(resolve_address("127.0.0.1:5", "test").value()), "lo");
  EXPECT_EQ(interface_of(resolve_address("203.0.113.5:5", "test").value()), "");
}

TEST(LocalRanks, AreThoseOfOneMachineWhateverTheirNetwork) {
  const std::vector<std::string> hosts = {"a/1", "b/1", "a/2", "a/1", "b/1"};
  EXPECT_EQ(to_text(local_ranks(hosts, 0, {0})), "0/3+1");
  EXPECT_EQ(to_text(local_ranks(hosts, 1, {0})), "0/2+0");
  EXPECT_EQ(to_text(local_ranks(hosts, 2, {0, 1, 2})), "1/3+2");
  EXPECT_EQ(to_text(local_ranks(hosts, 3, {})), "2/3+0");
  EXPECT_EQ(to_text(local_ranks(hosts, 4, {0, 1, 2})), "1/2+1");
  EXPECT_EQ(rank_of(0, 3, 1).engine_threads(2), 7);
}

TEST(LocalRanks, ThatShareMemoryHaveMoreThreads) {
  EXPECT_EQ(rank_of(0, 2).memory_threads(2, 2), 4);
  EXPECT_EQ(rank_of(0, 8, 1).memory_threads(8, 4), 13);
  EXPECT_EQ(rank_of(0, 6).memory_threads(3, 2), 10) << "two hosts of three ranks on one machine";
  EXPECT_EQ(rank_of(0, 5).memory_threads(3, 1), 7) << "and one of them has two";
}

TEST(LocalRanks, TravelAsText) {
  for (const char* text : {"0/1+0", "2/3+1", "127/128+128"}) EXPECT_EQ(to_text(read_local_ranks(text)), text);
  for (const char* bad :
       {"", "+", "3/3+0", "1", "/+", "0/0+0", "0/129+0", "x/2+0", "-1/2+0", "0/1++", "0/1", "0/1+129"}) {
    EXPECT_EQ(to_text(read_local_ranks(bad)), "0/1+0") << bad;
  }
}

TEST(Placement, RanksShareTheNodeOfTheInterface) {
  EXPECT_EQ(place_automatically(input(rank_of(0, 1))), (Lists{{4, 5, 6, 7, 12, 13, 14, 15}}));
  EXPECT_EQ(place_automatically(input(rank_of(0, 2))), (Lists{{4, 5, 12, 13}})) << "whole cores";
  EXPECT_EQ(place_automatically(input(rank_of(1, 2), 2)), (Lists{{6, 7, 14, 15}, {6, 7, 14, 15}}));
  EXPECT_EQ(place_automatically(input(rank_of(1, 2), 1, 0)), (Lists{{2, 3, 10, 11}}));
}

TEST(Placement, SharesAreDisjointAndNotEmpty) {
  for (int count = 1; count < 8; ++count) {
    List all;
    for (int index = 0; index < count; ++index) {
      const Lists places = place_automatically(input(rank_of(index, count)));
      ASSERT_EQ(places.size(), 1U);
      EXPECT_FALSE(places[0].empty());
      all.insert(all.end(), places[0].begin(), places[0].end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (List{4, 5, 6, 7, 12, 13, 14, 15})) << count;
  }
}

TEST(Placement, WithoutGainNothingIsDone) {
  EXPECT_EQ(place_automatically(input(rank_of(0, 8))), Lists{}) << "as many threads as processors";
  EXPECT_EQ(place_automatically(input(rank_of(0, 7, true))), Lists{}) << "the switch has one too";
  EXPECT_EQ(place_automatically(input(rank_of(0, 2), 4)), Lists{});
  for (const int node : {-1, 2}) EXPECT_EQ(place_automatically(input(rank_of(0, 1), 1, node)), Lists{});
  PlacementInput one_node = input(rank_of(0, 1), 1, 0);
  one_node.machine.nodes.resize(1);
  EXPECT_EQ(place_automatically(one_node), Lists{});
  PlacementInput empty_node = input(rank_of(0, 1), 1, 0);
  empty_node.machine.nodes[1].clear();
  EXPECT_EQ(place_automatically(empty_node), Lists{}) << "a node of memory alone";
}

TEST(Placement, TheUsersMaskIsLeftAlone) {
  PlacementInput narrowed = input(rank_of(0, 1));
  narrowed.allowed = range(4, 7);
  EXPECT_EQ(place_automatically(narrowed), Lists{});
  narrowed.allowed = range(0, 14);
  EXPECT_EQ(place_automatically(narrowed), Lists{});
  PlacementInput limited = input(rank_of(0, 1));
  limited.concurrent = 15;  // a control group's quota
  EXPECT_EQ(place_automatically(limited), Lists{});
}

TEST(Placement, AListIsDealtOutByTurns) {
  EXPECT_EQ(place_on({2, 3, 8}, rank_of(0, 1), 2), (Lists{{2}, {3}}));
  EXPECT_EQ(place_on({2, 3, 8}, rank_of(1, 2), 2), (Lists{{8}, {2}}));
  EXPECT_EQ(place_on({5}, rank_of(3, 4), 1), Lists{{5}});
  EXPECT_EQ(place_on({}, rank_of(0, 1), 2), Lists{});
}

TEST(Affinity, AProcessorThatCannotBeHadIsNamed) {
  Config config;
  EXPECT_TRUE(check_affinity(config).ok());
  config.affinity = "off";
  EXPECT_TRUE(check_affinity(config).ok());
  config.affinity = to_processor_list(allowed_processors());
  EXPECT_TRUE(check_affinity(config).ok());
  config.affinity += ",8191";
  const Status status = check_affinity(config);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "SWITCHML_AFFINITY=\"" + config.affinity +
                                  "\" names processor 8191, on which this process may not run: use some of " +
                                  to_processor_list(allowed_processors()) + ", auto or off");
}

TEST(Affinity, ReachesTheEngine) {
  Config config;
  const Endpoint local = resolve_address("127.0.0.1:5", "test").value();
  EngineOptions options;
  options.session.shards = 2;
  config.affinity = std::to_string(allowed_processors().front());
  place_threads(config, rank_of(0, 1), local, options.session.shards, &options);
  EXPECT_EQ(options.processors, Lists(2, {allowed_processors().front()}));
  for (const char* setting : {"off", "auto"}) {
    config.affinity = setting;
    EngineOptions more;
    place_threads(config, rank_of(0, 1000), local, more.session.shards, &more);
    EXPECT_EQ(more.processors, Lists{}) << "loopback has no node";
    EXPECT_EQ(more.spin, Duration(0)) << "a thousand ranks on one machine";
  }
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
    place_threads(config, rank_of(index, 4), {}, 1, &options);
    const int expected = allowed[static_cast<size_t>(index) % allowed.size()];
    EXPECT_EQ(options.processors, (std::vector<std::vector<int>>{{expected}}));
  }
}

}  // namespace
}  // namespace switchml
