#include "controller/tree.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

/// core (0) over pod1 (1) and pod2 (2); pod1 over a (3) and b (4), pod2 over c (5); alone (6).
Topology three_levels() {
  Topology topology;
  const int parents[] = {kNone, 0, 0, 1, 1, 2, kNone};
  const char* const names[] = {"core", "pod1", "pod2", "a", "b", "c", "alone"};
  for (int i = 0; i < 7; ++i) {
    topology.switches.push_back(switch_spec(names[i], "10.0.0." + std::to_string(i + 1) + ":48879", parents[i]));
  }
  return topology;
}

std::vector<Attachment> places(const std::vector<int>& switches) {
  std::vector<Attachment> out;
  for (const int s : switches) out.push_back({s, kNone});
  return out;
}

Tree tree_over(const std::vector<int>& switches) {
  auto tree = choose_tree(three_levels(), places(switches));
  EXPECT_TRUE(tree.ok()) << tree.status().to_string();
  return tree.value();
}

std::vector<int> switches_of(const Tree& tree) {
  std::vector<int> out;
  for (const TreeNode& node : tree.nodes) out.push_back(node.at);
  return out;
}

TEST(Tree, RanksAtOneSwitchNeedNoOther) {
  const Tree tree = tree_over({4, 4, 4});
  ASSERT_EQ(switches_of(tree), (std::vector<int>{4}));
  EXPECT_EQ(tree.members(tree.nodes[0]), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(tree.nodes[0].parent, kNone);
  EXPECT_EQ(tree.nodes[0].number, kNone);
}

TEST(Tree, TheRootIsTheNearestCommonSwitch) {
  const Tree tree = tree_over({4, 3, 4});
  ASSERT_EQ(switches_of(tree), (std::vector<int>{1, 4, 3})) << "pod1 is enough: not up to the core";
  EXPECT_EQ(tree.members(tree.nodes[0]), (std::vector<uint32_t>{0, 1})) << "children by their smallest ranks";
  EXPECT_EQ(tree.members(tree.nodes[1]), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(tree.members(tree.nodes[2]), (std::vector<uint32_t>{1}));
  EXPECT_EQ(tree.nodes[2].number, 1);
  EXPECT_EQ(tree.node_of_rank, (std::vector<int>{1, 2, 1}));
}

TEST(Tree, SwitchesBetweenAreMembersEvenWithOneChild) {  // [TREE-2]
  const Tree tree = tree_over({5, 3, 4, 5});
  ASSERT_EQ(switches_of(tree), (std::vector<int>{0, 2, 5, 1, 3, 4}));
  EXPECT_EQ(tree.members(tree.nodes[0]), (std::vector<uint32_t>{0, 1})) << "pod2 as 0, pod1 as 1";
  EXPECT_EQ(tree.members(tree.nodes[1]), (std::vector<uint32_t>{0})) << "pod2 has c alone";
  EXPECT_EQ(tree.members(tree.nodes[3]), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(tree.at_switch(5)->ranks, (std::vector<int>{0, 3}));
  EXPECT_TRUE(tree.at_switch(5)->ranks == (std::vector<int>{0, 3}));
  EXPECT_EQ(tree.at_switch(6), nullptr);
}

TEST(Tree, ASwitchMayHaveRanksAndChildren) {
  const Tree tree = tree_over({3, 1, 3, 1});
  ASSERT_EQ(switches_of(tree), (std::vector<int>{1, 3}));
  EXPECT_EQ(tree.members(tree.nodes[0]), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(tree.nodes[0].ranks, (std::vector<int>{1, 3}));
}

TEST(Tree, RanksWithoutACommonSwitchAreNamed) {
  const auto tree = choose_tree(three_levels(), places({3, 4, 6}));
  ASSERT_FALSE(tree.ok());
  const std::string text = tree.status().message();
  EXPECT_NE(text.find("rank 0 is at switch \"a\" and rank 2 at switch \"alone\""), std::string::npos) << text;
}

TEST(Tree, RanksAreAttachedByTheFirstAddressThatIsKnown) {
  const Topology topology = two_leaves();
  const auto attached = attach(topology, {{at("192.0.2.1"), at("10.0.1.2:77"), at("10.0.1.0")}, {at("10.0.1.1")}});
  ASSERT_TRUE(attached.ok());
  EXPECT_EQ(attached.value()[0].at, 2);
  EXPECT_EQ(attached.value()[0].worker, 2);
  EXPECT_EQ(attached.value()[1].at, 1);
  const auto unknown = attach(topology, {{at("10.0.1.0")}, {at("192.0.2.1"), at("192.0.2.2:9")}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("rank 1 with addresses (192.0.2.1:0, 192.0.2.2:0)"), std::string::npos)
      << unknown.status().message();
}

TEST(Tree, WithoutWorkersInTheTopologyAllAreAtTheOnlySwitch) {
  const auto attached = attach(lone_switch(), {{}, {at("192.0.2.1")}});
  ASSERT_TRUE(attached.ok());
  EXPECT_EQ(attached.value()[0].at, 0);
  EXPECT_EQ(attached.value()[1].worker, kNone);
}

}  // namespace
}  // namespace switchml::controller
