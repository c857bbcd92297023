#include "transport/rdma/rdma.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "two_cards.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(Rdma, StrangersGetNothingAndThatIsNoError) {
  open();
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  EXPECT_EQ(send_all(*a_, {pattern(1, 100), pattern(2, 100)}, b_->local()), 2U);
  RxFrame frame;
  EXPECT_EQ(b_->receive(&frame, 1), 0U);
  introduce(*a_, *b_);
  EXPECT_TRUE(a_->queue_pairs()->is_connected(b_->local()));
  send_all(*a_, {pattern(3, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{pattern(3, 100)});
  EXPECT_EQ(a_->take_error(), "");
}

TEST_F(Rdma, WhoIsForgottenIsAStrangerAndHoldsNothing) {
  open();
  const uint64_t before = library_->count().objects;
  introduce(*a_, *b_);
  send_all(*a_, {pattern(1, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1).size(), 1U);
  EXPECT_GT(library_->count().objects, before);
  a_->queue_pairs()->disconnect(b_->local());
  b_->queue_pairs()->disconnect(a_->local());
  b_->queue_pairs()->disconnect(a_->local());
  EXPECT_EQ(library_->count().objects, before);
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  EXPECT_EQ(send_all(*a_, {pattern(2, 100)}, b_->local()), 1U);
  introduce(*a_, *b_);
  send_all(*a_, {pattern(3, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{pattern(3, 100)});
}

TEST_F(Rdma, BuffersOfWhatAForgottenPeerHasSentAreNotLost) {
  open();
  for (int round = 0; round < 8; ++round) {
    introduce(*a_, *b_);
    for (uint32_t i = 0; i < 16; ++i) send_all(*a_, {pattern(i, 100)}, b_->local());
    RxFrame frame;
    ASSERT_EQ(b_->receive(&frame, 1), 1U) << "the others are there too, in round " << round;
    b_->release();
    b_->queue_pairs()->disconnect(a_->local());
    a_->queue_pairs()->disconnect(b_->local());
  }
}

TEST_F(Rdma, AnIntroductionThatIsNoneIsRefused) {
  open();
  const Status status = a_->queue_pairs()->connect(b_->local(), wire::Introduction());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:2/rdma has introduced itself"));
}

TEST_F(Rdma, TheSameIntroductionAgainChangesNothing) {
  open();
  introduce(*a_, *b_);
  const uint32_t before = number_of(a_->queue_pairs()->queue_pair_for(b_->local()).value());
  introduce(*a_, *b_);
  EXPECT_EQ(number_of(a_->queue_pairs()->queue_pair_for(b_->local()).value()), before);
  send_all(*a_, {pattern(1, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1).size(), 1U);
}

TEST_F(Rdma, MarksAreThoseThatAreWished) {
  RdmaOptions options;
  options.wish.traffic_class = 104;
  options.wish.service_level = 3;
  open({}, options);
  introduce(*a_, *b_);
  EXPECT_EQ(library_->count().traffic_class, 104);
  EXPECT_EQ(library_->count().service_level, 3);
}

TEST_F(Rdma, WhatLiesInMemoryOfItsOwnIsNotCopied) {
  open();
  introduce(*a_, *b_);
  uint8_t* const mine = a_->allocate(4096);
  std::fill(mine, mine + 4096, uint8_t{7});
  const Endpoint to = b_->local();
  const TxFrame frame{mine, 4096, &to};
  EXPECT_EQ(a_->send(&frame, 1), 1U);
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{Bytes(4096, 7)});
}

TEST_F(Rdma, MemoryThatCannotBeHadIsAnErrorThatSaysWhy) {
  open();
  library_->fail_once("ibv_reg_mr", ENOMEM);
  try {
    a_->allocate(4096);
    ADD_FAILURE() << "it has memory";
  } catch (const StatusError& none) {
    EXPECT_EQ(none.status().code(), Code::kUnavailable);
    EXPECT_THAT(none.status().message(), AllOf(HasSubstr("ibv_reg_mr of 4096 bytes"), HasSubstr("ulimit -l")));
  }
}

TEST_F(Rdma, TensorsAreReachedOnceTheyAreUsed) {
  open();
  const auto tensor = std::make_shared<OneTensor>(1000);
  EXPECT_FALSE(a_->queue_pairs()->target_of(tensor->bytes.data(), 10).has_value());
  a_->queue_pairs()->register_memory(tensor);
  const uint64_t before = library_->count().objects;
  const auto reached = a_->queue_pairs()->target_of(&tensor->bytes[10], 990);
  ASSERT_TRUE(reached.has_value());
  EXPECT_EQ(reached->address, reinterpret_cast<uintptr_t>(&tensor->bytes[10]));
  EXPECT_EQ(reached->bytes, 990U);
  EXPECT_EQ(a_->queue_pairs()->target_of(tensor->bytes.data(), 1)->key, reached->key);
  EXPECT_EQ(library_->count().objects, before + 1) << "registered once";
  EXPECT_FALSE(a_->queue_pairs()->target_of(&tensor->bytes[10], 991).has_value());
}

TEST_F(Rdma, TensorsThatTheSystemDoesNotPinAreCopied) {
  open();
  introduce(*a_, *b_);
  const auto tensor = std::make_shared<OneTensor>(1000, 5);
  a_->queue_pairs()->register_memory(tensor);
  library_->fail_once("ibv_reg_mr", ENOMEM);
  EXPECT_FALSE(a_->queue_pairs()->target_of(tensor->bytes.data(), 10).has_value());
  EXPECT_FALSE(a_->queue_pairs()->target_of(tensor->bytes.data(), 10).has_value()) << "it is not asked again";
  const Endpoint to = b_->local();
  TxFrame frame{tensor->bytes.data(), 100, &to};
  frame.rest = &tensor->bytes[100];
  frame.rest_size = 900;
  EXPECT_EQ(a_->send(&frame, 1), 1U);
  tensor->bytes.assign(1000, 6);
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{Bytes(1000, 5)});
}

// A card reads what is sent late, so it sends what has become of it: all that others may still need is copied.
TEST_F(Rdma, TheRestOfAFrameIsSentFromItsTensorUnlessItMayChange) {
  fake_verbs::Behaviour late;
  late.late = 1;
  open(late);
  introduce(*a_, *b_);
  const auto tensor = std::make_shared<OneTensor>(1000, 5);
  a_->queue_pairs()->register_memory(tensor);
  uint8_t* const head = a_->allocate(24);
  std::fill(head, head + 24, uint8_t{7});
  const Endpoint to = b_->local();
  for (const bool may_change : {false, true}) {
    tensor->bytes.assign(1000, 5);
    TxFrame frame{head, 24, &to};
    frame.rest = tensor->bytes.data();
    frame.rest_size = 1000;
    frame.may_change = may_change;
    EXPECT_EQ(a_->send(&frame, 1), 1U);
    tensor->bytes.assign(1000, 6);
    Bytes expected(24, 7);
    expected.insert(expected.end(), 1000, may_change ? 5 : 6);
    EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{expected});
  }
}

TEST_F(Rdma, AResultIsWrittenToItsTargetBeforeTheFrameArrives) {  // [RDMA-7]
  open();
  introduce(*a_, *b_);
  const auto tensor = std::make_shared<OneTensor>(1000);
  b_->queue_pairs()->register_memory(tensor);
  const Bytes head(24, 1);
  Bytes elements(900, 9);
  const Endpoint to = b_->local();
  TxFrame frame{head.data(), 24, &to};
  frame.rest = elements.data();
  frame.rest_size = 900;
  frame.target = *b_->queue_pairs()->target_of(&tensor->bytes[50], 900);
  frame.may_change = true;
  EXPECT_EQ(a_->send(&frame, 1), 1U);
  elements.assign(900, 0);
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{head});
  Bytes expected(1000);
  std::fill(expected.begin() + 50, expected.begin() + 950, uint8_t{9});
  EXPECT_EQ(tensor->bytes, expected);
}

TEST_F(Rdma, NobodyIsWrittenToOnceThePeerIsForgotten) {
  fake_verbs::Behaviour late;
  late.late = 1;
  open(late);
  introduce(*a_, *b_);
  const auto tensor = std::make_shared<OneTensor>(1000);
  b_->queue_pairs()->register_memory(tensor);
  const Bytes head(24, 1), elements(1000, 9);
  const Endpoint to = b_->local();
  TxFrame frame{head.data(), 24, &to};
  frame.rest = elements.data();
  frame.rest_size = 1000;
  frame.target = *b_->queue_pairs()->target_of(tensor->bytes.data(), 1000);
  EXPECT_EQ(a_->send(&frame, 1), 1U);
  b_->queue_pairs()->disconnect(a_->local());
  RxFrame received;
  EXPECT_EQ(b_->receive(&received, 1), 0U);
  EXPECT_EQ(tensor->bytes, Bytes(1000));
}

TEST_F(Rdma, ATargetThatIsNoneBreaksThePair) {
  open();
  introduce(*a_, *b_);
  const Bytes head(24, 1), elements(100, 9);
  const Endpoint to = b_->local();
  TxFrame frame{head.data(), 24, &to};
  frame.rest = elements.data();
  frame.rest_size = 100;
  frame.target = {0x1000, 12345, 100};
  a_->send(&frame, 1);
  RxFrame received;
  EXPECT_EQ(b_->receive(&received, 1), 0U);
  a_->wait(Duration(0));
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  EXPECT_THAT(a_->take_error(), HasSubstr("remote access error"));
}

// One bell for a burst, and a completion for many messages.
TEST_F(Rdma, ABurstIsPostedAtOnceAndHardlyEverSignaled) {
  open();
  introduce(*a_, *b_);
  uint8_t* const mine = a_->allocate(64 * 1024);
  const Endpoint to = b_->local();
  std::vector<TxFrame> frames;
  for (size_t i = 0; i < 16; ++i) frames.push_back({mine + i * 4096, 4096, &to});
  const fake_verbs::Counts before = library_->count();
  EXPECT_EQ(a_->send(frames.data(), frames.size()), frames.size());
  EXPECT_EQ(library_->count().doorbells - before.doorbells, 1U);
  EXPECT_EQ(library_->count().messages - before.messages, 16U);
  EXPECT_EQ(collect(*b_, 16).size(), 16U);
  EXPECT_LE(library_->count().completions - before.completions, 16U + 1U) << "received ones, and of one that was sent";
}

TEST_F(Rdma, APairThatBreaksIsReplacedByAnotherIntroduction) {
  open();
  introduce(*a_, *b_);
  const uint32_t number = number_of(a_->queue_pairs()->queue_pair_for(b_->local()).value());
  library_->break_pair(number);
  send_all(*a_, {pattern(1, 100)}, b_->local());
  const Time end = monotonic_now() + seconds(60);
  while (a_->queue_pairs()->is_connected(b_->local()) && monotonic_now() < end) a_->wait(milliseconds(1));
  EXPECT_FALSE(a_->queue_pairs()->is_connected(b_->local()));
  EXPECT_THAT(a_->take_error(), AllOf(HasSubstr("127.0.0.1:2/rdma"), HasSubstr("Flushed")));
  EXPECT_EQ(a_->take_error(), "");

  EXPECT_EQ(send_all(*a_, {pattern(2, 100)}, b_->local()), 1U) << "lost on its way";
  introduce(*a_, *b_);
  EXPECT_NE(number_of(a_->queue_pairs()->queue_pair_for(b_->local()).value()), number);
  send_all(*a_, {pattern(3, 100)}, b_->local());
  EXPECT_EQ(collect(*b_, 1), std::vector<Bytes>{pattern(3, 100)});
  send_all(*b_, {pattern(4, 100)}, a_->local());
  EXPECT_EQ(collect(*a_, 1), std::vector<Bytes>{pattern(4, 100)});
}

TEST_F(Rdma, APeerThatEndsIsAnErrorOfItsPairAlone) {
  open();
  introduce(*a_, *b_);
  const auto c = make({}, 3);
  introduce(*a_, *c);
  const Endpoint gone = b_->local();
  b_.reset();
  send_all(*a_, {pattern(1, 100)}, gone);
  const Time end = monotonic_now() + seconds(60);
  while (a_->queue_pairs()->is_connected(gone) && monotonic_now() < end) a_->wait(milliseconds(1));
  EXPECT_THAT(a_->take_error(), HasSubstr("retry counter exceeded"));
  send_all(*a_, {pattern(2, 100)}, c->local());
  EXPECT_EQ(collect(*c, 1), std::vector<Bytes>{pattern(2, 100)});
}

// Else the worker that waits for it repeats its contribution after a second.
TEST_F(Rdma, AFrameThatFindsNoBufferWaitsForOne) {
  for (const int buffers : {1, 2, 3, 8}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      RdmaOptions few;
      few.send_frames = buffers;
      few.frames_under_way = 8;
      open({.seed = seed, .late = 0.9}, few);
      const auto c = make(few, 3);
      introduce(*a_, *b_);
      introduce(*a_, *c);
      const auto tensor = std::make_shared<OneTensor>(4000);
      c->queue_pairs()->register_memory(tensor);
      const Endpoint to_b = b_->local(), to_c = c->local();
      for (uint32_t i = 0; i < 20; ++i) {
        const Bytes whole = pattern(i, 4000), head(24, static_cast<uint8_t>(i));
        const TxFrame both[] = {{whole.data(), 4000, &to_b}, {whole.data(), 4000, &to_c}};
        EXPECT_EQ(a_->send(both, 2), 2U);
        TxFrame frame{head.data(), 24, &to_c};
        frame.rest = whole.data();
        frame.rest_size = 4000;
        frame.target = *c->queue_pairs()->target_of(tensor->bytes.data(), 4000);
        frame.may_change = true;
        EXPECT_EQ(a_->send(&frame, 1), 1U);
      }
      std::vector<Bytes> of_b, of_c, expected_b, expected_c;
      const Time end = monotonic_now() + seconds(60);
      while ((of_b.size() < 20 || of_c.size() < 40) && monotonic_now() < end) {
        a_->wait(milliseconds(20));
        for (auto& [side, got] : {std::pair(b_.get(), &of_b), std::pair(c.get(), &of_c)}) {
          RxFrame frames[7];
          const size_t count = side->receive(frames, 7);
          for (size_t i = 0; i < count; ++i) got->emplace_back(frames[i].data, frames[i].data + frames[i].size);
          side->release();
        }
      }
      for (uint32_t i = 0; i < 20; ++i) {
        expected_b.push_back(pattern(i, 4000));
        expected_c.push_back(pattern(i, 4000));
        expected_c.emplace_back(24, static_cast<uint8_t>(i));
      }
      EXPECT_EQ(of_b, expected_b);
      EXPECT_EQ(of_c, expected_c);
      EXPECT_EQ(tensor->bytes, pattern(19, 4000));
      EXPECT_EQ(a_->take_error(), "");
      a_.reset();
      b_.reset();
    }
  }
}

