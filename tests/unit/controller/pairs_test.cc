// Workers with queue pairs at switches that are the end of such.
#include "controller/pairs.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml::controller {
namespace {

using wire::ReplyStatus;

wire::Introduction some_introduction() {
  wire::Introduction its;
  its.queue_pair = 0x123;
  its.first_psn = 5;
  its.gid_low = 0xffff0a000101;  // 10.0.1.1
  its.mtu = 2;                   // 512 bytes
  its.service = static_cast<uint8_t>(wire::Service::kUnreliableConnected);
  its.place_bits = 9;
  its.rkey = 0x44;
  its.address = uint64_t{3} << 32;
  return its;
}

TEST(PairOf, TakesWhatASwitchCanWriteTo) {  // [RDMA-10]
  const auto pair = pair_of(some_introduction(), at("10.0.1.1:4000"), 256);
  ASSERT_TRUE(pair.has_value());
  EXPECT_TRUE(*pair == (QueuePair{0x123, 5, 0x44, uint64_t{3} << 32}));
  wire::Introduction larger = some_introduction();
  larger.mtu = 4;
  larger.place_bits = 11;
  EXPECT_TRUE(pair_of(larger, at("10.0.1.1:4000"), 1024).has_value());
}

TEST(PairOf, RefusesEverythingElse) {  // [RDMA-10]
  std::vector<wire::Introduction> wrong(12, some_introduction());
  wrong[0].queue_pair = 1;
  wrong[1].queue_pair = 1 << 24;
  wrong[2].first_psn = 1 << 24;
  wrong[3].gid_low += 1;
  wrong[4].gid_high = 1;
  wrong[5].mtu = 1;
  wrong[6].mtu = 6;
  wrong[7].mtu = 0;
  wrong[8].service = static_cast<uint8_t>(wire::Service::kReliableConnected);
  wrong[9].place_bits = 10;
  wrong[10].place_bits = 8;
  wrong[11].address += 512;
  for (size_t i = 0; i < wrong.size(); ++i) EXPECT_FALSE(pair_of(wrong[i], at("10.0.1.1:4000"), 256)) << i;
  wire::Introduction none = some_introduction();
  none.gid_low = 0;
  EXPECT_FALSE(pair_of(none, at("[::1]:4000"), 256)) << "no IPv4";
}

class Pairs : public ::testing::Test {
 protected:
  Pairs() {
    Capabilities can = chip();
    can.pairs = true;
    rack_.up(0, can);
    granted_ = rack_.open(request({"10.0.1.1", "10.0.1.2"})).granted;
  }
  std::optional<wire::Reply> meet(const wire::Introduction& its, bool shows_cookie = true) {
    uint8_t frame[wire::kMaxControlBytes];
    wire::Membership asking = Rack::member(granted_, 0);
    auto reply = rack_.ask(0, {frame, frame + wire::build_meet(asking, 0, its, 5, frame)}, from_);
    if (!reply || reply->status != ReplyStatus::kProveAddress || !shows_cookie) return reply;
    asking.cookie = reply->join.cookie;
    return rack_.ask(0, {frame, frame + wire::build_meet(asking, 0, its, 5, frame)}, from_);
  }
  Rack rack_{lone_switch()};
  wire::OpenReply granted_;
  SwitchPort from_{at("10.0.1.1:4000"), "02:00:00:00:01:00", 1};
};

TEST_F(Pairs, AMeetTellsTheSwitchAndIsAnsweredWithItsEnd) {  // [MEET-1, MEET-2]
  const auto reply = meet(some_introduction());
  ASSERT_TRUE(reply.has_value());
  ASSERT_EQ(reply->status, ReplyStatus::kOk);
  EXPECT_EQ(reply->join.joined, 1);
  EXPECT_TRUE(rack_.switches[0].pairs.at({granted_.job, 0, 0}) == (QueuePair{0x123, 5, 0x44, uint64_t{3} << 32}));
  const wire::Introduction& own = reply->introduction;
  EXPECT_EQ(own.queue_pair, 0x1123U);
  EXPECT_EQ(own.first_psn, 77U);
  EXPECT_EQ(own.gid_high, 0U);
  EXPECT_EQ(own.gid_low, 0xffff0a000001U) << "10.0.0.1, the switch's";
  EXPECT_EQ(own.mtu, 2);
  EXPECT_EQ(own.place_bits, 9);
  EXPECT_EQ(own.service, static_cast<uint8_t>(wire::Service::kUnreliableConnected));
}

TEST_F(Pairs, BeforeTheCookieIsShownNothingIsTold) {  // [MEET-2]
  const auto reply = meet(some_introduction(), false);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, ReplyStatus::kProveAddress);
  EXPECT_EQ(reply->introduction.queue_pair, 0U);
  EXPECT_TRUE(rack_.switches[0].pairs.empty());
}

TEST_F(Pairs, TheSameAgainIsAnsweredWithoutTheSwitch) {  // [MEET-4]
  meet(some_introduction());
  rack_.switches[0].log.clear();
  const auto reply = meet(some_introduction());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->introduction.queue_pair, 0x1123U);
  EXPECT_TRUE(rack_.switches[0].log.empty());
}

TEST_F(Pairs, AnotherPairReplacesTheFirst) {  // [MEET-4]
  meet(some_introduction());
  wire::Introduction other = some_introduction();
  other.queue_pair = 0x200;
  EXPECT_EQ(meet(other)->introduction.queue_pair, 0x1200U);
  EXPECT_EQ(rack_.switches[0].pairs.at({granted_.job, 0, 0}).number, 0x200U);
}

TEST_F(Pairs, WhatIsNoPairIsRefused) {
  wire::Introduction wrong = some_introduction();
  wrong.place_bits = 12;
  EXPECT_EQ(meet(wrong)->status, ReplyStatus::kBadRequest);
  EXPECT_TRUE(rack_.switches[0].pairs.empty());
  granted_.epoch += 1;
  EXPECT_EQ(meet(some_introduction())->status, ReplyStatus::kUnknownSession);
}

TEST_F(Pairs, AGroupThatComesByPairsNeedsSwitchesForThem) {
  OpenRequest asked = request({"10.0.1.1", "10.0.1.2"}, 2);
  asked.pairs = true;
  EXPECT_FALSE(rack_.open(asked).refusal.has_value());
  rack_.up(0, chip());
  asked.client_key = 3;
  EXPECT_EQ(refused(rack_.open(asked), Why::kInvalid),
            "switch \"s\" (bmv2) is not the end of queue pairs: set SWITCHML_TRANSPORT to auto or udp");
}

TEST_F(Pairs, ToASwitchThatIsNotTheEndOfPairsAMeetIsNoRequest) {  // [MEET-3]
  rack_.up(0, chip());
  EXPECT_FALSE(meet(some_introduction()).has_value());
  EXPECT_EQ(rack_.core.counters().requests_malformed, 1U);
}

}  // namespace
}  // namespace switchml::controller
