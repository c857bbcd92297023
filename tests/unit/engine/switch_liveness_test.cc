#include "engine/switch_liveness.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace switchml::testing {
namespace {

/// The session of rank 0 of five, where a chunk waits since `begin`.
class SwitchLivenessTest : public ::testing::Test {
 protected:
  using Use = SwitchLiveness::Use;

  explicit SwitchLivenessTest(Duration patience = seconds(10), bool can_move = false)
      : session(parameters()), liveness(session, 1, patience, can_move, begin) {
    liveness.on_idle(begin);
    liveness.on_sent(begin);
  }

  static SessionParameters parameters() {
    SessionParameters session;
    session.job = 9;
    session.epoch = 0xabcd;
    session.session_key = 4711;
    session.workers = 5;
    session.switch_name = "test-switch";
    session.lease = milliseconds(400);
    session.secret[0] = 0x7000000000000001;
    session.secret[1] = 0x0000000100000002;
    return session;
  }

  /// Asks, and returns the number of the request.
  uint32_t ask(Use use = {2, 1}) { return id_of(liveness.probe(use, now)); }
  static uint32_t id_of(const SwitchLiveness::Request& request) {
    EXPECT_NE(request.size, 0U);
    return wire::read_control(request.bytes.data()).request_id;
  }
  static uint64_t cookie_of(const SwitchLiveness::Request& request) {
    return wire::read_join(request.bytes.data() + wire::kControlBytes).cookie;
  }
  SwitchLiveness::Consequence reply(wire::Request type, wire::ReplyStatus status, uint32_t id, uint64_t cookie = 0) {
    wire::Reply reply;
    reply.type = type;
    reply.status = status;
    reply.request_id = id;
    reply.join.cookie = cookie;
    return liveness.on_reply(reply, now);
  }
  /// Whether what was asked about cannot complete after this answer.
  bool answer(uint32_t id, uint64_t joined, uint64_t contributed, uint16_t dropped_length = 0) {
    wire::Reply reply;
    reply.type = wire::Request::kProbe;
    reply.request_id = id;
    reply.probe.joined_low = joined;
    reply.probe.contributed_low = contributed;
    reply.probe.dropped_length = dropped_length;
    const auto next = liveness.on_reply(reply, now);
    EXPECT_TRUE(next.lost.ok() && next.request.size == 0);
    return next.cannot_complete;
  }
  /// Lets time pass as a shard does, without answers; when the switch is given up, or kNever.
  Time given_up_within(Duration time) {
    for (const Time end = now + time; now < end; now += milliseconds(1)) {
      if (!liveness.verdict(now).ok()) return now;
      if (liveness.is_probe_due(now)) ask();
    }
    return kNever;
  }
  void expect_missing(const std::string& text) { EXPECT_EQ(liveness.missing_text(now).find(text), 0U) << missing(); }
  std::string missing() { return liveness.missing_text(now); }

