#include "engine/retransmitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace switchml::testing {
namespace {

/// A shard with a lane of slots 0 and 1, and one of 2 to 7. Its first timeout is 8 ms.
class RetransmitterTest : public ::testing::Test {
 protected:
  using Indices = std::vector<int>;

  RetransmitterTest() {
    retransmitter.add_lane(calls);
    retransmitter.add_lane(data);
  }

  /// Opens chunks and sends them.
  void open(SlotPool& pool, int chunks = 1) {
    for (int i = 0; i < chunks; ++i) {
      const int index = pool.open().slot;
      retransmitter.on_opened(index);
      EXPECT_FALSE(retransmitter.on_sent(index, now));
    }
  }
  std::optional<Duration> answer(int index) {
    SlotPool& pool = calls.contains(static_cast<uint16_t>(index)) ? calls : data;
    pool.accept(static_cast<uint16_t>(index), 1);
    return retransmitter.on_answered(index, now);
  }
  void send_again(int index) { EXPECT_TRUE(retransmitter.on_sent(index, now)); }
  /// Lets time pass; the chunks that were sent again, in order of their slots.
  Indices pass(Duration time) {
    Indices sent;
    for (const Time end = now + time; now < end;) {
      now += microseconds(500);
      retransmitter.sweep(now, [&](int index) {
        if (!retransmitter.on_timeout(index, now)) return;
        send_again(index);
        sent.push_back(index);
      });
    }
    std::sort(sent.begin(), sent.end());
    return sent;
  }
  Indices repair() {
    Indices sent;
    retransmitter.repair_gaps([&](int index) {
      send_again(index);
      sent.push_back(index);
    });
    return sent;
  }

  Time now{seconds(1)};
  SlotPool calls{0, 2};
  SlotPool data{2, 6};
  Retransmitter retransmitter{8, milliseconds(2), milliseconds(50), now};
};

// ---- timeouts ----

TEST_F(RetransmitterTest, BacksOffUpToTheLimit) {
  open(calls);
  for (const int timeout : {8, 16, 32, 50, 50}) {
    const Time sent = now;
    while (now < sent + seconds(1) && pass(microseconds(500)).empty()) continue;
    EXPECT_GE(now - sent, milliseconds(timeout));
    EXPECT_LE(now - sent, milliseconds(timeout + 1)) << "a tick late";
  }
}

TEST_F(RetransmitterTest, OnlyTheOldestOfALaneIsSentAgain) {
  open(calls);
  open(data, 6);
  EXPECT_EQ(pass(milliseconds(9)), (Indices{0, 2}));
  answer(2);
  EXPECT_EQ(pass(milliseconds(9)), (Indices{3}));
}

TEST_F(RetransmitterTest, WhatWasDamagedIsAskedForUntilItIsAnswered) {
  open(data, 6);
  retransmitter.on_damaged(5);
  send_again(5);
  EXPECT_EQ(pass(milliseconds(9)), (Indices{2, 5}));
  EXPECT_EQ(pass(milliseconds(17)), (Indices{2, 5})) << "each after twice the time";
  answer(5);
  EXPECT_EQ(pass(milliseconds(40)), (Indices{2}));
}

TEST_F(RetransmitterTest, WhatWasSentBeforeAnAnsweredChunkIsLost) {
  open(data, 6);
  answer(6);  // of 7 nothing is known
  EXPECT_EQ(pass(milliseconds(9)), (Indices{2, 3, 4, 5}));
}

TEST_F(RetransmitterTest, WhatIsAnsweredOrStoppedHasNoTimer) {
  open(calls, 2);
  answer(0);
  EXPECT_EQ(pass(milliseconds(9)), (Indices{1}));
  retransmitter.stop();
  EXPECT_EQ(retransmitter.next_deadline(), kNever);
}

TEST_F(RetransmitterTest, AnotherSwitchBeginsWithTheFirstTimeout) {
  open(data, 2);
  retransmitter.on_damaged(3);
  pass(milliseconds(100));
  for (const int index : {2, 3}) {
    retransmitter.on_moved(index);
    send_again(index);
  }
  EXPECT_EQ(pass(milliseconds(9)), (Indices{2})) << "it has no result of 3";
}

// Karn: the answer to a chunk that was sent again may belong to either copy, so it is no measurement.
TEST_F(RetransmitterTest, OnlyUnambiguousRoundTripsChangeTheTimeout) {
  open(calls);
  EXPECT_EQ(pass(milliseconds(10)), Indices{0});
  EXPECT_EQ(answer(0), std::nullopt);
  open(calls);
  now += milliseconds(1);
  EXPECT_EQ(answer(1), milliseconds(1));
  open(data);
  EXPECT_EQ(pass(milliseconds(4)), Indices{2}) << "3 ms now";
}

// ---- gaps ----

TEST_F(RetransmitterTest, ThreeLaterResultsShowAGap) {
  open(data, 6);
  answer(3);
  answer(4);
  EXPECT_EQ(repair(), Indices()) << "two may have overtaken it";
  answer(5);
  EXPECT_EQ(repair(), Indices{2});
  answer(6);
  EXPECT_EQ(repair(), Indices()) << "once, not with every further result";
}

TEST_F(RetransmitterTest, EveryGapOfAWindowIsRepairedAtOnce) {
  open(calls, 2);
  open(data, 6);
  answer(3);
  answer(7);  // so 2 and 4 are lost; nothing is known of 5 and 6, nor of the other lane
  EXPECT_EQ(repair(), (Indices{2, 4}));
}

TEST_F(RetransmitterTest, AnAnswerToWhatWasSentAgainIsNoSignOfAGap) {
  open(data, 6);
  EXPECT_EQ(pass(milliseconds(9)), Indices{2});
  answer(2);
  EXPECT_EQ(repair(), Indices());
}

// ---- in turn ----

TEST_F(RetransmitterTest, ChunksThatAreNotTheOldestTakeTurns) {
  EXPECT_EQ(retransmitter.next_in_turn(), -1);
  open(calls);
  open(data, 6);
  for (const int index : {3, 4, 5, 6, 7, 3}) EXPECT_EQ(retransmitter.next_in_turn(), index);
  answer(4);
  answer(2);  // 3 is the oldest now
  for (const int index : {5, 6, 7, 5}) EXPECT_EQ(retransmitter.next_in_turn(), index);
}

}  // namespace
}  // namespace switchml::testing
