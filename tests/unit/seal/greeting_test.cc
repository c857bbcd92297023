#include "seal/greeting.h"

#include "seal/harness.h"

namespace switchml::seal {
namespace {

std::optional<Answer> answer(const GreetingKey& key, const GreetingFrame& greeting, uint64_t seed = 2) {
  return answer_greeting(key, greeting, Numbers(seed));
}

// [SEAL-8, SEAL-9, SEAL-10]
TEST(Greeting, BothEndsGetTheSameKeys) {
  const GreetingKey key(key_of(1));
  const Greeting greeting(key, 5, Numbers(1));
  EXPECT_EQ(Frame(greeting.frame().begin(), greeting.frame().begin() + 8), (Frame{0x57, 0x51, 0, 0, 0, 0, 0, 0}));
  const auto answered = answer(key, greeting.frame());
  ASSERT_TRUE(answered);
  EXPECT_EQ(Frame(answered->frame.begin(), answered->frame.begin() + 8), (Frame{0x57, 0x52, 0, 0, 0, 0, 0, 0}));
  const auto keys = greeting.accept(key, answered->frame.data(), answered->frame.size());
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->from_initiator.bytes, answered->keys.from_initiator.bytes);
  EXPECT_EQ(keys->from_responder.bytes, answered->keys.from_responder.bytes);
  EXPECT_NE(keys->from_initiator.bytes, keys->from_responder.bytes);
}

TEST(Greeting, EachGreetingMakesOtherKeys) {
  const GreetingKey key(key_of(1));
  const Greeting first(key, 0, Numbers(1)), second(key, 0, Numbers(3));
  EXPECT_NE(public_key_of(first.frame()), public_key_of(second.frame()));
  EXPECT_NE(answer(key, first.frame())->keys.from_initiator.bytes,
            answer(key, second.frame())->keys.from_initiator.bytes);
  EXPECT_NE(answer(key, first.frame(), 5)->keys.from_initiator.bytes,
            answer(key, first.frame())->keys.from_initiator.bytes);
}

// [SEAL-12]
TEST(Greeting, AnotherKeyIsNotAnswered) {
  const GreetingKey key(key_of(1)), other(key_of(2));
  const Greeting greeting(key, 0, Numbers(1));
  EXPECT_FALSE(answer(other, greeting.frame()));
  const auto answered = answer(key, greeting.frame());
  EXPECT_FALSE(greeting.accept(other, answered->frame.data(), answered->frame.size()));
}

TEST(Greeting, NoBitMayChange) {
  const GreetingKey key(key_of(1));
  const Greeting greeting(key, 9, Numbers(1));
  const GreetingFrame right = answer(key, greeting.frame())->frame;
  for (size_t bit = 0; bit < 8 * kGreetingBytes; ++bit) {
    GreetingFrame changed = greeting.frame(), changed_answer = right;
    for (GreetingFrame* frame : {&changed, &changed_answer})
      (*frame)[bit / 8] = static_cast<uint8_t>((*frame)[bit / 8] ^ 1U << bit % 8);
    const auto parsed = greeting_of(changed.data(), changed.size(), Form::kGreeting);
    EXPECT_FALSE(parsed && answer(key, *parsed)) << bit;
    EXPECT_FALSE(greeting.accept(key, changed_answer.data(), changed_answer.size())) << bit;
  }
  EXPECT_TRUE(greeting.accept(key, right.data(), right.size()));
  EXPECT_FALSE(greeting.accept(key, right.data(), right.size() - 1));
}

TEST(Greeting, TheAnswerToAnotherOneIsNone) {
  const GreetingKey key(key_of(1));
  const Greeting first(key, 0, Numbers(1)), second(key, 0, Numbers(3));
  const auto answered = answer(key, second.frame());
  EXPECT_FALSE(first.accept(key, answered->frame.data(), answered->frame.size()));
  EXPECT_FALSE(first.accept(key, first.frame().data(), first.frame().size()));  // its own, sent back
}

// A public key with which every exchange gives zeros.
TEST(Greeting, AKeyThatMakesNoSecretIsRefused) {
  const GreetingKey key(key_of(1));
  GreetingFrame zero = Greeting(key, 0, Numbers(1)).frame();
  std::fill_n(zero.begin() + kFrontBytes, kPublicBytes, uint8_t{0});
  key.sign(&zero, {});
  EXPECT_FALSE(answer(key, zero));
}

}  // namespace
}  // namespace switchml::seal