  const Time begin{seconds(1)};
  Time now = begin + seconds(2);
  SessionParameters session;
  SwitchLiveness liveness;
};

// ---- probes ----

TEST_F(SwitchLivenessTest, AsksAfterASilenceAndThenEverySecond) {
  now = begin;
  std::vector<Duration> asked;
  for (; now < begin + milliseconds(2400); now += milliseconds(1)) {
    if (!liveness.is_probe_due(now)) continue;
    asked.push_back(now - begin);
    ask();
  }
  EXPECT_EQ(asked, (std::vector<Duration>{milliseconds(300), milliseconds(1300), milliseconds(2300)}));
}

TEST_F(SwitchLivenessTest, AResultPutsTheProbeOff) {
  EXPECT_TRUE(liveness.is_probe_due(now));
  liveness.on_accepted(true, now);
  EXPECT_FALSE(liveness.is_probe_due(now + milliseconds(299)));
  EXPECT_TRUE(liveness.is_probe_due(now + milliseconds(300)));
  liveness.on_accepted(false, now);
  EXPECT_FALSE(liveness.is_probe_due(now + seconds(1000))) << "nothing waits";
}

TEST_F(SwitchLivenessTest, AProbeSaysWhoAsksAboutWhat) {
  const auto request = liveness.probe({5, 77}, now);
  const wire::Probe probe = wire::read_probe(request.bytes.data() + wire::kControlBytes);
  EXPECT_EQ(probe.job, 9);
  EXPECT_EQ(probe.epoch, 0xabcdU);
  EXPECT_EQ(probe.slot, 5);
  EXPECT_EQ(probe.seq, 77U);
  EXPECT_EQ(liveness.asked(), (Use{5, 77}));
}

TEST_F(SwitchLivenessTest, NumbersOfRequestsFollowFromTheSecret) {
  EXPECT_EQ(ask(), 0x70000002U);
  EXPECT_EQ(id_of(liveness.keep_alive(now)), 0x70000003U);
  EXPECT_EQ(ask(), 0x70000004U);
}

// ---- what is missing ----

TEST_F(SwitchLivenessTest, SaysThatTheSwitchIsSilent) {
  expect_missing("the switch test-switch has not answered for 2 s");
  liveness.on_socket_error("no route", false, now);
  expect_missing("the switch test-switch has not answered for 2 s (no route)");
}

TEST_F(SwitchLivenessTest, NamesTheRanksThatDidNotContribute) {
  session.worker_names = {"0, 1"};
  answer(ask(), 0b11111, 0b01010);
  expect_missing("no contribution from rank 0, 1, 2, 4 for 2 s: is that rank dead, stopped");
  EXPECT_EQ(missing().find("dropped_length"), std::string::npos);
}

TEST_F(SwitchLivenessTest, NamesRanksBeyondTheFirst64) {
  session.workers = 70;
  wire::Reply reply;
  reply.type = wire::Request::kProbe;
  reply.request_id = ask();
  reply.probe.joined_low = reply.probe.contributed_low = ~uint64_t{0};
  reply.probe.joined_high = 0b111111;
  reply.probe.contributed_high = 0b101111;
  EXPECT_FALSE(liveness.on_reply(reply, now).cannot_complete);
  expect_missing("no contribution from rank 68 for 2 s");
}

TEST_F(SwitchLivenessTest, SaysWhatTheSwitchDroppedForItsLength) {
  answer(ask(), 0b11111, 0b11101, 12);
  expect_missing("no contribution from rank 1 for");
  EXPECT_NE(missing().find("dropped_length of the switch is 12: a host sends bursts as one packet"), std::string::npos);
  answer(ask(), 0b11111, 0b11101, 65535);
  EXPECT_NE(missing().find("dropped_length of the switch is 65535 or more:"), std::string::npos) << missing();
}

TEST_F(SwitchLivenessTest, SaysThatOnlyTheResultIsMissing) {
  answer(ask(), 0b11111, 0b11111);
  expect_missing("the switch test-switch has every contribution, but its result does not arrive");
}

TEST_F(SwitchLivenessTest, OnlyAFreshAnswerToTheLastProbeCounts) {
  const uint32_t id = ask();
  answer(id - 1, 0b11111, 0b01010);
  expect_missing("the switch test-switch has not answered");
  answer(id, 0b11111, 0b01010);
  now += milliseconds(2500);
  expect_missing("no contribution from rank 0, 2, 4 for 4.5 s");
  now += milliseconds(1);
  expect_missing("the switch test-switch has not answered");
}

TEST_F(SwitchLivenessTest, WhatIsAcceptedEndsTheSilenceAndTheAnswer) {
  answer(ask(), 0b11111, 0b01010);
  liveness.on_accepted(true, now);
  now += milliseconds(500);
  expect_missing("the switch test-switch has not answered for 0.5 s");
}

// ---- who has left ----

TEST_F(SwitchLivenessTest, WhoHasLeftIsNotWaitedFor) {
  EXPECT_FALSE(answer(ask(), 0b01111, 0b01010)) << "what it sent may have overtaken this";
  const uint32_t id = ask();
  EXPECT_TRUE(answer(id, 0b01111, 0b01010));
  expect_missing("no contribution from rank 0, 2, 4 (left the session) for 2 s");
}

TEST_F(SwitchLivenessTest, ACopyOfAnAnswerIsNoSecondOne) {
  const uint32_t id = ask();
  EXPECT_FALSE(answer(id, 0b01111, 0b01010));
  EXPECT_FALSE(answer(id, 0b01111, 0b01010));
}

TEST_F(SwitchLivenessTest, AnswersOfDifferentUsesAreNotCountedTogether) {
  EXPECT_FALSE(answer(ask({2, 1}), 0b01111, 0));
  EXPECT_FALSE(answer(ask({2, 2}), 0b01111, 0));
  EXPECT_FALSE(answer(ask({2, 2}), 0b11111, 0)) << "it is there again";
  EXPECT_FALSE(answer(ask({2, 2}), 0b01111, 0));
  EXPECT_TRUE(answer(ask({2, 2}), 0b01111, 0));
}

TEST_F(SwitchLivenessTest, WhoHasContributedMayLeave) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(answer(ask(), 0b01111, 0b11010));
}

