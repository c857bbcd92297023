#include "controllerd/dispatcher.h"

#include <gtest/gtest.h>

#include <atomic>

#include "fixture.h"

namespace switchml {
namespace {

using controller::OpenAnswer;
using controller::Why;

class Dispatch : public ::testing::Test {
 protected:
  Dispatch() : dispatcher_(fabric_.topology, 42, grpc::InsecureChannelCredentials()) {
    dispatcher_.connect();
    EXPECT_TRUE(all_connected(dispatcher_));
    EXPECT_TRUE(eventually(
        [&] { return fabric_.agents[0].listened && fabric_.agents[1].listened && fabric_.agents[2].listened; }));
  }
  Fabric fabric_;
  Dispatcher dispatcher_;
};

TEST_F(Dispatch, OpensOnAllSwitchesOfTheTree) {
  const OpenAnswer answer = dispatcher_.open(Fabric::request());
  ASSERT_FALSE(answer.refusal.has_value()) << answer.refusal->message;
  for (FakeAgent& agent : fabric_.agents) {
    ASSERT_EQ(agent.installs().size(), 1U);
    EXPECT_EQ(agent.installs()[0].epoch(), answer.granted.epoch);
  }
  EXPECT_EQ(fabric_.agents[0].members().size(), 2U) << "the leaves";
  EXPECT_EQ(fabric_.agents[1].installs()[0].uplink().parent().address(), "10.0.0.1:48879");
  EXPECT_FALSE(fabric_.agents[0].installs()[0].has_uplink());
  EXPECT_EQ(dispatcher_.sessions().size(), 1U);
  EXPECT_EQ(dispatcher_.counters().sessions_opened, 1U);
}

TEST_F(Dispatch, AJoinGoesThroughItsSwitch) {
  const OpenAnswer answer = dispatcher_.open(Fabric::request());
  uint8_t frame[wire::kMaxControlBytes];
  wire::Membership member{answer.granted.job, answer.granted.epoch, answer.granted.session_key, 1};
  const wire::ReplyStatus statuses[] = {wire::ReplyStatus::kProveAddress, wire::ReplyStatus::kOk};
  for (size_t i = 0; i < 2; ++i) {
    v1::ControlPacket packet;
    packet.set_payload(frame, wire::build_join(member, 0, 77 + static_cast<uint32_t>(i), frame));
    packet.mutable_worker()->set_address("10.0.1.2:4000");
    fabric_.agents[2].hand_in(packet);
    ASSERT_TRUE(eventually([&] { return fabric_.agents[2].sent().size() > i; }));
    const v1::ControlPacket sent = fabric_.agents[2].sent()[i];
    EXPECT_EQ(sent.worker().address(), "10.0.1.2:4000");
    wire::Reply reply;
    ASSERT_EQ(wire::parse_reply(reinterpret_cast<const uint8_t*>(sent.payload().data()), sent.payload().size(), &reply),
              wire::ParseError::kNone);
    EXPECT_EQ(reply.status, statuses[i]);
    EXPECT_EQ(reply.request_id, 77U + i);
    EXPECT_EQ(fabric_.agents[2].members().size(), i) << "nobody joins whose address is not proven";
    member.cookie = reply.join.cookie;
  }
  EXPECT_EQ(fabric_.agents[2].members()[0].place().address(), "10.0.1.2:4000");
  EXPECT_TRUE(fabric_.agents[1].members().empty());
}

TEST_F(Dispatch, ASwitchThatRefusesEndsTheOpenEverywhere) {
  fabric_.agents[2].refuses = true;
  const OpenAnswer answer = dispatcher_.open(Fabric::request());
  ASSERT_TRUE(answer.refusal.has_value());
  EXPECT_EQ(answer.refusal->why, Why::kUnavailable);
  EXPECT_EQ(answer.refusal->message, "switch \"leaf2\": the tables are full");
  EXPECT_TRUE(eventually([&] { return fabric_.agents[0].count("remove") == 1; }));
  EXPECT_TRUE(dispatcher_.sessions().empty());
}

TEST_F(Dispatch, ADeadSwitchDelaysNobodyElse) {
  fabric_.agents[2].slow_ms = 2000;
  std::atomic<bool> slow_has_ended{false};
  std::thread slow([&] {
    dispatcher_.open(Fabric::request(1));
    slow_has_ended = true;
  });
  EXPECT_TRUE(eventually([&] { return fabric_.agents[1].count("install") == 1; }));
  controller::OpenRequest asked = Fabric::request(2);
  asked.workers = 1;
  asked.ranks = {{literal("10.0.1.1")}};
  EXPECT_FALSE(dispatcher_.open(asked).refusal.has_value());
  EXPECT_FALSE(slow_has_ended) << "leaf1 alone";
  slow.join();
}

TEST_F(Dispatch, ARestartedSwitchEndsItsSessions) {
  ASSERT_FALSE(dispatcher_.open(Fabric::request()).refusal.has_value());
  fabric_.agents[1].restart_switch();
  EXPECT_TRUE(eventually([&] { return dispatcher_.sessions().empty(); }));
  EXPECT_TRUE(eventually([&] { return fabric_.agents[2].count("remove") == 1; }));
  EXPECT_EQ(dispatcher_.counters().sessions_lost, 1U);
  ASSERT_TRUE(all_connected(dispatcher_));
  EXPECT_FALSE(dispatcher_.open(Fabric::request()).refusal.has_value());
}

TEST_F(Dispatch, AnAgentThatWasAwayKeepsItsSessions) {
  ASSERT_FALSE(dispatcher_.open(Fabric::request()).refusal.has_value());
  fabric_.agents[1].stop();
  EXPECT_TRUE(eventually([&] { return !dispatcher_.switches()[1].connected; }));
  const OpenAnswer refused = dispatcher_.open(Fabric::request(2));
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_NE(refused.refusal->message.find("switch \"leaf1\" cannot be used"), std::string::npos);
  fabric_.agents[1].start();
  ASSERT_TRUE(all_connected(dispatcher_));
  EXPECT_EQ(dispatcher_.sessions().size(), 1U);
  EXPECT_FALSE(dispatcher_.open(Fabric::request(2)).refusal.has_value());
}

TEST_F(Dispatch, RenewAndClose) {
  const wire::OpenReply granted = dispatcher_.open(Fabric::request()).granted;
  EXPECT_FALSE(dispatcher_.renew({granted.job, granted.epoch}, granted.session_key).has_value());
  EXPECT_TRUE(dispatcher_.renew({granted.job, granted.epoch}, granted.session_key ^ 1).has_value());
  EXPECT_FALSE(dispatcher_.close({granted.job, granted.epoch}, granted.session_key).has_value());
  EXPECT_TRUE(eventually([&] { return fabric_.agents[0].count("remove") == 1; }));
  EXPECT_TRUE(dispatcher_.sessions().empty());
}

TEST_F(Dispatch, AfterStopOpensAreRefusedAtOnce) {
  fabric_.agents[2].slow_ms = 2000;
  OpenAnswer waiting;
  std::thread caller([&] { waiting = dispatcher_.open(Fabric::request(1)); });
  EXPECT_TRUE(eventually([&] { return fabric_.agents[1].count("install") == 1; }));
  dispatcher_.stop();
  caller.join();
  ASSERT_TRUE(waiting.refusal.has_value());
  EXPECT_EQ(waiting.refusal->message, "the controller is shutting down");
  EXPECT_EQ(dispatcher_.open(Fabric::request(2)).refusal->message, "the controller is shutting down");
}

// leaf1 is a chip, which is told MAC addresses and tells its own; the others are software.
TEST(DispatchMacs, SoftwareAndChipsInOneTreeKnowEachOther) {
  Fabric fabric;
  for (int i = 0; i < 3; ++i) fabric.topology.switches[i].mac = "02:00:00:00:aa:0" + std::to_string(i);
  fabric.topology.switches[1].up.port = 9;
  v1::Capabilities& chip = fabric.agents[1].can;
  chip.set_mac("02:00:00:00:00:01");
  chip.set_any_payload(false);
  chip.set_whole_chunks(true);
  chip.set_pages(4);
  chip.set_page_slots(128);
  Dispatcher dispatcher(fabric.topology, 42, grpc::InsecureChannelCredentials());
  dispatcher.connect();
  ASSERT_TRUE(all_connected(dispatcher));
  const OpenAnswer answer = dispatcher.open(Fabric::request());
  ASSERT_FALSE(answer.refusal.has_value()) << answer.refusal->message;
  const v1::SwitchPlace parent = fabric.agents[1].installs()[0].uplink().parent();
  EXPECT_EQ(parent.mac(), "02:00:00:00:aa:00") << "the software root's, from the topology";
  EXPECT_EQ(parent.address(), "10.0.0.1:48879");
  EXPECT_EQ(parent.port(), 9U);
  std::map<std::string, std::string> children;
  for (const v1::SetMemberRequest& member : fabric.agents[0].members()) {
    children[member.place().address()] = member.place().mac();
  }
  EXPECT_EQ(children["10.0.0.2:48879"], "02:00:00:00:00:01") << "the chip's own";
  EXPECT_EQ(children["10.0.0.3:48879"], "02:00:00:00:aa:02");
  EXPECT_EQ(answer.granted.flags, wire::kOpenWholeChunks);
}

TEST(DispatchPlaces, AnAgentSaysHowManyMembersItsSwitchHolds) {
  Fabric fabric;
  fabric.agents[1].can.set_places(1);
  Dispatcher dispatcher(fabric.topology, 42, grpc::InsecureChannelCredentials());
  dispatcher.connect();
  ASSERT_TRUE(all_connected(dispatcher));
  ASSERT_FALSE(dispatcher.open(Fabric::request()).refusal.has_value());
  const OpenAnswer second = dispatcher.open(Fabric::request(2));
  ASSERT_TRUE(second.refusal.has_value());
  EXPECT_NE(second.refusal->message.find("places for members left"), std::string::npos) << second.refusal->message;
}

TEST(DispatchLease, SessionsOfSilentWorkersEnd) {
  Fabric fabric;
  fabric.topology.lease = seconds(1);
  Dispatcher dispatcher(fabric.topology, 42, grpc::InsecureChannelCredentials());
  EXPECT_EQ(fabric.agents[0].count("reset"), 0U) << "nothing is touched before connect()";
  dispatcher.connect();
  ASSERT_TRUE(all_connected(dispatcher));
  ASSERT_FALSE(dispatcher.open(Fabric::request()).refusal.has_value());
  EXPECT_TRUE(eventually([&] { return fabric.agents[0].count("remove") == 1; }));
  EXPECT_EQ(dispatcher.counters().sessions_expired, 1U);
}

}  // namespace
}  // namespace switchml
