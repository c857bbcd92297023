#include "slots/slot_pool.h"

#include <gtest/gtest.h>

#include <map>

namespace switchml {
namespace {

using Verdict = SlotPool::Verdict;

TEST(SlotPool, ChunkCLivesInSlotCModS) {  // [LANE-2]
  SlotPool pool(10, 4);
  for (uint32_t c = 0; c < 40; ++c) {
    const SlotPool::Opened opened = pool.open();
    EXPECT_EQ(opened.slot, 10 + c % 4);
    EXPECT_EQ(opened.index, static_cast<int>(c % 4));
    EXPECT_EQ(opened.seq, 1 + c / 4);
    EXPECT_EQ(pool.accept(opened.slot, opened.seq), Verdict::kAccepted);
  }
}

TEST(SlotPool, NumbersBeginWhereTheyAreToldAndSkipZero) {  // [SLOT-1]
  SlotPool pool(0, 1, 0xfffffffeU);
  for (const uint32_t seq : {0xfffffffeU, 0xffffffffU, 2U, 3U}) {
    const SlotPool::Opened opened = pool.open();
    EXPECT_EQ(opened.seq, seq);
    EXPECT_EQ(pool.accept(opened.slot, opened.seq), Verdict::kAccepted);
  }
}

TEST(SlotPool, AResultIsWhatAllowsTheNextUse) {  // [SLOT-13]
  SlotPool pool(0, 2);
  const auto a = pool.open();
  const auto b = pool.open();
  EXPECT_FALSE(pool.can_open());
  EXPECT_EQ(pool.in_flight(), 2);
  EXPECT_EQ(pool.accept(b.slot, b.seq), Verdict::kAccepted);
  EXPECT_FALSE(pool.can_open());  // in order: slot a comes first
  EXPECT_EQ(pool.oldest_open(), a.index);
  EXPECT_EQ(pool.accept(a.slot, a.seq), Verdict::kAccepted);
  EXPECT_TRUE(pool.can_open());
  EXPECT_EQ(pool.oldest_open(), -1);
}

TEST(SlotPool, JudgesDuplicateStaleAndForeign) {  // [SLOT-14]
  SlotPool pool(4, 2);
  EXPECT_EQ(pool.judge(4, 1), Verdict::kStale);  // nothing was opened yet
  const auto first = pool.open();
  EXPECT_EQ(pool.accept(3, first.seq), Verdict::kForeign);
  EXPECT_EQ(pool.accept(6, first.seq), Verdict::kForeign);
  EXPECT_EQ(pool.accept(first.slot, first.seq + 1), Verdict::kStale);
  EXPECT_EQ(pool.accept(first.slot, 0), Verdict::kStale);
  EXPECT_EQ(pool.judge(first.slot, first.seq), Verdict::kAccepted);
  EXPECT_EQ(pool.accept(first.slot, first.seq), Verdict::kAccepted);
  EXPECT_EQ(pool.accept(first.slot, first.seq), Verdict::kDuplicate);
  const auto other = pool.open();
  const auto again = pool.open();
  EXPECT_EQ(again.slot, first.slot);
  EXPECT_EQ(pool.accept(first.slot, first.seq), Verdict::kStale);  // two uses must never be confused
  EXPECT_EQ(pool.accept(other.slot, other.seq), Verdict::kAccepted);
  EXPECT_EQ(pool.oldest_open(), again.index);
}

TEST(SlotPool, OldestFollowsTheStreamNotTheSlotNumber) {
  SlotPool pool(0, 3);
  const auto a = pool.open();
  const auto b = pool.open();
  const auto c = pool.open();
  ASSERT_EQ(pool.accept(a.slot, a.seq), Verdict::kAccepted);
  const auto d = pool.open();  // slot 0 again, but later in the stream than b and c
  EXPECT_EQ(pool.oldest_open(), b.index);
  ASSERT_EQ(pool.accept(b.slot, b.seq), Verdict::kAccepted);
  EXPECT_EQ(pool.oldest_open(), c.index);
  ASSERT_EQ(pool.accept(c.slot, c.seq), Verdict::kAccepted);
  EXPECT_EQ(pool.oldest_open(), d.index);
}

}  // namespace
}  // namespace switchml