// ---- a switch that says nothing ----

class Patience : public SwitchLivenessTest {
 protected:
  explicit Patience(bool can_move = false) : SwitchLivenessTest(seconds(3), can_move) { now = begin; }
};
class PatienceWithWayOut : public Patience {
 protected:
  PatienceWithWayOut() : Patience(true) {}
};

TEST_F(Patience, ASilentSwitchIsGivenUp) {
  EXPECT_EQ(given_up_within(seconds(10)), begin + milliseconds(300) + 4 * milliseconds(750));
  EXPECT_EQ(liveness.verdict(now).code(), Code::kUnavailable);
  EXPECT_EQ(liveness.verdict(now).message(), "the switch test-switch has not answered for 3.3 s");
}

TEST_F(Patience, ASwitchThatAnswersIsNotGivenUp) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(given_up_within(seconds(2)), kNever);
    if (i % 3 == 0) answer(ask(), 0b11111, 1);
    if (i % 3 == 1) liveness.on_result();
    if (i % 3 == 2) reply(wire::Request::kJoin, wire::ReplyStatus::kOk, id_of(liveness.keep_alive(now)));
  }
}

TEST_F(Patience, AProcessThatWasStoppedHasAskedNothing) {
  EXPECT_EQ(given_up_within(milliseconds(400)), kNever);
  now += seconds(100);
  EXPECT_EQ(given_up_within(seconds(1)), kNever);
}

TEST_F(Patience, AControllersSilenceSaysNothingOfTheSwitch) {
  session.controlled = true;
  EXPECT_EQ(given_up_within(seconds(30)), kNever);
}

TEST_F(PatienceWithWayOut, AControllersSilenceIsEnoughToGoElsewhere) {
  session.controlled = true;
  EXPECT_NE(given_up_within(seconds(10)), kNever);
}

TEST_F(Patience, AnotherSwitchIsWaitedForAnew) {
  EXPECT_NE(given_up_within(seconds(10)), kNever);
  liveness.restart(now);
  EXPECT_TRUE(liveness.verdict(now).ok());
  EXPECT_EQ(liveness.next_wakeup(true), now + milliseconds(100)) << "a lease as of now";
  expect_missing("the switch test-switch has not answered for 0 s");
  liveness.on_sent(now);
  EXPECT_FALSE(liveness.is_probe_due(now + milliseconds(299)));
}

TEST_F(SwitchLivenessTest, ASwitchThatWasRestartedKnowsNoSession) {
  for (const auto type : {wire::Request::kProbe, wire::Request::kJoin}) {
    const uint32_t id = type == wire::Request::kProbe ? ask() : id_of(liveness.keep_alive(now));
    EXPECT_TRUE(reply(type, wire::ReplyStatus::kUnknownSession, id - 1).lost.ok()) << "to what was not asked";
    const Status lost = reply(type, wire::ReplyStatus::kUnknownSession, id).lost;
    EXPECT_EQ(lost.code(), Code::kUnavailable);
    EXPECT_EQ(lost.message().find("the switch test-switch no longer knows this session (unknown session)"), 0U);
  }
}

// ---- socket errors ----

TEST_F(SwitchLivenessTest, SocketErrorsAreAskedForEveryFiveMilliseconds) {
  EXPECT_TRUE(liveness.is_socket_error_due(now));
  liveness.on_socket_error("", false, now);
  EXPECT_FALSE(liveness.is_socket_error_due(now + microseconds(4999)));
  EXPECT_TRUE(liveness.is_socket_error_due(now + milliseconds(5)));
}

