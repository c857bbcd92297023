#include "controller/sessions.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

const SwitchPort kWorker0{at("10.0.1.0:4000"), "", 1};

TEST(Sessions, OpenInstallsOnTheOnlySwitchAndAnswers) {
  Rack rack(lone_switch());
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1"});
  asked.shards = 2;
  const OpenAnswer answer = rack.open(asked);
  ASSERT_FALSE(answer.refusal.has_value()) << answer.refusal->message;
  EXPECT_EQ(answer.granted.slots, 16);
  EXPECT_EQ(answer.granted.payload, 1024U);
  EXPECT_NE(answer.granted.epoch, 0U);
  EXPECT_EQ(answer.granted.lease_ms, 1800000U);
  EXPECT_EQ(answer.switch_addresses, std::vector<Endpoint>(2, at("10.0.0.1:48879")));
  const Install& install = rack.switches[0].installed.at(answer.granted.job);
  EXPECT_EQ(install.id.epoch, answer.granted.epoch);
  EXPECT_EQ(install.members, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(install.shards, 2);
  EXPECT_FALSE(install.uplink.has_value());
  EXPECT_EQ(rack.core.counters().sessions_opened, 1U);
}

TEST(Sessions, OpenBuildsTheTree) {  // [TREE-1, TREE-9]
  Rack rack(two_leaves(), chip());
  const OpenAnswer answer = rack.open(request({"10.0.1.2", "10.0.1.0", "10.0.1.3", "10.0.1.1"}));
  ASSERT_FALSE(answer.refusal.has_value()) << answer.refusal->message;
  const uint8_t job = answer.granted.job;
  EXPECT_EQ(rack.switches[0].installed.at(job).members, (std::vector<uint32_t>{0, 1}));
  EXPECT_FALSE(rack.switches[0].installed.at(job).uplink.has_value());
  const Install& leaf1 = rack.switches[1].installed.at(job);
  EXPECT_EQ(leaf1.members, (std::vector<uint32_t>{1, 3}));
  ASSERT_TRUE(leaf1.uplink.has_value());
  EXPECT_EQ(leaf1.uplink->worker, 1U);
  EXPECT_EQ(leaf1.uplink->parent.endpoint, at("10.0.0.1:48879"));
  EXPECT_EQ(leaf1.uplink->parent.port, 9U) << "its own port towards the spine";
  EXPECT_EQ(leaf1.uplink->parent.mac, chip().mac);
  EXPECT_EQ(rack.switches[2].installed.at(job).uplink->worker, 0U);
  // Children are members of the spine for all shards, at its ports towards them, once it knows the session.
  EXPECT_EQ(rack.switches[0].log[0], "install " + std::to_string(job));
  const SwitchPort& child = rack.switches[0].members.at({job, 0, -1});
  EXPECT_EQ(child.endpoint, at("10.0.0.3:48879"));
  EXPECT_EQ(child.port, 2U);
  EXPECT_EQ(rack.switches[0].members.at({job, 1, -1}).port, 1U);
  EXPECT_EQ(answer.switch_addresses[0], at("10.0.0.3:48879"));
  EXPECT_EQ(answer.switch_addresses[1], at("10.0.0.2:48879"));
  EXPECT_EQ(answer.granted.flags, wire::kOpenWholeChunks);
  EXPECT_EQ(answer.granted.payload, 256U);
  EXPECT_EQ(rack.core.sessions(rack.now)[0].switches, (std::vector<int>{0, 2, 1}));
}

TEST(Sessions, RanksOfOneLeafLeaveTheOtherSwitchesAlone) {
  Rack rack(two_leaves());
  const OpenAnswer answer = rack.open(request({"10.0.1.2", "10.0.1.3"}));
  ASSERT_FALSE(answer.refusal.has_value());
  EXPECT_TRUE(rack.switches[0].installed.empty());
  EXPECT_TRUE(rack.switches[1].installed.empty());
  EXPECT_FALSE(rack.switches[2].installed.at(answer.granted.job).uplink.has_value());
}

TEST(Sessions, AClientKeyFindsItsSession) {
  Rack rack(lone_switch());
  const OpenAnswer first = rack.open(request({"10.0.1.0", "10.0.1.1"}, 9));
  const OpenAnswer again = rack.open(request({"10.0.1.0", "10.0.1.1"}, 9));
  EXPECT_EQ(again.granted.epoch, first.granted.epoch);
  EXPECT_EQ(again.granted.session_key, first.granted.session_key);
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U);
  EXPECT_NE(refused(rack.open(request({"10.0.1.0"}, 9)), Why::kInvalid).find("client_key 9"), std::string::npos);
  OpenRequest stranger = request({"10.0.1.0", "10.0.1.1"}, 9);
  stranger.owner.name = "another";
  refused(rack.open(stranger), Why::kInvalid);
}