// Both sides send and receive at will, over cards that wait at will: each frame arrives once, in order, whole.
TEST_F(Rdma, NothingIsLostOrChangedWhateverIsLate) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    fake_verbs::Behaviour behaviour;
    behaviour.seed = seed;
    behaviour.late = 0.7;
    open(behaviour);
    introduce(*a_, *b_);
    uint32_t sent[2] = {}, got[2] = {};
    const Time end = monotonic_now() + seconds(60);
    while ((got[0] < 300 || got[1] < 300) && monotonic_now() < end) {
      for (const int side : {0, 1}) {
        Transport& mine = side == 0 ? *a_ : *b_;
        Transport& other = side == 0 ? *b_ : *a_;
        while (sent[side] < 300) {
          if (send_all(mine, {pattern(sent[side], 20 + 27 * sent[side])}, other.local()) == 0) break;
          ++sent[side];
        }
        RxFrame frames[7];
        const size_t count = mine.receive(frames, 7);
        for (size_t i = 0; i < count; ++i) {
          const uint32_t id = got[side]++;
          ASSERT_EQ(Bytes(frames[i].data, frames[i].data + frames[i].size), pattern(id, 20 + 27 * id)) << seed;
          EXPECT_EQ(frames[i].from, other.local());
        }
        mine.release();
        mine.wait(nanoseconds(0));
      }
    }
    EXPECT_EQ(got[0], 300U);
    EXPECT_EQ(got[1], 300U);
    a_.reset();
    b_.reset();
    library_.reset();
  }
}

}  // namespace
}  // namespace switchml
