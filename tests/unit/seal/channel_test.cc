#include "seal/channel.h"

#include <algorithm>
#include <set>

#include "seal/harness.h"

namespace switchml::seal {
namespace {

using Verdict = SealedReceiver::Verdict;

SealedSender sender_of(uint8_t key, uint8_t channel = 3, Form form = Form::kFromInitiator, uint64_t first = 1) {
  return {make_aes_gcm(aead_key_of(key), AeadUse::kSeal), channel, form, first};
}
SealedReceiver receiver_of(uint8_t key) { return SealedReceiver(make_aes_gcm(aead_key_of(key), AeadUse::kOpen)); }

// [SEAL-2, SEAL-3]
TEST(Channel, AFrameHasAFrontAndATag) {
  SealedSender sender = sender_of(1);
  const Frame plain = contribution_of(100);
  const Frame first = sealed(&sender, plain), second = sealed(&sender, plain);
  ASSERT_EQ(first.size(), plain.size() + 24);
  EXPECT_EQ(Frame(first.begin(), first.begin() + 8), (Frame{0x57, 0x30, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(Frame(second.begin(), second.begin() + 8), (Frame{0x57, 0x30, 0, 0, 0, 0, 0, 2}));
  EXPECT_FALSE(std::equal(first.begin() + 8, first.end(), second.begin() + 8));
  EXPECT_EQ(sender.sealed(), 2u);
  SealedReceiver receiver = receiver_of(1);
  Frame frame = first;
  ASSERT_EQ(receiver.open(frame.data(), frame.size()), Verdict::kOpened);
  EXPECT_EQ(opened(frame), plain);
}

// [SEAL-5]
TEST(Channel, TheCounterEndsAndDoesNotTurnOver) {
  SealedSender sender = sender_of(1, 0, Form::kFromInitiator, kLastCounter);
  SealedReceiver receiver = receiver_of(1);
  Frame last = sealed(&sender, Frame(10));
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(read_front(last.data()).counter, kLastCounter);
  EXPECT_EQ(receiver.open(last.data(), last.size()), Verdict::kOpened);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(sealed(&sender, Frame(10)).empty());
}

TEST(Channel, WhatIsTooShortOrOfAnotherKindIsNotSealed) {
  SealedSender sender = sender_of(1);
  Frame frame = sealed(&sender, {});
  EXPECT_EQ(frame.size(), kSealBytes);
  EXPECT_TRUE(is_sealed(frame.data(), frame.size()));
  EXPECT_FALSE(is_sealed(frame.data(), 7));
  EXPECT_FALSE(is_sealed(frame.data(), 0));
  SealedReceiver receiver = receiver_of(1);
  for (size_t size = kFrontBytes; size < kSealBytes; ++size)
    EXPECT_EQ(receiver.open(frame.data(), size), Verdict::kForged);
  frame[0] = 0x51;
  EXPECT_FALSE(is_sealed(frame.data(), frame.size()));
  frame[0] = 0x47;
  EXPECT_FALSE(is_sealed(frame.data(), frame.size()));
}

// [SEAL-6]
TEST(ReplayWindow, KnowsTheLast4096) {
  ReplayWindow window;
  EXPECT_TRUE(window.has(0));
  EXPECT_FALSE(window.has(1));
  window.note(1);
  EXPECT_TRUE(window.has(1));
  window.note(5000);
  EXPECT_TRUE(window.has(5000 - 4096));
  EXPECT_FALSE(window.has(5000 - 4095));
  window.note(5000 - 4095);
  EXPECT_TRUE(window.has(5000 - 4095));
  window.note(5001);
  EXPECT_TRUE(window.has(5001 - 4095 - 1));
  EXPECT_FALSE(window.has(5001 - 4095 + 1));
}

// Against a set, with steps of all sizes.
TEST(ReplayWindow, AsASetOfCounters) {
  Numbers numbers(2);
  ReplayWindow window;
  std::set<uint64_t> seen{0};
  uint64_t newest = 0;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t back = numbers.below(5000), step = uint64_t{1} << numbers.below(numbers.below(50) == 0 ? 15 : 5);
    const uint64_t counter = numbers.below(2) == 0 ? newest + step : newest - std::min(newest, back);
    const bool known = newest >= counter + 4096 || seen.count(counter) > 0;
    ASSERT_EQ(window.has(counter), known) << counter << " of " << newest;
    if (known) continue;
    window.note(counter);
    seen.insert(counter);
    newest = std::max(newest, counter);
  }
}

/// What an attacker does with a frame on its way.
Frame attacked(const Frame& frame, Numbers* numbers) {
  Frame changed = frame;
  const auto flip = [&](size_t begin, size_t end) {
    const uint64_t bit = begin * 8 + numbers->below((end - begin) * 8);
    changed[bit / 8] = static_cast<uint8_t>(changed[bit / 8] ^ 1U << bit % 8);
  };
  const size_t tag = frame.size() - kTagBytes;
  switch (numbers->below(8)) {
    case 0: flip(0, 2); break;               // version, kind, channel, form
    case 1: flip(2, kFrontBytes); break;     // the counter
    case 2: flip(kFrontBytes, tag); break;   // the ciphertext
    case 3: flip(tag, frame.size()); break;  // the tag
    case 4: changed.resize(numbers->below(frame.size())); break;
    case 5: changed.resize(frame.size() + 1 + numbers->below(64)); break;
    case 6:
      changed.erase(changed.begin() + static_cast<ptrdiff_t>(kFrontBytes + numbers->below(frame.size() - 8)));
      break;
    default: {  // a number of bytes of its own
      const size_t at = numbers->below(frame.size());
      for (size_t i = at; i < std::min(at + 20, frame.size()); ++i) changed[i] = static_cast<uint8_t>(numbers->next());
    }
  }
  return changed == frame ? Frame() : changed;
}

/// A receiver under attack, and what it should do.
class Attack {
 public:
  void deliver(const Frame& frame, bool genuine) {
    if (!is_sealed(frame.data(), frame.size())) return;
    Frame bytes = frame;
    const bool accepted = receiver.open(bytes.data(), bytes.size()) == Verdict::kOpened;
    const uint64_t counter = read_front(frame.data()).counter;
    const bool expected = genuine && counter + 4096 > newest_ && opened_.insert(counter).second;
    wrong += accepted != expected ? 1 : 0;
    if (!accepted) return;
    ++accepted_frames;
    newest_ = std::max(newest_, counter);
    wrong += opened(bytes) != Frame(8 + counter % 57, static_cast<uint8_t>(counter)) ? 1 : 0;
  }

  SealedReceiver receiver = receiver_of(1);
  uint64_t wrong = 0, accepted_frames = 0;

 private:
  uint64_t newest_ = 0;
  std::set<uint64_t> opened_;
};

// A million frames reach a receiver: genuine ones in an order of the network's, and for each of them others that were
// changed, repeated, sent back, or sealed under another key. [SEAL-3, SEAL-6, SEAL-7]
TEST(Channel, AMillionFramesUnderAttack) {
  Numbers numbers(3);
  SealedSender sender = sender_of(1), reflected = sender_of(2, 3, Form::kFromResponder), before = sender_of(4, 2);
  Attack attack;
  std::vector<Frame> under_way, old;
  uint64_t delivered = 0;
  while (delivered < 1000000) {
    const uint64_t counter = sender.sealed() + 1;
    const Frame plain(8 + counter % 57, static_cast<uint8_t>(counter));
    under_way.push_back(sealed(&sender, plain));
    // Most wait for a moment, and some for longer than the window.
    if (under_way.size() < 6000) continue;
    const size_t index =
        numbers.below(3) == 0 ? numbers.below(under_way.size()) : under_way.size() - 1 - numbers.below(64);
    const Frame frame = under_way[index];
    under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(index));
    for (int i = 0; i < 2; ++i) attack.deliver(attacked(frame, &numbers), false);
    attack.deliver(sealed(&reflected, plain), false);
    attack.deliver(sealed(&before, plain), false);
    attack.deliver(frame, true);
    attack.deliver(frame, true);
    if (old.size() < 10000) {
      old.push_back(frame);
    } else {
      attack.deliver(std::exchange(old[numbers.below(old.size())], frame), true);
    }
    delivered += 7;
  }
  EXPECT_EQ(attack.wrong, 0u);
  EXPECT_GT(attack.accepted_frames, 80000u);
}

}  // namespace
}  // namespace switchml::seal