TEST(Sessions, OpensOfOneKeyThatComeBeforeTheSwitchesAreReadyAreAllAnswered) {
  Rack rack(lone_switch());
  rack.hold = true;
  rack.open(request({"10.0.1.0"}));
  rack.open(request({"10.0.1.0"}));
  EXPECT_TRUE(rack.answers.empty() || rack.answers[1].ticket == 0) << "nothing is confirmed yet";
  rack.release();
  EXPECT_EQ(rack.answers[1].granted.epoch, rack.answers[2].granted.epoch);
  EXPECT_NE(rack.answers[1].granted.epoch, 0U);
  EXPECT_EQ(rack.core.counters().sessions_opened, 1U);
}

TEST(Sessions, WhatCanNeverBeGrantedIsRefusedWithValueAndLimits) {
  Rack rack(lone_switch());
  const auto broken = [&](void (*change)(OpenRequest*), Why why) {
    OpenRequest asked = request({"10.0.1.0", "10.0.1.1"}, 77);
    change(&asked);
    return refused(rack.open(asked), why);
  };
  EXPECT_EQ(broken([](OpenRequest* r) { r->workers = 0; }, Why::kInvalid), "workers 0: allowed are 1 to 128");
  EXPECT_EQ(broken([](OpenRequest* r) { r->workers = 65538; }, Why::kInvalid), "workers 65538: allowed are 1 to 128");
  EXPECT_EQ(broken([](OpenRequest* r) { r->shards = 17; }, Why::kInvalid), "shards 17: allowed are 1 to 16");
  EXPECT_EQ(broken([](OpenRequest* r) { r->slots = 4097; }, Why::kInvalid), "slots 4097: allowed are 0 to 4096");
  EXPECT_EQ(broken([](OpenRequest* r) { r->payload_bytes = 255; }, Why::kInvalid),
            "payload_bytes 255: allowed are 256 to 64512");
  EXPECT_NE(broken([](OpenRequest* r) { r->client_key = 0; }, Why::kInvalid).find("client_key 0"), std::string::npos);
  EXPECT_NE(broken([](OpenRequest* r) { r->protocol_version = 99; }, Why::kPrecondition).find("version 99"),
            std::string::npos);
  EXPECT_NE(broken([](OpenRequest* r) { r->ranks.pop_back(); }, Why::kInvalid).find("addresses of 1 ranks"),
            std::string::npos);
  EXPECT_EQ(rack.core.counters().opens_refused, 8U);
  EXPECT_TRUE(rack.core.sessions(rack.now).empty());
}

TEST(Sessions, OneSwitchOfTheTreeThatCannotRefusesForAll) {
  Rack rack(two_leaves());
  Capabilities can = chip();
  can.max = false;
  rack.up(2, can);
  const std::vector<std::string> all = {"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"};
  EXPECT_EQ(refused(rack.open(request(all)), Why::kInvalid), "operation MAX: switch \"leaf2\" (bmv2) does SUM only");
  OpenRequest sums = request(all);
  sums.max = false;
  EXPECT_EQ(rack.open(sums).granted.payload, 256U) << "what leaf2 can";
  EXPECT_FALSE(rack.open(request({"10.0.1.0", "10.0.1.1"}, 2)).refusal.has_value()) << "without leaf2 it goes";
}

TEST(Sessions, ASessionTakesAPlaceForEachShardOfEachMember) {
  Capabilities can = chip();
  can.places = 3;
  Rack rack(two_leaves(), can);
  EXPECT_FALSE(rack.open(request({"10.0.1.0", "10.0.1.1"})).refusal.has_value());
  EXPECT_NE(refused(rack.open(request({"10.0.1.0", "10.0.1.1"}, 2)), Why::kExhausted)
                .find("switch \"leaf1\" has 1 places for members left, too few for 2 with 1 shards each"),
            std::string::npos);
}

TEST(Sessions, ASwitchThatIsNoPartOfTreesServesItsOwnRanks) {
  Rack rack(two_leaves());
  Capabilities can = software();
  can.trees = false;
  rack.up(1, can);
  EXPECT_NE(refused(rack.open(request({"10.0.1.0", "10.0.1.2"})), Why::kInvalid)
                .find("switch \"leaf1\" (software) cannot be part of a tree"),
            std::string::npos);
  EXPECT_FALSE(rack.open(request({"10.0.1.0", "10.0.1.1"})).refusal.has_value());
}

