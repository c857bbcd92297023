#include "controller/plan.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

const std::vector<std::string> kRanks = {"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"};

/// Of two_leaves(): all four workers by the tree of the topology, and all at leaf1.
Plan two_shares() {
  Plan plan;
  plan.workers = {0, 1, 2, 3};
  plan.shares.resize(2);
  plan.shares[0].weight = 3;
  plan.shares[0].switches = {{0, kNone, {}}, {1, 0, {9, 1, 9000}}, {2, 0, {8, 2, 9000}}};
  plan.shares[0].at = {1, 1, 2, 2};
  plan.shares[1].switches = {{1, kNone, {}}};
  plan.shares[1].at = {0, 0, 0, 0};
  return plan;
}

std::vector<std::vector<Endpoint>> addresses(const std::vector<std::string>& ranks) {
  std::vector<std::vector<Endpoint>> out;
  for (const std::string& rank : ranks) out.push_back({at(rank)});
  return out;
}

OpenRequest share(size_t number, uint64_t client_key) {
  OpenRequest asked = request(kRanks, client_key);
  asked.share = number;
  return asked;
}

const Endpoint kSpine = at("10.0.0.1:48879"), kLeaf1 = at("10.0.0.2:48879"), kLeaf2 = at("10.0.0.3:48879");

TEST(Plan, WithoutOneThereIsOneShareByTheTopology) {
  Rack rack(two_leaves());
  const auto located = rack.core.locate(addresses({"10.0.1.3", "10.0.1.0"}));
  ASSERT_TRUE(located.ok());
  ASSERT_EQ(located->size(), 1U);
  EXPECT_EQ(located->front().weight, 1U);
  EXPECT_EQ(located->front().switches, (std::vector<Endpoint>{kLeaf2, kLeaf1}));
  EXPECT_NE(rack.core.locate(addresses({"10.9.9.9"})).status().message().find("rank 0"), std::string::npos);
  Topology apart = two_leaves();
  apart.switches[2].parent = kNone;
  Rack two(apart);
  EXPECT_NE(two.core.locate(addresses({"10.0.1.3", "10.0.1.0"})).status().message().find("in common"),
            std::string::npos);
}

