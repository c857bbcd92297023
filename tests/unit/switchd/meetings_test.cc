#include "switchd/meetings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "socket/address.h"
#include "transport/transport.h"
#include "wire/control.h"

namespace switchml {
namespace {

/// Of no frames: it meets whom it is told to.
class Card final : public Transport, public QueuePairs {
 public:
  const char* name() const override { return "card"; }
  QueuePairs* queue_pairs() override { return this; }
  TransportLimits limits() const override { return {}; }
  Endpoint local() const override { return {}; }
  size_t path_frame_bytes(const Endpoint&) const override { return 0; }
  uint8_t* allocate(size_t) override { return nullptr; }
  size_t send(const TxFrame*, size_t) override { return 0; }
  size_t receive(RxFrame*, size_t) override { return 0; }
  void release() override {}
  void wait(Duration) override {}
  void wake() override { ++wakes; }
  std::string take_error() override { return ""; }
  Result<wire::Introduction> queue_pair_for(const Endpoint& peer) override {
    introduced_to = peer;
    wire::Introduction own;
    own.queue_pair = 77;
    return own;
  }
  Status connect(const Endpoint& peer, const wire::Introduction& its) override {
    met.emplace_back(peer, its.queue_pair);
    return refuses ? Status(Code::kUnavailable, "no queue pair is left") : Status();
  }

  bool is_connected(const Endpoint&) const override { return true; }
  void disconnect(const Endpoint& peer) override { forgotten.push_back(peer); }

  int wakes = 0;
  std::vector<Endpoint> forgotten;
  bool refuses = false;
  std::vector<std::pair<Endpoint, uint32_t>> met;
  Endpoint introduced_to;
};

class MeetingsTest : public ::testing::Test {
 protected:
  static Endpoint worker() { return literal_address("10.0.0.1:5000", 0).value(); }
  void ask(uint32_t request_id = 9) {
    wire::Join join;
    join.worker = 3;
    join.job = 7;
    join.epoch = 70;
    wire::Introduction its;
    its.queue_pair = 55;
    meetings_.meet(join, its, request_id, worker());
  }
  /// The replies, each to the worker.
  std::vector<wire::Reply> answers(wire::ReplyStatus status) {
    std::vector<wire::Reply> replies;
    const auto join = [&](const wire::Join& asked, const Endpoint& from) {
      EXPECT_EQ(asked.worker, 3);
      asked_from_ = from;
      softswitch::JoinOutcome joined;
      joined.status = status;
      joined.reply.cookie = 42;
      return joined;
    };
    meetings_.answer(join, [&](const std::vector<uint8_t>& frame, const Endpoint& to) {
      EXPECT_EQ(to, worker());
      replies.emplace_back();
      EXPECT_EQ(wire::parse_reply(frame.data(), frame.size(), &replies.back()), wire::ParseError::kNone);
    });
    return replies;
  }

  Card card_;
  Meetings meetings_{card_};
  Endpoint asked_from_;
};

TEST_F(MeetingsTest, AMemberMeetsTheCardAndLearnsOfIt) {  // [MEET-1, MEET-2, RDMA-2]
  ask();
  EXPECT_EQ(card_.wakes, 1);
  EXPECT_TRUE(card_.met.empty()) << "it is another thread's";
  const auto replies = answers(wire::ReplyStatus::kOk);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].type, wire::Request::kMeet);
  EXPECT_EQ(replies[0].status, wire::ReplyStatus::kOk);
  EXPECT_EQ(replies[0].request_id, 9U);
  EXPECT_EQ(replies[0].join.cookie, 42U);
  EXPECT_EQ(replies[0].introduction.queue_pair, 77U);
  const Endpoint member = with_carrier(worker(), Carrier::kRdma);
  EXPECT_EQ(asked_from_, member);
  ASSERT_EQ(card_.met.size(), 1U);
  EXPECT_EQ(card_.met[0].first, member);
  EXPECT_EQ(card_.met[0].second, 55U);
  EXPECT_EQ(card_.introduced_to, member);
  EXPECT_TRUE(answers(wire::ReplyStatus::kOk).empty()) << "once";
}

TEST_F(MeetingsTest, WhoIsNoMemberMeetsNobody) {  // [MEET-2]
  ask();
  auto replies = answers(wire::ReplyStatus::kProveAddress);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].join.cookie, 42U);
  EXPECT_EQ(replies[0].introduction.queue_pair, 0U);
  ask();
  replies = answers(wire::ReplyStatus::kNotMember);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].status, wire::ReplyStatus::kNotMember);
  EXPECT_TRUE(card_.met.empty());
}

TEST_F(MeetingsTest, ACardThatGivesNothingIsARefusal) {
  card_.refuses = true;
  ask();
  const auto replies = answers(wire::ReplyStatus::kOk);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].status, wire::ReplyStatus::kNoCard);
}

TEST_F(MeetingsTest, MembersOfSessionsThatHaveEndedAreForgotten) {  // [MEET-5]
  ask();
  ask();
  answers(wire::ReplyStatus::kOk);
  bool serves = true;
  const auto serving = [&](uint8_t job, uint32_t epoch) {
    EXPECT_EQ(job, 7);
    EXPECT_EQ(epoch, 70U);
    return serves;
  };
  meetings_.forget_gone(serving);
  EXPECT_TRUE(card_.forgotten.empty());
  serves = false;
  meetings_.forget_gone(serving);
  meetings_.forget_gone(serving);
  EXPECT_EQ(card_.forgotten, std::vector<Endpoint>{with_carrier(worker(), Carrier::kRdma)}) << "once";
}

TEST_F(MeetingsTest, NoMoreThan1024Wait) {
  for (uint32_t i = 0; i < 1500; ++i) ask(i);
  EXPECT_EQ(answers(wire::ReplyStatus::kOk).size(), 1024U);
}

}  // namespace
}  // namespace switchml