TEST_F(SwitchLivenessTest, ARefusalThatStandsForTwoSecondsEndsTheSession) {
  liveness.on_socket_error("connection refused", true, now);
  liveness.on_socket_error("connection refused", true, now + seconds(1));
  EXPECT_TRUE(liveness.verdict(now + milliseconds(1999)).ok());
  const Status gone = liveness.verdict(now + seconds(2));
  EXPECT_EQ(gone.code(), Code::kUnavailable);
  EXPECT_EQ(gone.message(), "the switch test-switch is gone: connection refused");
  liveness.on_received();  // so it was a passing state
  EXPECT_TRUE(liveness.verdict(now + seconds(2)).ok());
}

// A link that is down for a moment: the kernel has no route, which says nothing of the switch.
TEST_F(SwitchLivenessTest, AnUnreachableNetworkIsNoRefusal) {
  liveness.on_socket_error("network is unreachable", false, now);
  EXPECT_TRUE(liveness.verdict(now + seconds(100)).ok());
}

// ---- leases ----

TEST_F(SwitchLivenessTest, RenewsItsLeaseFourTimesPerLease) {  // [LEASE-5]
  EXPECT_EQ(liveness.next_wakeup(false), begin + milliseconds(100));
  EXPECT_FALSE(liveness.is_keep_alive_due(begin + microseconds(99999)));
  EXPECT_TRUE(liveness.is_keep_alive_due(begin + milliseconds(100)));
  const auto request = liveness.keep_alive(now);
  EXPECT_EQ(liveness.next_wakeup(false), now + milliseconds(100));
  const wire::Join join = wire::read_join(request.bytes.data() + wire::kControlBytes);
  EXPECT_EQ(join.session_key, 4711U);
  EXPECT_EQ(join.job, 9);
  EXPECT_EQ(join.worker, 0);
  EXPECT_EQ(join.shard, 1);
}

TEST_F(SwitchLivenessTest, IsHeardOftenHoweverLongTheLease) {  // [LEASE-5]
  session.lease = std::chrono::minutes(30);
  EXPECT_EQ(session.renewal(), seconds(450));
  session.most_silence = seconds(5);
  EXPECT_EQ(session.renewal(), seconds(5));
  session.lease = seconds(4);
  EXPECT_EQ(session.renewal(), seconds(1));
}

TEST_F(SwitchLivenessTest, AKeepAliveShowsWhatItIsAskedForAtOnce) {  // [COOKIE-3]
  const auto asked_for = [this](const SwitchLiveness::Request& join, uint64_t cookie) {
    return reply(wire::Request::kJoin, wire::ReplyStatus::kProveAddress, id_of(join), cookie).request;
  };
  auto join = liveness.keep_alive(now);
  EXPECT_EQ(cookie_of(join), 0U);
  join = asked_for(join, 5);
  EXPECT_EQ(cookie_of(join), 5U) << "at once";
  EXPECT_EQ(asked_for(join, 6).size, 0U) << "not endlessly";
  join = liveness.keep_alive(now);
  EXPECT_EQ(cookie_of(join), 6U) << "from now on";
  join = asked_for(join, 7);
  EXPECT_EQ(cookie_of(join), 7U) << "its address has changed";
  EXPECT_EQ(cookie_of(liveness.keep_alive(now)), 7U);
}

// [RDMA-3]
// Without a checksum: damage may have made it of another reply.
TEST_F(SwitchLivenessTest, ThatTheSwitchSpeaksAnotherVersionIsBelievedTheSecondTime) {  // [CTL-9]
  const auto join = [this](wire::ReplyStatus status, const SwitchLiveness::Request& request) {
    return reply(wire::Request::kJoin, status, id_of(request));
  };
  const auto first = join(wire::ReplyStatus::kBadVersion, liveness.keep_alive(now));
  EXPECT_TRUE(first.lost.ok());
  const auto again = join(wire::ReplyStatus::kOk, first.request);
  EXPECT_TRUE(again.lost.ok());
  const auto later = join(wire::ReplyStatus::kBadVersion, liveness.keep_alive(now));
  EXPECT_TRUE(later.lost.ok()) << "it was right in between";
  const auto last = join(wire::ReplyStatus::kBadVersion, later.request);
  EXPECT_EQ(last.request.size, 0U);
  EXPECT_NE(last.lost.message().find("another protocol version"), std::string::npos) << last.lost.message();
}

