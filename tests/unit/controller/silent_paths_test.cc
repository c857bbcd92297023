#include "controller/silent_paths.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

constexpr SlotUseName kUse = {3, 9};

/// core (0) over pod1 (1) over a (2) and b (3), and over pod2 (4). Ranks 0, 1 at a; 2 at b; 3 at pod2; 4 at pod1
/// itself.
class Silence : public ::testing::Test {
 protected:
  Silence() {
    const int parents[] = {kNone, 0, 1, 1, 0};
    const char* const names[] = {"core", "pod1", "a", "b", "pod2"};
    for (int i = 0; i < 5; ++i) {
      topology_.switches.push_back(switch_spec(names[i], "10.0.0." + std::to_string(i + 1) + ":48879", parents[i]));
    }
    tree_ = choose_tree(topology_, {{2, kNone}, {2, kNone}, {3, kNone}, {4, kNone}, {1, kNone}}).value();
  }

  /// Answers by switch; a switch that is not in the list gave none.
  UseInTree use(const std::map<int, std::vector<uint32_t>>& answers) const {
    UseInTree found(tree_);
    for (size_t node = 0; node < tree_.nodes.size(); ++node) {
      const auto answer = answers.find(tree_.nodes[node].at);
      if (answer != answers.end()) found.answered(node, answer->second);
    }
    return found;
  }
  std::vector<int> held_up(const UseInTree& found) const {
    std::vector<int> switches;
    for (const size_t node : found.held_up()) switches.push_back(tree_.nodes[node].at);
    return switches;
  }
  /// Names of the switches from which paths are newly silent.
  std::vector<int> note(const UseInTree& found, int rank, Time now, SlotUseName name = kUse) {
    std::vector<int> from;
    for (const SilentPath& path : paths_.note(tree_, found, rank, name, now)) from.push_back(path.from);
    return from;
  }

  Topology topology_;
  Tree tree_;
  SilentPaths paths_;
};

TEST_F(Silence, ARankCountsByItsSwitchUntilThatOneHasAll) {  // [TREE-10]
  const UseInTree found = use({{0, {}}, {1, {}}, {2, {1}}, {3, {}}, {4, {}}});
  EXPECT_EQ(found.contributed().low, 0b00010U) << "rank 0 is missing, so nothing has gone up";
  EXPECT_TRUE(held_up(found).empty());
}

TEST_F(Silence, WhatAParentLacksIsMissedOnTheWholeBranch) {
  EXPECT_EQ(use({{0, {0, 3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}}).contributed().low, 0b11111U);
  const UseInTree upper = use({{0, {3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  EXPECT_EQ(upper.contributed().low, 0b01000U) << "all below pod1, whose aggregate the core lacks";
  EXPECT_EQ(held_up(upper), std::vector<int>{1});
  const UseInTree lower = use({{0, {3}}, {1, {2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  EXPECT_EQ(lower.contributed().low, 0b11100U) << "those at a; pod1 waits for a and has nothing to hand on";
  EXPECT_EQ(held_up(lower), std::vector<int>{2});
}

TEST_F(Silence, AChildsNumberIsNoRanksOwnBit) {
  const UseInTree found = use({{0, {0, 3}}, {1, {0, 2, 4}}, {2, {}}, {3, {2}}, {4, {3}}});
  EXPECT_EQ(found.contributed().low, 0b11100U) << "0 is the number of a at pod1, and of pod1 at the core";
}

TEST_F(Silence, WhoDoesNotAnswerAccusesNobody) {
  const UseInTree found = use({{1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}});
  EXPECT_EQ(found.contributed().low, 0b10111U) << "the core is silent, pod2 leaves its rank out";
  EXPECT_TRUE(held_up(found).empty());
}

TEST_F(Silence, NumbersThatNoWorkerHasAreIgnored) {
  EXPECT_EQ(use({{2, {0, 128, 4000000000U}}}).contributed().low, 1U);
}

TEST_F(Silence, APathIsSilentAtTheSecondProbeOfOneRankSomeTimeLater) {
  const UseInTree found = use({{0, {3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  const Time start{};
  EXPECT_TRUE(note(found, 0, start).empty());
  EXPECT_TRUE(note(found, 1, start + milliseconds(300)).empty()) << "another rank's first";
  EXPECT_TRUE(note(found, 0, start + milliseconds(199)).empty()) << "too soon";
  EXPECT_EQ(note(found, 0, start + milliseconds(200)), std::vector<int>{1});
  EXPECT_TRUE(note(found, 1, start + seconds(1)).empty()) << "told once";
  ASSERT_EQ(paths_.now_silent(tree_, start + seconds(1)).size(), 1U);
  EXPECT_EQ(paths_.now_silent(tree_, start + seconds(1))[0].to, 0);
  EXPECT_TRUE(paths_.now_silent(tree_, start + seconds(6)).empty()) << "nobody has asked for 5 s";
}

TEST_F(Silence, AnotherUseStartsTheSuspicionAnew) {
  const UseInTree found = use({{0, {3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  const Time start{};
  EXPECT_TRUE(note(found, 0, start).empty());
  EXPECT_TRUE(note(found, 0, start + seconds(1), {4, 9}).empty()) << "another slot";
  EXPECT_TRUE(note(found, 0, start + seconds(2), {4, 10}).empty()) << "another seq";
  EXPECT_FALSE(note(found, 0, start + seconds(3), {4, 10}).empty());
}

TEST_F(Silence, WhatArrivesEndsTheSuspicion) {
  const UseInTree stuck = use({{0, {3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  const UseInTree fine = use({{0, {0, 3}}, {1, {0, 2, 4}}, {2, {0, 1}}, {3, {2}}, {4, {3}}});
  const Time start{};
  note(stuck, 0, start);
  EXPECT_TRUE(note(fine, 0, start + seconds(1)).empty());
  EXPECT_TRUE(note(stuck, 0, start + seconds(2)).empty()) << "a new suspicion";
  EXPECT_FALSE(note(stuck, 0, start + seconds(3)).empty());
  note(use({{1, {0, 2, 4}}}), 0, start + seconds(3));
  EXPECT_EQ(paths_.now_silent(tree_, start + seconds(3)).size(), 1U) << "a parent that does not answer proves nothing";
  note(fine, 1, start + seconds(4));
  EXPECT_TRUE(paths_.now_silent(tree_, start + seconds(4)).empty());
  note(stuck, 0, start + seconds(5));
  EXPECT_TRUE(note(stuck, 0, start + seconds(6)).empty()) << "silent again, but told once";
  EXPECT_EQ(paths_.now_silent(tree_, start + seconds(6)).size(), 1U);
}

TEST_F(Silence, TheSentenceNamesBothEnds) {
  EXPECT_EQ(
      describe({2, 1, kUse}, topology_, 7),
      "switch \"a\" has aggregated slot 3 seq 9 of job 7, and its parent \"pod1\" has nothing of it: check the path "
      "from 10.0.0.3:48879 to 10.0.0.2:48879 (UDP port, MTU, MAC)");
}

}  // namespace
}  // namespace switchml::controller
