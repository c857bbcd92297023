#include "transport/direct_link.h"

#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/harness.h"

namespace switchml {
namespace {

using Bytes = std::vector<uint8_t>;

/// A switch's link, one member of its process, and a stranger elsewhere.
struct Process {
  Process() { member = link->admit(member_at, std::move(member_link)); }

  std::shared_ptr<InprocHub> network = InprocHub::create({});
  std::unique_ptr<Transport> stranger = network->attach();
  std::unique_ptr<Transport> member_link = network->attach();
  const Endpoint member_at = member_link->local();
  std::unique_ptr<DirectLink> link = std::make_unique<DirectLink>(network->attach());
  const Endpoint switch_at = link->local();
  std::unique_ptr<Transport> member;
};

size_t send_text(Transport& from, const std::string& text, const Endpoint& to, bool may_change = false) {
  TxFrame frame{reinterpret_cast<const uint8_t*>(text.data()), static_cast<uint32_t>(text.size()), &to};
  frame.may_change = may_change;
  return from.send(&frame, 1);
}

/// "text text ..." of what has come, in order.
std::string texts(Transport& at) {
  std::string all;
  std::array<RxFrame, 8> frames;
  for (size_t count = at.receive(frames.data(), frames.size()); count > 0;
       count = at.receive(frames.data(), frames.size())) {
    for (size_t i = 0; i < count; ++i) {
      all += (all.empty() ? "" : " ") + std::string(reinterpret_cast<const char*>(frames[i].data), frames[i].size);
    }
    at.release();
  }
  return all;
}

TEST(DirectLink, FramesGoFromMemoryToMemory) {
  Process p;
  EXPECT_TRUE(p.member->is_direct());
  EXPECT_FALSE(p.link->is_direct());
  uint8_t* const memory = p.member->allocate(64);
  std::memcpy(memory, "once", 4);
  TxFrame frames[2] = {{memory, 4, &p.switch_at}, {memory, 4, &p.switch_at}};
  frames[0].ecn = Ecn::kCapable;
  frames[1].may_change = true;
  EXPECT_EQ(p.member->send(frames, 2), 2U);
  RxFrame came[3];
  ASSERT_EQ(p.link->receive(came, 3), 2U);
  EXPECT_EQ(came[0].data, memory) << "not copied";
  EXPECT_NE(came[1].data, memory);
  EXPECT_EQ(std::memcmp(came[1].data, "once", 4), 0);
  EXPECT_EQ(came[0].ecn, Ecn::kCapable);
  for (const RxFrame& frame : {came[0], came[1]}) {
    EXPECT_EQ(frame.size, 4U);
    EXPECT_EQ(frame.from, p.member_at);
    EXPECT_TRUE(frame.is_direct);
  }
  p.link->release();
  EXPECT_EQ(texts(*p.link), "");
}

TEST(DirectLink, EachPeerGetsItsOwn) {
  Process p;
  const Endpoint elsewhere = p.stranger->local();
  const std::string text = "abcde";
  TxFrame burst[5];
  const Endpoint* to[5] = {&p.member_at, &elsewhere, &elsewhere, &p.member_at, &elsewhere};
  for (size_t i = 0; i < 5; ++i) burst[i] = {reinterpret_cast<const uint8_t*>(&text[i]), 1, to[i]};
  EXPECT_EQ(p.link->send(burst, 5), 5U);
  EXPECT_EQ(texts(*p.member), "a d");
  EXPECT_EQ(texts(*p.stranger), "b c e");
  send_text(*p.stranger, "far", p.switch_at);
  send_text(*p.member, "near", p.switch_at);
  EXPECT_EQ(texts(*p.link), "near far");
}

// The array is used again and again.
TEST(DirectLink, WhatAStrangerSendsIsNotDirect) {
  Process p;
  RxFrame came;
  came.is_direct = true;
  send_text(*p.stranger, "far", p.switch_at);
  ASSERT_EQ(p.link->receive(&came, 1), 1U);
  EXPECT_FALSE(came.is_direct);
}

TEST(DirectLink, AnAnswerIsCopied) {
  Process p;
  std::string text = "result";
  send_text(*p.link, text, p.member_at);
  text = "******";
  EXPECT_EQ(texts(*p.member), "result");
}

TEST(DirectLink, WhatComesEndsAWait) {
  Process p;
  for (int round = 0; round < 2; ++round) {
    std::thread answers([&p] {
      while (texts(*p.link).empty()) p.link->wait(seconds(60));
      send_text(*p.link, "answer", p.member_at);
    });
    send_text(*p.member, "question", p.switch_at);
    while (texts(*p.member).empty()) p.member->wait(seconds(60));
    answers.join();
  }
}

TEST(DirectLink, EitherEndMayGoFirst) {
  Process p;
  uint8_t* const memory = p.member->allocate(4);
  std::memcpy(memory, "last", 4);
  const TxFrame last{memory, 4, &p.switch_at};
  p.member->send(&last, 1);
  RxFrame lent;
  ASSERT_EQ(p.link->receive(&lent, 1), 1U);
  p.member->send(&last, 1);
  p.member.reset();
  EXPECT_EQ(std::memcmp(lent.data, "last", 4), 0) << "lent until it is released";
  p.link->release();
  EXPECT_EQ(texts(*p.link), "last") << "what it sent arrives";
  EXPECT_EQ(send_text(*p.link, "answer", p.member_at), 1U) << "lost: nothing is there";

  Process q;
  q.link.reset();
  EXPECT_EQ(send_text(*q.member, "question", q.switch_at), 1U);
  EXPECT_EQ(texts(*q.member), "");
}

// As a shard and its switch use it: frames are used again once they are answered.
TEST(DirectLink, KeepsAllFramesOfManyRounds) {
  constexpr int kRounds = 2000, kFrames = 5;
  constexpr uint32_t kBytes = 512;
  Process p;
  std::atomic<bool> done{false};
  std::thread serves([&] {
    std::array<RxFrame, 3> frames;
    while (!done.load()) {
      const size_t count = p.link->receive(frames.data(), frames.size());
      for (size_t i = 0; i < count; ++i) {
        const TxFrame echo{frames[i].data, frames[i].size, &frames[i].from};
        p.link->send(&echo, 1);
      }
      p.link->release();
      if (count == 0) p.link->wait(seconds(60));
    }
  });
  uint8_t* const memory = p.member->allocate(kBytes * kFrames);
  int wrong = 0;
  for (int round = 0; round < kRounds; ++round) {
    TxFrame burst[kFrames];
    for (int i = 0; i < kFrames; ++i) {
      uint8_t* const frame = memory + kBytes * static_cast<size_t>(i);
      std::memset(frame, round + i, kBytes);
      burst[i] = {frame, kBytes, &p.switch_at};
    }
    p.member->send(burst, kFrames);
    for (int got = 0; got < kFrames;) {
      std::array<RxFrame, 2> frames;
      const size_t count = p.member->receive(frames.data(), frames.size());
      for (size_t i = 0; i < count; ++i, ++got) {
        const Bytes expected(kBytes, static_cast<uint8_t>(round + got));
        wrong += std::memcmp(frames[i].data, expected.data(), kBytes) == 0 ? 0 : 1;
      }
      p.member->release();
      if (count == 0) p.member->wait(seconds(60));
    }
  }
  done = true;
  p.link->wake();
  serves.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace switchml
