#include "slots/sequence_check.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(SequenceCheck, UnusedNewerEqualOlder) {
  SequencePair pair;
  EXPECT_EQ(check_sequence(&pair, 5, 3), Sequence::kNew);
  EXPECT_EQ(check_sequence(&pair, 5, 3), Sequence::kSame);
  EXPECT_EQ(check_sequence(&pair, 5, 1), Sequence::kStale);
  EXPECT_EQ(pair.seq, 3U);
  EXPECT_EQ(check_sequence(&pair, 5, 5), Sequence::kNew);
  EXPECT_EQ(check_sequence(&pair, 5, 3), Sequence::kStale);
}

TEST(SequenceCheck, AnotherEpochStartsAfresh) {
  SequencePair pair;
  check_sequence(&pair, 5, 100);
  EXPECT_EQ(check_sequence(&pair, 6, 2), Sequence::kNew);
  EXPECT_EQ(pair.epoch, 6U);
  EXPECT_EQ(pair.seq, 2U);
}

TEST(SequenceCheck, WrapsFromTheLastNumberToTwo) {
  SequencePair even, odd;
  check_sequence(&odd, 1, 0xffffffff);
  check_sequence(&even, 1, 0xfffffffe);
  EXPECT_EQ(check_sequence(&even, 1, wire::next_seq(0xffffffff)), Sequence::kNew);
  EXPECT_EQ(even.seq, 2U);
  EXPECT_EQ(check_sequence(&even, 1, 0xfffffffe), Sequence::kStale);
  EXPECT_EQ(check_sequence(&odd, 1, 3), Sequence::kNew);
  EXPECT_EQ(check_sequence(&odd, 1, 0xffffffff), Sequence::kStale);
}

}  // namespace
}  // namespace switchml
