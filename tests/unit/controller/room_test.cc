// Who holds what, when others may have it, and when nobody may.
#include <gtest/gtest.h>

#include "controller/sessions.h"
#include "fixture.h"
#include "slots/slot_store.h"

namespace switchml::controller {
namespace {

Topology leased(Duration lease) {
  Topology topology = lone_switch();
  topology.lease = lease;
  return topology;
}

OpenRequest of(const std::string& owner, uint64_t key, const std::vector<std::string>& ranks = {"10.0.1.0"}) {
  OpenRequest asked = request(ranks, key);
  asked.owner.name = owner;
  return asked;
}

Capabilities few_jobs(size_t jobs) {
  Capabilities can = software();
  can.jobs = jobs;
  return can;
}

TEST(Room, ASuspendedJobKeepsItsSessionForHalfAnHour) {
  Rack rack(lone_switch());
  const wire::OpenReply suspended = rack.open(request({"10.0.1.0"})).granted;
  rack.wait(1800);
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U) << "nobody wanted its room";
  EXPECT_TRUE(rack.hears(suspended));
  rack.wait(1801);
  EXPECT_TRUE(rack.core.sessions(rack.now).empty()) << "the lease bounds it, though nobody wants its room";
  EXPECT_FALSE(rack.hears(suspended));
}

TEST(Room, LeasesRunOutUnlessRenewed) {
  Rack rack(leased(seconds(30)));
  const wire::OpenReply granted = rack.open(request({"10.0.1.0"})).granted;
  rack.now += seconds(20);
  EXPECT_FALSE(rack.core.renew({granted.job, granted.epoch}, granted.session_key, rack.now).has_value());
  EXPECT_EQ(rack.core.sessions(rack.now)[0].lease_left, seconds(30));
  rack.now += seconds(30);
  rack.sweep();
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U);
  rack.now += milliseconds(1);
  const auto stranger = rack.core.renew({granted.job, granted.epoch}, granted.session_key ^ 1, rack.now);
  ASSERT_TRUE(stranger.has_value());
  EXPECT_EQ(stranger->why, Why::kNotFound);
  rack.sweep();
  EXPECT_TRUE(rack.core.sessions(rack.now).empty());
  EXPECT_TRUE(rack.switches[0].installed.empty());
  EXPECT_EQ(rack.core.counters().sessions_expired, 1U);
  EXPECT_TRUE(rack.core.renew({granted.job, granted.epoch}, granted.session_key, rack.now).has_value());
}

TEST(Room, SilenceDoesNotCountWhileASwitchIsOutOfReach) {
  Rack rack(leased(seconds(30)));
  rack.open(request({"10.0.1.0"}));
  rack.core.switch_down(0, "its agent does not answer");
  rack.wait(100);
  ASSERT_EQ(rack.core.sessions(rack.now).size(), 1U);
  rack.up(0, software());
  rack.wait(30);
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U) << "a lease from when it is heard again";
  rack.wait(2);
  EXPECT_TRUE(rack.core.sessions(rack.now).empty());
}

TEST(Room, SilenceDoesNotCountWhileTheControllerItselfWasStopped) {
  Rack rack(leased(seconds(30)));
  rack.open(request({"10.0.1.0"}));
  rack.sweep();
  rack.now += seconds(100);
  rack.sweep();
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U);
}

TEST(Room, OfSilentSessionsTheLongestSilentEndsAlone) {  // [LEASE-2, LEASE-4]
  Rack rack(lone_switch(), few_jobs(3));
  std::vector<wire::OpenReply> opened;
  for (uint64_t key = 1; key <= 3; ++key) {
    opened.push_back(rack.open(of("team", key)).granted);
    rack.wait(1);
  }
  EXPECT_TRUE(rack.hears(opened[0]));
  rack.wait(13);
  EXPECT_EQ(refused(rack.open(of("team", 4)), Why::kExhausted), "switch \"s\" serves 3 jobs, as many as it can")
      << "the second was heard 15 s ago";
  rack.wait(7);
  EXPECT_FALSE(rack.open(of("team", 5)).refusal.has_value());
  EXPECT_FALSE(rack.hears(opened[1]));
  EXPECT_TRUE(rack.hears(opened[2]));
  EXPECT_TRUE(rack.hears(opened[0]));
  EXPECT_EQ(rack.core.counters().sessions_expired, 1U);
}

