// Control packets: what a worker gets from a software switch by itself, it gets from the controller.
#include <gtest/gtest.h>

#include "controller/session_state.h"
#include "controller/sessions.h"
#include "fixture.h"
#include "wire/checksum.h"

namespace switchml::controller {
namespace {

using wire::ReplyStatus;

/// Worker w of two_leaves(), one socket per shard.
SwitchPort place(int worker, int shard = 0) {
  return {at("10.0.1." + std::to_string(worker) + ":" + std::to_string(4000 + shard)), "02:00:00:00:01:00",
          static_cast<uint32_t>(1 + worker % 2)};
}
int leaf_of(int worker) { return 1 + worker / 2; }

class Packets : public ::testing::Test {
 protected:
  Packets() {
    OpenRequest asked = request({"10.0.1.0", "10.0.1.1", "10.0.1.2", "10.0.1.3"});
    asked.shards = 2;
    granted_ = rack_.open(asked).granted;
  }
  void join_all() {
    for (int w = 0; w < 4; ++w) {
      for (int s = 0; s < 2; ++s) ASSERT_TRUE(rack_.join(leaf_of(w), granted_, w, place(w, s), s).has_value());
    }
  }
  Rack rack_{two_leaves()};
  wire::OpenReply granted_;
};

TEST_F(Packets, AJoinTellsTheLeafAndIsAnsweredWhenItKnows) {
  const auto reply = rack_.join(1, granted_, 1, place(1), 0);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, ReplyStatus::kOk);
  EXPECT_EQ(reply->request_id, 5U);
  EXPECT_EQ(reply->join.joined, 1);
  EXPECT_TRUE(rack_.switches[1].members.at({granted_.job, 1, 0}) == place(1));
  EXPECT_EQ(rack_.join(2, granted_, 2, place(2, 1), 1)->join.joined, 2);
}

TEST_F(Packets, ARepeatedJoinRenewsWithoutTheSwitch) {
  rack_.join(1, granted_, 0, place(0));
  rack_.switches[1].log.clear();
  rack_.now += seconds(25);
  EXPECT_EQ(rack_.join(1, granted_, 0, place(0))->join.joined, 1);
  EXPECT_TRUE(rack_.switches[1].log.empty());
  EXPECT_EQ(rack_.core.sessions(rack_.now)[0].lease_left, rack_.core.topology().lease);
}

TEST_F(Packets, AJoinFromANewSocketReplacesTheOldOne) {
  rack_.join(1, granted_, 0, place(0));
  SwitchPort moved = place(0);
  moved.endpoint = at("10.0.1.0:5555");
  EXPECT_EQ(rack_.join(1, granted_, 0, moved)->join.joined, 1);
  EXPECT_TRUE(rack_.switches[1].members.at({granted_.job, 0, 0}) == moved);
}

TEST_F(Packets, AJoinIsRefusedWhereItDoesNotBelong) {
  const auto status = [&](int at_switch, int worker, const SwitchPort& from, int shard = 0) {
    const auto reply = rack_.join(at_switch, granted_, worker, from, shard);
    return reply ? reply->status : ReplyStatus::kOk;
  };
  EXPECT_EQ(status(2, 0, place(0)), ReplyStatus::kNotMember) << "through another switch";
  EXPECT_EQ(status(0, 0, place(0)), ReplyStatus::kNotMember) << "through the spine";
  const SwitchPort unknown{at("192.0.2.9:4000"), "", 1};
  EXPECT_EQ(status(2, 0, unknown), ReplyStatus::kNotMember) << "through another switch, from nobody's address";
  EXPECT_EQ(status(1, 0, place(2)), ReplyStatus::kNotMember) << "from an address of another switch";
  SwitchPort wrong_port = place(0);
  wrong_port.port = 2;
  EXPECT_EQ(status(1, 0, wrong_port), ReplyStatus::kNotMember) << "through another port";
  SwitchPort portless = place(0);
  portless.port = 0;
  EXPECT_EQ(status(1, 0, portless), ReplyStatus::kOk) << "a switch that knows no ports";
  EXPECT_EQ(status(1, 4, place(0)), ReplyStatus::kNotMember);
  EXPECT_EQ(status(1, 255, place(0)), ReplyStatus::kNotMember);
  EXPECT_EQ(status(1, 1, place(1), 2), ReplyStatus::kNotMember);
  wire::OpenReply forged = granted_;
  forged.session_key ^= 1;
  EXPECT_EQ(rack_.join(1, forged, 1, place(1))->status, ReplyStatus::kNotMember);
  forged = granted_;
  forged.epoch ^= 1;
  EXPECT_EQ(rack_.join(1, forged, 1, place(1))->status, ReplyStatus::kUnknownSession);
  EXPECT_EQ(rack_.core.counters().joins_refused, 9U);
}

TEST_F(Packets, AJoinThatTheSwitchDoesNotTakeIsNotAnswered) {
  rack_.switches[1].dead = true;
  EXPECT_FALSE(rack_.join(1, granted_, 0, place(0)).has_value());
  rack_.switches[1].dead = false;
  EXPECT_EQ(rack_.join(1, granted_, 0, place(0))->join.joined, 1) << "the repeat tells the switch again";
  EXPECT_EQ(rack_.switches[1].members.count({granted_.job, 0, 0}), 1U);
}

TEST_F(Packets, RepeatsWhileTheSwitchIsBeingToldAreDropped) {
  rack_.hold = true;
  EXPECT_FALSE(rack_.join(1, granted_, 0, place(0)).has_value());
  EXPECT_FALSE(rack_.join(1, granted_, 0, place(0)).has_value());
  EXPECT_EQ(rack_.held.size(), 1U);
  rack_.release();
  EXPECT_EQ(rack_.switches[1].sent.size(), 1U);
}

TEST_F(Packets, AWorkerThatLeftWhileJoiningStaysOut) {
  rack_.join(1, granted_, 1, place(1));
  rack_.hold = true;
  rack_.join(1, granted_, 0, place(0));
  rack_.close(1, granted_, 0, place(0));
  rack_.release();
  EXPECT_EQ(rack_.core.sessions(rack_.now)[0].joined.low, 0U);
  EXPECT_EQ(rack_.join(1, granted_, 0, place(0))->status, ReplyStatus::kNotMember) << "left for good";
}

TEST_F(Packets, TheLastToLeaveEndsTheSessionOnAllSwitches) {
  join_all();
  for (int w = 0; w < 3; ++w) EXPECT_EQ(rack_.close(leaf_of(w), granted_, w, place(w))->status, ReplyStatus::kOk);
  EXPECT_EQ(rack_.switches[0].installed.size(), 1U);
  EXPECT_EQ(rack_.close(leaf_of(3), granted_, 3, place(3))->status, ReplyStatus::kOk);
  for (const PaperSwitch& each : rack_.switches) EXPECT_TRUE(each.installed.empty());
  EXPECT_EQ(rack_.close(leaf_of(3), granted_, 3, place(3))->status, ReplyStatus::kUnknownSession);
  EXPECT_EQ(rack_.core.counters().sessions_closed, 1U);
}

TEST_F(Packets, AProbeUnitesWhatTheLeavesKnow) {
  join_all();
  rack_.switches[0].contributed[granted_.job] = {2};  // of the leaves themselves
  rack_.switches[1].contributed[granted_.job] = {1};
  rack_.switches[2].contributed[granted_.job] = {2, 3, 200};
  const auto reply = rack_.probe(1, granted_, 0, place(0), 3, 9);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, ReplyStatus::kOk);
  EXPECT_EQ(reply->probe.slot, 3);
  EXPECT_EQ(reply->probe.seq, 9U);
  EXPECT_EQ(reply->probe.contributed_low, 0b1110U);
  EXPECT_EQ(reply->probe.contributed_high, 0U);
  EXPECT_EQ(reply->probe.joined_low, 0b1111U);
}