TEST(Plan, EachShareHasItsPlacesItsWeightAndItsTree) {
  Rack rack(two_leaves());
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  const auto located = rack.core.locate(addresses(kRanks));
  ASSERT_TRUE(located.ok());
  ASSERT_EQ(located->size(), 2U);
  EXPECT_EQ(located.value()[0].weight, 3U);
  EXPECT_EQ(located.value()[0].switches, (std::vector<Endpoint>{kLeaf1, kLeaf1, kLeaf2, kLeaf2}));
  EXPECT_EQ(located.value()[1].switches, std::vector<Endpoint>(4, kLeaf1));

  const auto tree = rack.open(share(0, 1)).granted, alone = rack.open(share(1, 2)).granted;
  EXPECT_NE(tree.job, alone.job);
  EXPECT_EQ(rack.switches[0].installed.at(tree.job).members, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(rack.switches[0].installed.count(alone.job), 0U);
  EXPECT_EQ(rack.switches[1].installed.at(alone.job).members, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_FALSE(rack.switches[1].installed.at(alone.job).uplink);
  EXPECT_EQ(rack.switches[2].installed.count(alone.job), 0U);
  const auto uplink = rack.switches[2].installed.at(tree.job).uplink;
  ASSERT_TRUE(uplink);
  EXPECT_EQ(uplink->worker, 2U);
  EXPECT_EQ(uplink->parent.endpoint, kSpine);
  EXPECT_EQ(uplink->parent.port, 8U) << "the plan's, not the topology's";
  EXPECT_EQ((rack.switches[0].members.at({tree.job, 2, -1}).port), 2U);
}

TEST(Plan, SharesHaveSlotsByTheirWeights) {
  Rack rack(two_leaves());
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  OpenRequest first = share(0, 1), second = share(1, 2);
  first.slots = second.slots = 64;
  first.exact = second.exact = true;
  EXPECT_EQ(rack.open(first).granted.slots, 96) << "three quarters of both shares' together";
  EXPECT_EQ(rack.open(second).granted.slots, 32);
  Rack few(two_leaves());
  ASSERT_FALSE(few.core.set_plan(two_shares()));
  first.slots = second.slots = 16;
  EXPECT_EQ(few.open(first).granted.slots, 24);
  EXPECT_EQ(few.open(second).granted.slots, 16) << "two streams take so many";
  Rack words(two_leaves());
  ASSERT_FALSE(words.core.set_plan(two_shares()));
  first.slots = second.slots = 64;
  first.exact = second.exact = false;
  EXPECT_EQ(words.open(first).granted.slots, 96);
  EXPECT_EQ(words.open(second).granted.slots, 64) << "likewise, of integers";
  OpenRequest moving = share(0, 3);
  moving.slots = 64;
  moving.replaces = {200, 1};
  EXPECT_EQ(words.open(moving).granted.slots, 64) << "who moves keeps what lies in its slots [MOVE-2]";
}

TEST(Plan, RanksJoinWhereTheirShareIs) {
  Rack rack(two_leaves());
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  const auto alone = rack.open(share(1, 2)).granted;
  const SwitchPort from{at("10.0.1.2:4000"), "", 9};  // by leaf1's port towards the spine
  EXPECT_EQ(rack.join(1, alone, 2, from)->status, wire::ReplyStatus::kOk);
  EXPECT_EQ(rack.join(2, alone, 3, {at("10.0.1.3:4000"), "", 2})->status, wire::ReplyStatus::kNotMember)
      << "its own switch is none of the share's";
  EXPECT_EQ(rack.join(1, alone, 3, from)->status, wire::ReplyStatus::kNotMember) << "another worker of another switch";
  EXPECT_EQ(rack.join(1, alone, 0, {at("10.0.1.0:4000"), "", 7})->status, wire::ReplyStatus::kNotMember)
      << "its own switch knows its port";
}

TEST(Plan, IsForItsWorkersAloneAndCanBeTakenBack) {
  Rack rack(two_leaves());
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  EXPECT_EQ(rack.core.locate(addresses({"10.0.1.0", "10.0.1.1", "10.0.1.2"}))->size(), 1U) << "one of four is missing";
  const std::vector<std::string> two_each = {"10.0.1.3", "10.0.1.0", "10.0.1.2", "10.0.1.0", "10.0.1.1"};
  const auto located = rack.core.locate(addresses(two_each));
  ASSERT_EQ(located->size(), 2U) << "a worker with two ranks";
  EXPECT_EQ(located->front().switches, (std::vector<Endpoint>{kLeaf2, kLeaf1, kLeaf2, kLeaf1, kLeaf1}));
  Plan none = two_shares();
  none.shares.clear();
  ASSERT_FALSE(rack.core.set_plan(none));
  EXPECT_EQ(rack.core.locate(addresses(kRanks))->size(), 1U);
  const auto late = rack.open(share(1, 5));
  ASSERT_TRUE(late.refusal);
  EXPECT_EQ(late.refusal->why, Why::kUnavailable);
  EXPECT_EQ(late.refusal->message, "share 1 of a plan of 1: the plan has changed meanwhile");
}

TEST(Plan, TreesHaveNumbersOfTheirOwnAndKeepTheirPlaces) {
  Rack rack(two_leaves());
  const auto ids = [&] {
    std::vector<uint64_t> all;
    const auto located = rack.core.locate(addresses(kRanks));
    for (const auto& share : located.value()) all.push_back(share.tree_id);
    return all;
  };
  EXPECT_EQ(ids(), std::vector<uint64_t>{0}) << "by the topology";
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  const std::vector<uint64_t> first = ids();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(first[0] != 0 && first[1] != 0 && first[0] != first[1]);

  Plan heavier = two_shares();
  heavier.shares[1].weight = 9;
  std::swap(heavier.shares[0], heavier.shares[1]);
  ASSERT_FALSE(rack.core.set_plan(heavier));
  EXPECT_EQ(ids(), first) << "a weight is none of a tree, and an order counts for nothing";
  EXPECT_EQ(rack.core.locate(addresses(kRanks)).value()[1].weight, 9U);

  Plan elsewhere = two_shares();
  elsewhere.shares[0] = elsewhere.shares[1];
  elsewhere.shares[1].switches = {{2, kNone, {}}};
  ASSERT_FALSE(rack.core.set_plan(elsewhere));
  const std::vector<uint64_t> next = ids();
  EXPECT_NE(next[0], first[0]);
  EXPECT_NE(next[0], first[1]) << "the other one is another one's";
  EXPECT_EQ(next[1], first[1]);

  Plan other_ports = two_shares();
  other_ports.shares[0].switches[1].up.port = 5;
  EXPECT_NE(other_ports.shares[0].tree_id(), two_shares().shares[0].tree_id());
  Plan twice = two_shares();
  twice.shares[1] = twice.shares[0];
  keep_order(two_shares(), &twice);
  EXPECT_EQ(twice.shares[0].tree_id(), twice.shares[1].tree_id());
}

TEST(Plan, AQuotaOfJobsCountsAGroupOnce) {
  Rack rack(two_leaves());
  ASSERT_FALSE(rack.core.set_plan(two_shares()));
  OpenRequest first = share(0, 1), second = share(1, 2), another = share(0, 3);
  for (OpenRequest* asked : {&first, &second, &another}) asked->owner = {"team", 1, 0};
  const auto opened = rack.open(first);
  EXPECT_FALSE(opened.refusal);
  const auto granted = opened.granted;
  EXPECT_FALSE(rack.open(second).refusal);
  EXPECT_EQ(rack.open(another).refusal->why, Why::kExhausted);
  another.replaces = {granted.job, granted.epoch};
  EXPECT_EQ(rack.open(another).refusal->why, Why::kExhausted) << "who replaces a session knows its key";
  another.replaced_key = granted.session_key;
  EXPECT_FALSE(rack.open(another).refusal) << "the group moves";
  OpenRequest more = share(0, 4);
  more.owner = another.owner;
  more.replaces = another.replaces;
  more.replaced_key = another.replaced_key;
  EXPECT_EQ(rack.open(more).refusal->why, Why::kExhausted) << "once";
}

struct BadPlan {
  const char* message;
  void (*spoil)(Plan* plan);
};

TEST(Plan, MistakesAreNamed) {
  const BadPlan cases[] = {
      {"a plan for no workers: name some of the topology", [](Plan* p) { p->workers.clear(); }},
      {"worker \"w2\" is named twice", [](Plan* p) { p->workers[3] = 2; }},
      {"share 1: weight 0: allowed are 1 to 1000", [](Plan* p) { p->shares[1].weight = 0; }},
      {"share 0: weight 1001: allowed are 1 to 1000", [](Plan* p) { p->shares[0].weight = 1001; }},
      {"share 1: it has no switch", [](Plan* p) { p->shares[1].switches.clear(); }},
      {"share 0: switch \"leaf1\" is in it twice", [](Plan* p) { p->shares[0].switches[2].at = 1; }},
      {"share 0: switch \"leaf2\": the first switch alone has no parent",
       [](Plan* p) { p->shares[0].switches[2].parent = kNone; }},
      {"share 0: switch \"leaf1\" comes before its parent", [](Plan* p) { p->shares[0].switches[1].parent = 2; }},
      {"share 0: switch \"leaf2\" has neither a worker nor a switch beneath it",
       [](Plan* p) {
         p->shares[0].at = {1, 1, 1, 1};
       }},
  };
  for (const BadPlan& bad : cases) {
    Rack rack(two_leaves());
    Plan plan = two_shares();
    bad.spoil(&plan);
    const auto refusal = rack.core.set_plan(plan);
    ASSERT_TRUE(refusal) << bad.message;
    EXPECT_EQ(refusal->why, Why::kInvalid);
    EXPECT_EQ(refusal->message, bad.message);
    EXPECT_EQ(rack.core.locate(addresses(kRanks))->size(), 1U) << "it is not kept";
  }
}

}  // namespace
}  // namespace switchml::controller
