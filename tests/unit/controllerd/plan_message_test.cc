#include "controllerd/plan_message.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

/// w2 at leaf2, the root, and w1 at leaf1 beneath it.
v1::SetPlanRequest good() {
  v1::SetPlanRequest plan;
  for (const char* const worker : {"w2", "w1"}) plan.add_workers(worker);
  v1::PlannedShare& share = *plan.add_shares();
  share.set_weight(5);
  share.add_switches()->set_name("leaf2");
  v1::PlannedSwitch& leaf = *share.add_switches();
  leaf.set_name("leaf1");
  leaf.set_parent("leaf2");
  leaf.set_parent_port(9);
  leaf.set_port_at_parent(3);
  leaf.set_mtu(9000);
  (*share.mutable_switch_of())["w1"] = "leaf1";
  (*share.mutable_switch_of())["w2"] = "leaf2";
  return plan;
}

TEST(PlanMessage, NamesBecomeWhatTheTopologyHas) {
  const Fabric fabric;
  const auto plan = plan_of(good(), fabric.topology);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->workers, (std::vector<int>{0, 1})) << "in their order";
  ASSERT_EQ(plan->shares.size(), 1U);
  const controller::PlannedShare& share = plan->shares[0];
  EXPECT_EQ(share.weight, 5U);
  ASSERT_EQ(share.switches.size(), 2U);
  EXPECT_EQ(share.switches[0].at, 2);
  EXPECT_EQ(share.switches[0].parent, controller::kNone);
  EXPECT_EQ(share.switches[0].up.mtu, controller::kUplinkMtu);
  EXPECT_EQ(share.switches[1].at, 1);
  EXPECT_EQ(share.switches[1].parent, 0);
  EXPECT_EQ(share.switches[1].up.port, 9U);
  EXPECT_EQ(share.switches[1].up.port_at_parent, 3U);
  EXPECT_EQ(share.switches[1].up.mtu, 9000U);
  EXPECT_EQ(share.at, (std::vector<int>{1, 0})) << "by worker";
  EXPECT_FALSE(controller::check_plan(fabric.topology, plan.value()));
}

struct Mistake {
  const char* message;
  void (*make)(v1::SetPlanRequest* plan);
};

TEST(PlanMessage, MistakesAreNamed) {
  const Fabric fabric;
  const Mistake mistakes[] = {
      {"worker \"w9\" is none of the topology's workers", [](auto* plan) { plan->set_workers(0, "w9"); }},
      {"switch \"leaf9\" is none of the topology's switches",
       [](auto* plan) { plan->mutable_shares(0)->mutable_switches(0)->set_name("leaf9"); }},
      {"parent \"spine\" is none of the share's switches",
       [](auto* plan) { plan->mutable_shares(0)->mutable_switches(1)->set_parent("spine"); }},
      {"the switch of worker \"w1\" is none of the share's switches",
       [](auto* plan) { plan->mutable_shares(0)->mutable_switch_of()->erase("w1"); }},
      {"the switch of worker \"w1\" is none of the share's switches",
       [](auto* plan) { (*plan->mutable_shares(0)->mutable_switch_of())["w1"] = "spine"; }},
  };
  for (const Mistake& mistake : mistakes) {
    v1::SetPlanRequest plan = good();
    mistake.make(&plan);
    const auto read = plan_of(plan, fabric.topology);
    ASSERT_FALSE(read.ok()) << mistake.message;
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(read.status().message(), mistake.message);
  }
}

}  // namespace
}  // namespace switchml