TEST(Sessions, SizesWithoutACommonOneAreRefused) {
  Rack rack(two_leaves());
  Capabilities can = chip();
  rack.up(1, can);
  can.payloads = {512, 1024};
  rack.up(2, can);
  const std::string text = refused(rack.open(request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"})), Why::kInvalid);
  EXPECT_NE(text.find("no size up to it in common"), std::string::npos) << text;
  EXPECT_NE(text.find("\"leaf2\""), std::string::npos) << text;
}

TEST(Sessions, NoPayloadExceedsAnUplinkOfTheTree) {
  Topology topology = two_leaves();
  topology.switches[1].up.mtu = 9000;
  Rack rack(topology);
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"}, 1);
  asked.payload_bytes = kMaxPayloadBytes;
  EXPECT_EQ(rack.open(asked).granted.payload, 1408U) << "1500 bytes, as leaf2's uplink says nothing";
  OpenRequest within = request({"10.0.1.0", "10.0.1.1"}, 2);
  within.payload_bytes = 16384;
  EXPECT_EQ(rack.open(within).granted.payload, 16384U) << "no uplink is used";
  topology.switches[2].up.mtu = 1075;
  Rack narrow(topology);
  EXPECT_EQ(narrow.open(asked).granted.payload, 512U) << "one byte less than 1024 and headers";
  topology.switches[2].up.mtu = 1076;
  Rack enough(topology);
  EXPECT_EQ(enough.open(asked).granted.payload, 1024U);
  topology.switches[2].up.mtu = 9000;
  Rack wide(topology);
  EXPECT_EQ(wide.open(asked).granted.payload, 8192U);
}

TEST(Sessions, ATreeOfSwitchesInSoftwareIsExact) {  // [EXACT-1, ETREE-1]
  Rack rack(two_leaves());
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"}, 1);
  asked.exact = true;
  const auto granted = rack.open(asked).granted;
  EXPECT_EQ(granted.flags, wire::kOpenExact | wire::kOpenTree);
  for (const PaperSwitch& paper : rack.switches) {
    const Install& install = paper.installed.at(granted.job);
    EXPECT_TRUE(install.exact);
    EXPECT_EQ(install.session_key, granted.session_key);
  }
  OpenRequest within = request({"10.0.1.0", "10.0.1.1"}, 2);
  within.exact = true;
  EXPECT_EQ(rack.open(within).granted.flags, wire::kOpenExact) << "one switch";
  OpenRequest integers = request({"10.0.1.0", "10.0.1.3"}, 3);
  const auto plain = rack.open(integers).granted;
  EXPECT_EQ(plain.flags, 0);
  EXPECT_FALSE(rack.switches[0].installed.at(plain.job).exact);
  EXPECT_EQ(rack.switches[0].installed.at(plain.job).session_key, 0U) << "who needs no key is told none";
}

TEST(Sessions, ATreeWithAChipAddsIntegers) {
  Rack rack(two_leaves());
  rack.up(1, chip());
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"}, 1);
  asked.exact = true;
  EXPECT_EQ(rack.open(asked).granted.flags, wire::kOpenWholeChunks);
}

TEST(Sessions, ExactSlotsKeepContributions) {
  Rack rack(two_leaves());
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"}, 1);
  asked.exact = true;
  const auto granted = rack.open(asked).granted;
  const auto left = [&](int at) { return rack.core.state(at).limits(1).free_slot_memory_bytes; };
  const auto taken = [&](size_t kept) { return granted.slots * SlotStore::slot_bytes(granted.payload, kept); };
  EXPECT_EQ(left(0), software().memory_bytes - taken(3)) << "members 0 and 2";
  EXPECT_EQ(left(1), software().memory_bytes - taken(2)) << "members 0 and 1";
  EXPECT_EQ(left(2), software().memory_bytes - taken(4)) << "members 2 and 3";
}

TEST(Sessions, AnUplinkThatTakesNoneOfTheSizesIsNamed) {
  Topology topology = two_leaves();
  topology.switches[2].up.mtu = 1000;
  Capabilities can = chip();
  can.payloads = {1024};
  Rack rack(topology, can);
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"});
  asked.owner.max_slots = 1000;
  EXPECT_EQ(refused(rack.open(asked), Why::kInvalid),
            "payload_bytes 1024: the uplink of switch \"leaf2\" (mtu 1000) takes up to 948, and the switches of this "
            "session have no such size in common");
}

TEST(Sessions, TheTopologySaysTheMacOfASwitchThatTellsNone) {
  Topology topology = two_leaves();
  for (size_t i = 0; i < 3; ++i) topology.switches[i].mac = "02:00:00:00:aa:0" + std::to_string(i);
  Rack rack(topology);
  rack.up(1, chip());
  const uint8_t job = rack.open(request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"})).granted.job;
  EXPECT_EQ(rack.switches[1].installed.at(job).uplink->parent.mac, "02:00:00:00:aa:00");
  EXPECT_EQ(rack.switches[0].members.at({job, 2, -1}).mac, "02:00:00:00:aa:02");
  EXPECT_EQ(rack.switches[0].members.at({job, 0, -1}).mac, chip().mac) << "leaf1 tells its own";
}

TEST(Sessions, PagesRunOutAndComeBack) {
  Rack rack(lone_switch(), chip(2));
  OpenRequest asked = request({"10.0.1.0"}, 1);
  asked.slots = 100;
  const OpenAnswer first = rack.open(asked);
  asked.client_key = 2;
  ASSERT_FALSE(rack.open(asked).refusal.has_value());
  asked.client_key = 3;
  EXPECT_EQ(
      refused(rack.open(asked), Why::kExhausted),
      "switch \"s\" has 0 slots left at its largest payload, too few for 1 shards: use fewer, or end another job");
  Effects effects;
  EXPECT_FALSE(rack.core.close({first.granted.job, first.granted.epoch}, first.granted.session_key, &effects));
  rack.run(effects);
  EXPECT_FALSE(rack.open(asked).refusal.has_value());
}

TEST(Sessions, QuotasBoundJobsAndSlotsOfAnOwner) {
  Rack rack(lone_switch());
  OpenRequest asked = request({"10.0.1.0"}, 1);
  asked.owner = {"team", 2, 20};
  EXPECT_EQ(rack.open(asked).granted.slots, 16);
  asked.client_key = 2;
  EXPECT_EQ(rack.open(asked).granted.slots, 4) << "what is left";
  asked.client_key = 3;
  EXPECT_EQ(refused(rack.open(asked), Why::kExhausted), "\"team\" has 2 jobs; max_jobs allows 2");
  asked.owner.max_jobs = 0;
  EXPECT_EQ(refused(rack.open(asked), Why::kExhausted), "\"team\" has 20 slots; max_slots allows 20");
  asked.owner = {"others", 2, 20};
  EXPECT_FALSE(rack.open(asked).refusal.has_value());
}

TEST(Sessions, QuotasCountWholePages) {
  Rack rack(lone_switch(), chip(8));
  OpenRequest asked = request({"10.0.1.0"}, 1);
  asked.slots = 4;
  asked.owner = {"team", 0, 256};
  for (uint64_t key = 1; key <= 2; ++key) {
    asked.client_key = key;
    EXPECT_FALSE(rack.open(asked).refusal.has_value());
  }
  asked.client_key = 3;
  EXPECT_EQ(refused(rack.open(asked), Why::kExhausted), "\"team\" has 256 slots; max_slots allows 256");
  asked.owner = {"small", 0, 64};
  EXPECT_TRUE(rack.open(asked).refusal.has_value()) << "less than a page";
}

TEST(Sessions, ASwitchThatDoesNotInstallEndsTheSessionEverywhere) {
  Rack rack(two_leaves());
  rack.switches[2].dead = true;
  const std::vector<std::string> all = {"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"};
  EXPECT_EQ(refused(rack.open(request(all)), Why::kUnavailable), "switch \"leaf2\": does not answer");
  EXPECT_TRUE(rack.switches[0].installed.empty());
  EXPECT_TRUE(rack.switches[1].installed.empty());
  EXPECT_EQ(rack.core.counters().sessions_lost, 1U);
  EXPECT_FALSE(rack.open(request({"10.0.1.0", "10.0.1.1"}, 2)).refusal.has_value()) << "leaf1 is not concerned";
  rack.switches[2].dead = false;
  EXPECT_FALSE(rack.open(request(all)).refusal.has_value()) << "the same key opens anew";
}

TEST(Sessions, ARemovalThatFailedPrecedesTheNextInstall) {
  Rack rack(lone_switch(), chip(1));
  const OpenAnswer first = rack.open(request({"10.0.1.0"}, 1));
  rack.switches[0].dead = true;
  rack.core.switch_down(0, "gone");
  Effects effects;
  rack.core.close({first.granted.job, first.granted.epoch}, first.granted.session_key, &effects);
  rack.run(effects);
  EXPECT_EQ(rack.switches[0].installed.size(), 1U) << "the switch still has it";
  rack.switches[0].dead = false;
  rack.up(0, chip(1));
  rack.switches[0].log.clear();
  const OpenAnswer second = rack.open(request({"10.0.1.0"}, 2));
  ASSERT_FALSE(second.refusal.has_value()) << second.refusal->message;
  EXPECT_EQ(rack.switches[0].log, (std::vector<std::string>{"remove " + std::to_string(first.granted.job),
                                                            "install " + std::to_string(second.granted.job)}));
}

TEST(Sessions, ARemovalThatFailedIsRepeatedWhenTheSwitchIsBack) {
  Rack rack(lone_switch());
  const OpenAnswer first = rack.open(request({"10.0.1.0"}, 1));
  rack.switches[0].dead = true;
  Effects effects;
  rack.core.close({first.granted.job, first.granted.epoch}, first.granted.session_key, &effects);
  rack.run(effects);
  rack.switches[0].dead = false;
  rack.sweep();
  EXPECT_TRUE(rack.switches[0].installed.empty());
  rack.switches[0].log.clear();
  rack.sweep();
  EXPECT_TRUE(rack.switches[0].log.empty()) << "once is enough";
}

TEST(Sessions, ASwitchThatForgotEndsItsSessionsAndNoOthers) {
  Rack rack(two_leaves());
  const OpenAnswer tree = rack.open(request({"10.0.1.0", "10.0.1.2"}, 1));
  const OpenAnswer other = rack.open(request({"10.0.1.0", "10.0.1.1"}, 2));
  Capabilities restarted = software();
  restarted.instance = 7;
  rack.switches[2].installed.clear();
  rack.up(2, restarted);
  ASSERT_EQ(rack.core.sessions(rack.now).size(), 1U);
  EXPECT_EQ(rack.core.sessions(rack.now)[0].id.job, other.granted.job);
  EXPECT_TRUE(rack.switches[0].installed.empty());
  EXPECT_EQ(rack.switches[1].installed.count(tree.granted.job), 0U);
  EXPECT_EQ(rack.core.counters().sessions_lost, 1U);
  rack.up(1, software());
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U) << "a mere reconnection ends nothing";
}

TEST(Sessions, AnOpenWhoseSwitchIsRestartedMeanwhileIsRefused) {
  Rack rack(lone_switch());
  rack.hold = true;
  rack.open(request({"10.0.1.0"}));
  Capabilities restarted = software();
  restarted.instance = 7;
  rack.up(0, restarted);
  EXPECT_EQ(refused(rack.answers[1], Why::kUnavailable), "switch \"s\" was restarted");
  rack.release();
  EXPECT_TRUE(rack.core.sessions(rack.now).empty());
  EXPECT_TRUE(rack.switches[0].installed.empty());
}

TEST(Sessions, CloseNeedsTheKeyAndMayBeRepeated) {
  Rack rack(lone_switch());
  const wire::OpenReply granted = rack.open(request({"10.0.1.0"})).granted;
  Effects effects;
  const auto stranger = rack.core.close({granted.job, granted.epoch}, granted.session_key ^ 1, &effects);
  ASSERT_TRUE(stranger.has_value());
  EXPECT_NE(stranger->message.find("session_key"), std::string::npos);
  EXPECT_EQ(rack.core.sessions(rack.now).size(), 1U);
  EXPECT_FALSE(rack.core.close({granted.job, granted.epoch}, granted.session_key, &effects).has_value());
  rack.run(effects);
  EXPECT_TRUE(rack.switches[0].installed.empty());
  EXPECT_FALSE(rack.core.close({granted.job, granted.epoch}, granted.session_key, &effects).has_value());
  EXPECT_EQ(rack.core.counters().sessions_closed, 1U);
}

TEST(Sessions, ViewsSayWhoIsThere) {
  Rack rack(lone_switch());
  OpenRequest asked = request({"10.0.1.0", "10.0.1.1"});
  asked.owner.name = "team";
  const wire::OpenReply granted = rack.open(asked).granted;
  rack.join(0, granted, 0, kWorker0);
  const SessionView view = rack.core.sessions(rack.now)[0];
  EXPECT_EQ(view.group, "test");
  EXPECT_EQ(view.owner, "team");
  EXPECT_EQ(view.workers, 2);
  EXPECT_EQ(view.joined.low, 1U);
  EXPECT_EQ(view.slots, 16);
  EXPECT_EQ(view.switches, std::vector<int>{0});
}

}  // namespace
}  // namespace switchml::controller