TEST_F(Packets, AProbeAddsUpWhatSwitchesDroppedForItsLength) {  // [PROBE-4]
  join_all();
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0))->probe.dropped_length, 0);
  rack_.switches[0].dropped_length = 3;
  rack_.switches[2].dropped_length = 5;
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0))->probe.dropped_length, 8);
  rack_.switches[1].dropped_length = 65530;
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0))->probe.dropped_length, 65535) << "or more";
}

TEST_F(Packets, AChildsBitAtItsParentIsNoRanksOwn) {
  Topology topology = two_leaves();
  topology.workers[0].attached = 0;  // w0 at the spine itself
  topology.workers[0].port = 0;
  Rack rack(topology);
  const auto granted = rack.open(request({"10.0.1.0", "10.0.1.1", "10.0.1.2"})).granted;
  rack.join(0, granted, 0, place(0));
  rack.switches[0].contributed[granted.job] = {0, 1, 2};  // w0, and both leaves complete
  rack.switches[1].contributed[granted.job] = {};
  rack.switches[2].contributed[granted.job] = {2};
  EXPECT_EQ(rack.probe(0, granted, 0, place(0))->probe.contributed_low, 0b101U);
}

TEST_F(Packets, AProbeIsAnsweredWithoutASwitchThatIsDead) {
  join_all();
  rack_.switches[0].contributed[granted_.job] = {0};
  rack_.switches[1].contributed[granted_.job] = {0, 1};
  rack_.switches[2].dead = true;
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0))->probe.contributed_low, 0b11U);
}

