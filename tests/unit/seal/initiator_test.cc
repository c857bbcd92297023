#include "seal/initiator.h"

#include <cstdlib>

#include "seal/harness.h"

namespace switchml::seal {
namespace {

using Verdict = SealedReceiver::Verdict;

/// Two ends, and a network that is the test.
class InitiatorTest : public testing::Test {
 protected:
  /// Sends a frame as a link would; returns what goes out of data, sealed, if anything does.
  Frame send(const Frame& plain) {
    initiator.before_sending(view_of(plain), {});
    greeting.reset();
    if (initiator.due() != nullptr) {
      greeting = *initiator.due();
      initiator.greeted();
    }
    return initiator.sender() == nullptr ? Frame() : sealed(initiator.sender(), plain);
  }
  bool answer() {
    const GreetingFrame* const frame = responder->on_greeting(*greeting);
    return frame != nullptr && initiator.on_answer(frame->data(), frame->size());
  }
  void make_channel() {
    send(contribution_of(1000));
    ASSERT_TRUE(answer());
    pass_up(send(contribution_of()));
  }
  void pass_up(Frame frame) { ASSERT_EQ(responder->open(frame.data(), frame.size()), Verdict::kOpened); }
  void pass_down() {
    Frame frame = sealed(responder->sender(), contribution_of());
    ASSERT_EQ(initiator.open(frame.data(), frame.size()), Verdict::kOpened);
  }
  uint8_t channel_of(const Frame& frame) { return read_front(frame.data()).channel; }

  Tools own = tools_of(key_of(1), 1), its = tools_of(key_of(1), 2);
  Initiator initiator{own};
  Responder old_end{its}, new_end{its};
  Responder* responder = &old_end;
  std::optional<GreetingFrame> greeting;  // that left with the last frame
};

// [SEAL-11]
TEST_F(InitiatorTest, TheSameGreetingGoesUntilItIsAnswered) {
  EXPECT_TRUE(send(join_of(1)).empty());
  ASSERT_TRUE(greeting);
  const GreetingFrame first = *greeting;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(send(contribution_of()).empty());
    EXPECT_EQ(greeting, first);
  }
  EXPECT_EQ(initiator.unanswered(), 4);
  EXPECT_TRUE(initiator.has_greeted_with(public_key_of(first)));
  EXPECT_TRUE(answer());
  EXPECT_EQ(initiator.unanswered(), 0);
  EXPECT_FALSE(answer());  // once is enough
  EXPECT_FALSE(send(contribution_of()).empty());
  EXPECT_FALSE(greeting);
}

// [SEAL-11]
TEST_F(InitiatorTest, TheNewestSmallFramesWait) {
  for (uint8_t i = 0; i < 6; ++i) send(Frame(100, i));
  send(Frame(257));
  ASSERT_TRUE(answer());
  EXPECT_EQ(initiator.take_kept(), (std::vector<Frame>{Frame(100, 2), Frame(100, 3), Frame(100, 4), Frame(100, 5)}));
  EXPECT_TRUE(initiator.take_kept().empty());
  send(Frame(100));
  EXPECT_TRUE(initiator.take_kept().empty());
}

// [SEAL-13]
TEST_F(InitiatorTest, AJoinOfAnotherEpochMakesAnotherChannel) {
  make_channel();
  EXPECT_EQ(channel_of(send(join_of(1))), 0);
  pass_down();
  EXPECT_FALSE(greeting);
  send(join_of(1));
  pass_down();
  EXPECT_FALSE(greeting);
  EXPECT_EQ(channel_of(send(join_of(2))), 0);  // until the answer is there
  ASSERT_TRUE(greeting);
  pass_down();
  ASSERT_TRUE(answer());
  pass_down();  // still sealed by the channel before
  const Frame frame = send(contribution_of());
  EXPECT_EQ(channel_of(frame), 1);
  pass_up(frame);
  pass_down();
}

// [SEAL-13]
TEST_F(InitiatorTest, RequestsWithoutAReplyMakeAnotherChannel) {
  make_channel();
  send(request_of(wire::Request::kProbe));
  EXPECT_FALSE(greeting);
  pass_down();
  send(request_of(wire::Request::kProbe));
  EXPECT_FALSE(greeting);
  const Frame repeated = request_of(wire::Request::kProbe, 50);
  send(repeated);
  ASSERT_TRUE(greeting);
  responder = &new_end;  // It was begun anew, and knows nothing.
  ASSERT_TRUE(answer());
  EXPECT_EQ(initiator.take_kept(), std::vector<Frame>{repeated});
  pass_up(send(repeated));
  pass_down();
}

// [SEAL-13]
TEST_F(InitiatorTest, RepeatsInSilenceMakeAnotherChannelAndThenFewer) {
  make_channel();
  pass_down();
  Frame repeat = contribution_of(300);
  repeat[1] = wire::kFlagRepeat;
  std::vector<int> greeted;
  for (int i = 1; i <= 200; ++i) {
    send(repeat);
    if (!greeting) continue;
    greeted.push_back(i);
    ASSERT_TRUE(answer());
    send(contribution_of());  // No news: it is lost.
  }
  EXPECT_EQ(greeted, (std::vector<int>{16, 48, 112, 176}));
  pass_up(send(contribution_of()));
  pass_down();
  for (int i = 1; i <= 15; ++i) send(repeat);
  EXPECT_FALSE(greeting);
  // A greeting that is lost goes again with each repeat: a child switch sends no requests.
  for (int i = 0; i < 3; ++i) {
    send(repeat);
    EXPECT_TRUE(greeting);
  }
}

// [SEAL-13]
TEST_F(InitiatorTest, AnUnansweredGreetingIsRepeatedNowAndThen) {
  make_channel();
  send(join_of(1));
  pass_down();
  send(join_of(2));
  ASSERT_TRUE(greeting);
  int greetings = 0;
  for (uint64_t i = 0; i < 3 * Initiator::kRepeatAfter; ++i) {
    send(contribution_of());
    greetings += greeting ? 1 : 0;
  }
  EXPECT_GE(greetings, 2);
  EXPECT_LE(greetings, 4);
}

// [SEAL-7]
TEST_F(InitiatorTest, TheChannelBeforeThePreviousOpensNoMore) {
  make_channel();
  Frame first = sealed(responder->sender(), contribution_of());
  send(join_of(1));
  pass_down();
  for (uint32_t epoch = 2; epoch <= 3; ++epoch) {
    send(join_of(epoch));
    ASSERT_TRUE(answer());
    pass_up(send(contribution_of()));
    pass_down();
  }
  EXPECT_EQ(initiator.open(first.data(), first.size()), Verdict::kForged);
}

TEST_F(InitiatorTest, ItsOwnFramesDoNotComeBack) {
  make_channel();
  Frame frame = send(contribution_of());
  EXPECT_EQ(initiator.open(frame.data(), frame.size()), Verdict::kForged);
}

struct GreetsLast {
  ~GreetsLast() { require_openssl(); }
};

// OpenSSL takes itself down at exit, unless it is told not to.
TEST(OpensslDeathTest, ServesStaticObjectsThatEndAfterIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // A process where nothing has used OpenSSL.
  const auto leave = [] {
    static const GreetsLast last;
    require_openssl();
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace switchml::seal