TEST(Room, WhereThereIsRoomNobodyEnds) {  // [LEASE-4]
  Rack rack(lone_switch(), few_jobs(2));
  const wire::OpenReply silent = rack.open(of("team", 1)).granted;
  rack.wait(600);
  EXPECT_FALSE(rack.open(of("team", 2)).refusal.has_value());
  EXPECT_TRUE(rack.hears(silent));
}

TEST(Room, AQuotaIsMadeRoomInByItsOwnersSessionsOnly) {
  Rack rack(lone_switch(), few_jobs(2));
  const wire::OpenReply others = rack.open(of("others", 1)).granted;
  OpenRequest asked = of("team", 2);
  asked.owner.max_jobs = 1;
  const wire::OpenReply own = rack.open(asked).granted;
  rack.wait(16);
  EXPECT_TRUE(rack.hears(own));
  asked.client_key = 3;
  EXPECT_EQ(refused(rack.open(asked), Why::kExhausted), "\"team\" has 1 jobs; max_jobs allows 1");
  EXPECT_EQ(rack.core.counters().sessions_expired, 0U) << "the switch is full too, and room there is of no use";
  rack.wait(16);
  EXPECT_FALSE(rack.open(asked).refusal.has_value());
  EXPECT_FALSE(rack.hears(own));
  EXPECT_TRUE(rack.hears(others)) << "silent for longer, but of another owner";
}

TEST(Room, AQuotaOfSlotsIsMadeRoomInByItsOwnersSessionsOnly) {
  Capabilities can = software();
  can.memory_bytes = 32 * SlotStore::slot_bytes(1024);
  Rack rack(lone_switch(), can);
  const wire::OpenReply others = rack.open(of("others", 1)).granted;
  OpenRequest asked = of("team", 2);
  asked.owner.max_slots = 16;
  const wire::OpenReply own = rack.open(asked).granted;
  rack.wait(16);
  EXPECT_TRUE(rack.hears(own));
  asked.client_key = 3;
  EXPECT_EQ(refused(rack.open(asked), Why::kExhausted), "\"team\" has 16 slots; max_slots allows 16");
  EXPECT_EQ(rack.core.counters().sessions_expired, 0U);
  rack.wait(16);
  EXPECT_FALSE(rack.open(asked).refusal.has_value());
  EXPECT_FALSE(rack.hears(own));
  EXPECT_TRUE(rack.hears(others));
}

TEST(Room, OnlySessionsAtTheSwitchThatIsFullEnd) {
  Rack rack(two_leaves(), few_jobs(1));
  const wire::OpenReply first = rack.open(of("a", 1, {"10.0.1.0"})).granted;
  rack.wait(1);
  const wire::OpenReply second = rack.open(of("a", 2, {"10.0.1.2"})).granted;
  rack.wait(16);
  EXPECT_FALSE(rack.open(of("b", 3, {"10.0.1.3"})).refusal.has_value());
  EXPECT_TRUE(rack.hears(first)) << "silent for longer, but at the other leaf";
  EXPECT_FALSE(rack.hears(second));
}

TEST(Room, WhatIsInvalidEndsNobody) {
  Rack rack(lone_switch(), few_jobs(1));
  const wire::OpenReply silent = rack.open(of("team", 1)).granted;
  rack.wait(16);
  OpenRequest asked = of("team", 2);
  asked.workers = 0;
  refused(rack.open(asked), Why::kInvalid);
  EXPECT_TRUE(rack.hears(silent));
}

TEST(Room, WhoIsHeardIsNotSilent) {
  Rack rack(lone_switch(), few_jobs(1));
  const wire::OpenReply first = rack.open(of("team", 1)).granted;
  for (int i = 0; i < 10; ++i) {
    rack.wait(5);
    EXPECT_TRUE(rack.hears(first));
  }
  refused(rack.open(of("team", 2)), Why::kExhausted);
  EXPECT_TRUE(rack.hears(first));
}

}  // namespace
}  // namespace switchml::controller