TEST_F(Packets, RanksBelowASilentPathHaveNotContributed) {  // [TREE-10]
  join_all();
  rack_.switches[0].contributed[granted_.job] = {0};
  rack_.switches[1].contributed[granted_.job] = {0, 1};
  rack_.switches[2].contributed[granted_.job] = {2, 3};
  testing::internal::CaptureStderr();
  const auto probe = [&] { return rack_.probe(1, granted_, 0, place(0), 3, 9)->probe.contributed_low; };
  EXPECT_EQ(probe(), 0b0011U) << "leaf2 has it all, the spine nothing of leaf2";
  EXPECT_EQ(rack_.core.counters().silent_paths, 0U) << "it may be under way";
  rack_.now += milliseconds(200);
  EXPECT_EQ(probe(), 0b0011U);
  EXPECT_EQ(rack_.core.counters().silent_paths, 1U);
  rack_.now += milliseconds(200);
  probe();
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string expected =
      "switch \"leaf2\" has aggregated slot 3 seq 9 of job 1, and its parent \"spine\" has nothing of it: check the "
      "path from 10.0.0.3:48879 to 10.0.0.1:48879 (UDP port, MTU, MAC)";
  EXPECT_NE(log.find(expected), std::string::npos) << log;
  EXPECT_EQ(log.find(expected), log.rfind(expected)) << "said once: " << log;
  const SessionView view = rack_.core.sessions(rack_.now)[0];
  ASSERT_EQ(view.silent_paths.size(), 1U);
  EXPECT_EQ(view.silent_paths[0].from, 2);
  EXPECT_EQ(view.silent_paths[0].to, 0);
  rack_.switches[0].contributed[granted_.job] = {0, 2};
  EXPECT_EQ(probe(), 0b1111U);
  EXPECT_TRUE(rack_.core.sessions(rack_.now)[0].silent_paths.empty());
}

TEST_F(Packets, AParentThatDoesNotAnswerAccusesNobody) {
  join_all();
  rack_.switches[0].dead = true;
  rack_.switches[1].contributed[granted_.job] = {0, 1};
  rack_.switches[2].contributed[granted_.job] = {2};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rack_.probe(1, granted_, 0, place(0), 3, 9)->probe.contributed_low, 0b0111U);
    rack_.now += seconds(1);
  }
  EXPECT_EQ(rack_.core.counters().silent_paths, 0U);
}

TEST_F(Packets, ProbesNeedAMember) {
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0))->status, ReplyStatus::kNotMember) << "has not joined";
  rack_.join(1, granted_, 0, place(0));
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(1))->status, ReplyStatus::kNotMember);
  EXPECT_EQ(rack_.probe(1, granted_, 200, place(0))->status, ReplyStatus::kNotMember);
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0), 16)->status, ReplyStatus::kBadRequest);
  EXPECT_EQ(rack_.probe(1, granted_, 0, place(0), 0, 0)->status, ReplyStatus::kBadRequest);
  wire::OpenReply other = granted_;
  other.job ^= 1;
  EXPECT_EQ(rack_.probe(1, other, 0, place(0))->status, ReplyStatus::kUnknownSession);
  rack_.now += seconds(20);
  rack_.probe(1, granted_, 0, place(0));
  EXPECT_EQ(rack_.core.sessions(rack_.now)[0].lease_left, rack_.core.topology().lease) << "a sign of life";
}

TEST_F(Packets, OpensInBandAreRefusedAndOtherVersionsToldWhichThisIs) {
  uint8_t frame[wire::kMaxControlBytes];
  wire::Open open;
  open.client_key = 1;
  open.workers = 2;
  open.shards = 1;
  open.payload = 1024;
  const size_t size = wire::build_open(open, 8, frame);
  EXPECT_EQ(rack_.ask(1, {frame, frame + size}, place(0))->status, ReplyStatus::kControlled);
  frame[0] = static_cast<uint8_t>((wire::kVersion + 1) << 4 | (frame[0] & 0x0f));
  rack_.hand(1, {frame, frame + size}, place(0));
  ASSERT_EQ(rack_.switches[1].sent.size(), 1U);
  const std::vector<uint8_t>& told = rack_.switches[1].sent[0].payload;
  ASSERT_EQ(told.size(), wire::kControlBytes);
  EXPECT_EQ(wire::read_control(told.data()).version, wire::kVersion);
  EXPECT_EQ(wire::read_control(told.data()).status, static_cast<uint16_t>(ReplyStatus::kBadVersion));
}

TEST_F(Packets, WhateverIsNoRequestIsCountedAndDropped) {
  const std::vector<uint8_t> join = Rack::join_frame(granted_, 0);
  for (size_t size = 0; size < join.size(); ++size) {
    EXPECT_FALSE(rack_.ask(1, {join.begin(), join.begin() + static_cast<long>(size)}, place(0)).has_value()) << size;
  }
  std::vector<uint8_t> longer = join;
  longer.push_back(0);
  EXPECT_FALSE(rack_.ask(1, longer, place(0)).has_value());
  std::vector<uint8_t> unknown = join;
  unknown[1] = 9;
  EXPECT_FALSE(rack_.ask(1, unknown, place(0)).has_value()) << "damaged";
  wire::seal_control(unknown.data(), unknown.size() - wire::kControlCheckBytes);
  EXPECT_FALSE(rack_.ask(1, unknown, place(0)).has_value());
  EXPECT_EQ(rack_.core.counters().requests_malformed, join.size() + 3);
  EXPECT_EQ(rack_.core.counters().requests, join.size() + 3);
}

}  // namespace
}  // namespace switchml::controller