TEST_F(SwitchLivenessTest, JoinsIntroduceAQueuePairUntilTheSwitchHasAnswered) {
  const auto type_of = [](const SwitchLiveness::Request& request) {
    return static_cast<wire::Request>(wire::read_control(request.bytes.data()).type);
  };
  EXPECT_EQ(type_of(liveness.keep_alive(now)), wire::Request::kJoin);
  wire::Introduction own;
  own.queue_pair = 17;
  now += seconds(1);
  EXPECT_TRUE(liveness.is_meeting_due(now));
  liveness.meet(own);
  const auto first = liveness.keep_alive(now);
  EXPECT_EQ(type_of(first), wire::Request::kMeet);
  EXPECT_FALSE(liveness.is_meeting_due(now)) << "an answer takes its time";
  now += milliseconds(200);
  EXPECT_TRUE(liveness.is_meeting_due(now)) << "or it is lost";
  const auto asked_for = reply(wire::Request::kMeet, wire::ReplyStatus::kProveAddress, id_of(first), 5);
  EXPECT_EQ(type_of(asked_for.request), wire::Request::kMeet) << "with what it was asked for";
  EXPECT_EQ(cookie_of(asked_for.request), 5U);
  EXPECT_FALSE(asked_for.introduction);
  EXPECT_FALSE(reply(wire::Request::kMeet, wire::ReplyStatus::kOk, id_of(first)).introduction) << "of an older one";
  EXPECT_TRUE(reply(wire::Request::kMeet, wire::ReplyStatus::kOk, id_of(asked_for.request)).introduction);
  EXPECT_EQ(type_of(liveness.keep_alive(now)), wire::Request::kJoin);
}

TEST_F(SwitchLivenessTest, WhoComesToPlacesSaysWithEachJoinWhereHisAre) {  // [RDMA-16]
  session.switch_endpoint.carrier = Carrier::kPlaces;
  wire::Introduction own;
  own.queue_pair = 17;
  liveness.meet(own);
  for (int i = 0; i < 3; ++i) {
    const auto request = liveness.keep_alive(now);
    EXPECT_EQ(wire::read_control(request.bytes.data()).type, static_cast<uint8_t>(wire::Request::kMeet)) << i;
    EXPECT_TRUE(reply(wire::Request::kMeet, wire::ReplyStatus::kOk, id_of(request)).introduction);
  }
}

// A card without an address may get it back, as one whose link comes up again.
TEST_F(SwitchLivenessTest, ASwitchThatGivesNoPairIsAskedForAsLongAsASilentOne) {
  liveness.meet(wire::Introduction());
  for (const bool is_given : {true, false}) {
    int vain = 0;
    for (; liveness.verdict(now).ok() && vain < 1000; ++vain) {
      if (is_given && vain == 20) break;
      const auto next = reply(wire::Request::kMeet, wire::ReplyStatus::kNoCard, id_of(liveness.keep_alive(now)));
      EXPECT_TRUE(next.lost.ok());
      EXPECT_FALSE(liveness.is_meeting_due(now)) << "not at once";
      now += milliseconds(200);
      EXPECT_TRUE(liveness.is_meeting_due(now));
    }
    EXPECT_TRUE(vain >= 20 && vain < 1000) << vain;
    if (is_given) liveness.on_pair();
  }
  EXPECT_EQ(liveness.verdict(now).message(),
            "no queue pair with the switch test-switch can be had: the switch's card gives no queue pair");
}

TEST_F(SwitchLivenessTest, WhoseOwnCardGivesNoPairGivesUpToo) {
  int vain = 0;
  for (; liveness.verdict(now).ok() && vain < 1000; ++vain) liveness.on_no_pair("card mlx5_0 has failed", now);
  EXPECT_TRUE(vain > 1 && vain < 1000) << vain;
  EXPECT_EQ(liveness.verdict(now).message(),
            "no queue pair with the switch test-switch can be had: card mlx5_0 has failed");
}

TEST_F(SwitchLivenessTest, WhoIsNoMemberAtItsAddressJoinsAgain) {
  const auto next = reply(wire::Request::kProbe, wire::ReplyStatus::kNotMember, ask());
  EXPECT_TRUE(next.lost.ok());
  EXPECT_EQ(wire::read_control(next.request.bytes.data()).type, static_cast<uint8_t>(wire::Request::kJoin));
  expect_missing("the switch test-switch has not answered");
  EXPECT_FALSE(liveness.is_keep_alive_due(now)) << "this was one";
}

}  // namespace
}  // namespace switchml::testing
