#include "seal/responder.h"

#include "seal/harness.h"

namespace switchml::seal {
namespace {

using Verdict = SealedReceiver::Verdict;

/// An initiator's side of one channel.
struct Caller {
  Caller(uint8_t number, uint64_t seed) : greeting(key, number, Numbers(seed)) {}
  bool hear(const GreetingFrame* answer) {
    if (answer == nullptr) return false;
    const auto keys = greeting.accept(key, answer->data(), answer->size());
    if (!keys) return false;
    sender.emplace(make_aes_gcm(keys->from_initiator, AeadUse::kSeal), greeting.channel(), Form::kFromInitiator);
    receiver.emplace(make_aes_gcm(keys->from_responder, AeadUse::kOpen));
    return true;
  }
  Verdict send(Responder* responder) {
    Frame frame = sealed(&*sender, contribution_of());
    const Verdict verdict = responder->open(frame.data(), frame.size());
    EXPECT_TRUE(verdict != Verdict::kOpened || opened(frame) == contribution_of());
    return verdict;
  }
  /// Whether this channel is the one that the responder sends with.
  bool hears(Responder* responder) {
    Frame frame = sealed(responder->sender(), contribution_of());
    return receiver->open(frame.data(), frame.size()) == Verdict::kOpened;
  }

  GreetingKey key{key_of(1)};
  Greeting greeting;
  std::optional<SealedSender> sender;
  std::optional<SealedReceiver> receiver;
};

class ResponderTest : public testing::Test {
 protected:
  Tools tools = tools_of(key_of(1), 7);
  Responder responder{tools};
};

// [SEAL-12]
TEST_F(ResponderTest, ARepeatedGreetingGetsTheSameAnswer) {
  Caller caller(0, 1);
  const GreetingFrame first = *responder.on_greeting(caller.greeting.frame());
  EXPECT_EQ(*responder.on_greeting(caller.greeting.frame()), first);
  ASSERT_TRUE(caller.hear(&first));
  EXPECT_EQ(caller.send(&responder), Verdict::kOpened);
  EXPECT_EQ(*responder.on_greeting(caller.greeting.frame()), first);
  EXPECT_EQ(caller.send(&responder), Verdict::kOpened);
}

// [SEAL-14]
TEST_F(ResponderTest, AChannelIsUsedOnceDataHasCome) {
  Caller first(0, 1), second(1, 2);
  ASSERT_TRUE(first.hear(responder.on_greeting(first.greeting.frame())));
  EXPECT_EQ(responder.sender(), nullptr);
  EXPECT_EQ(first.send(&responder), Verdict::kOpened);
  EXPECT_TRUE(first.hears(&responder));
  ASSERT_TRUE(second.hear(responder.on_greeting(second.greeting.frame())));
  EXPECT_TRUE(first.hears(&responder));
  EXPECT_EQ(second.send(&responder), Verdict::kOpened);
  EXPECT_TRUE(second.hears(&responder));
  EXPECT_EQ(first.send(&responder), Verdict::kOpened);  // the one before still opens
  EXPECT_TRUE(second.hears(&responder));
}

// [SEAL-14]
TEST_F(ResponderTest, AGreetingThatAnAttackerRepeatsChangesNothing) {
  Caller old(0, 1), used(1, 2);
  ASSERT_TRUE(used.hear(responder.on_greeting(used.greeting.frame())));
  EXPECT_EQ(used.send(&responder), Verdict::kOpened);
  for (int i = 0; i < 20; ++i) responder.on_greeting(Caller(static_cast<uint8_t>(i % 16), 10 + i).greeting.frame());
  EXPECT_EQ(used.send(&responder), Verdict::kOpened);
  EXPECT_TRUE(used.hears(&responder));
}

// An initiator that was begun anew counts its channels from 0 again.
TEST_F(ResponderTest, TwoChannelsOfOneNumber) {
  Caller first(0, 1), second(0, 2), third(0, 3);
  ASSERT_TRUE(first.hear(responder.on_greeting(first.greeting.frame())));
  EXPECT_EQ(first.send(&responder), Verdict::kOpened);
  ASSERT_TRUE(second.hear(responder.on_greeting(second.greeting.frame())));
  EXPECT_EQ(first.send(&responder), Verdict::kOpened);
  EXPECT_EQ(second.send(&responder), Verdict::kOpened);
  ASSERT_TRUE(third.hear(responder.on_greeting(third.greeting.frame())));
  for (Caller* caller : {&first, &second, &third}) EXPECT_EQ(caller->send(&responder), Verdict::kOpened);
  EXPECT_EQ(first.send(&responder), Verdict::kForged);  // two were made since
}

TEST_F(ResponderTest, AReplayIsKnownInEachChannel) {
  Caller caller(0, 1);
  ASSERT_TRUE(caller.hear(responder.on_greeting(caller.greeting.frame())));
  const Frame frame = sealed(&*caller.sender, contribution_of());
  for (const Verdict expected : {Verdict::kOpened, Verdict::kReplayed, Verdict::kReplayed}) {
    Frame copy = frame;
    EXPECT_EQ(responder.open(copy.data(), copy.size()), expected);
  }
}

// Whoever knows the key but only listens cannot read: the answer's own half of the secret is nowhere on the wire.
TEST_F(ResponderTest, AnotherKeyGetsNoAnswer) {
  const Greeting greeting(GreetingKey(key_of(2)), 0, Numbers(1));
  EXPECT_EQ(responder.on_greeting(greeting.frame()), nullptr);
}

}  // namespace
}  // namespace switchml::seal
