// The local ranks of a rank on two boards: one for what need not wait for the other's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "integers.h"
#include "shm/local_rank.h"
#include "team.h"

namespace switchml::shm {
namespace {

using ::testing::HasSubstr;
using testing::Ints;
using testing::kLong;
using testing::kSoon;
using testing::Outcomes;
using testing::sum_of;
using testing::Team;

/// The local ranks of `ranks` ranks on a long and a short board.
struct Boards {
  explicit Boards(int ranks) : long_board({ranks, 4, 64}), short_board({ranks, 2, 64}) {}
  /// A long collective, as an engine submits it.
  Outcomes submit_long(int rank, Ints& tensor) {
    short_board.local_rank(rank).announce(sum_of(tensor));
    return long_board.submit(rank, sum_of(tensor));
  }
  Team long_board;
  Team short_board;
};

TEST(LocalRankOnTwoBoards, AShortCollectiveEndsBeforeALongOneThatWasCalledBefore) {
  Boards boards(3);
  std::vector<Ints> large(3, Ints(1000, 1));
  std::vector<Ints> small(3, Ints(16, 2));
  std::vector<Outcomes> ends;
  for (int rank = 0; rank < 3; ++rank) {
    const auto r = static_cast<size_t>(rank);
    ends.push_back(boards.submit_long(rank, large[r]));
    boards.short_board.submit(rank, sum_of(small[r]));
  }
  EXPECT_TRUE(boards.short_board.run()) << "though nobody has stepped the long board";
  EXPECT_EQ(small, std::vector<Ints>(3, Ints(16, 6)));
  for (const Outcomes& end : ends) EXPECT_TRUE(end->empty());
  EXPECT_TRUE(boards.long_board.run());
  EXPECT_EQ(large, std::vector<Ints>(3, Ints(1000, 3)));
}

TEST(LocalRankOnTwoBoards, AnAnnouncementMeetsAShortCollective) {
  Boards boards(2);
  Ints large(1000, 1);
  Ints small(16, 2);
  boards.submit_long(0, large);
  const Outcomes end = boards.short_board.submit(1, sum_of(small));
  for (int i = 0; i < 10; ++i) {
    for (const int rank : {0, 1}) boards.short_board.step(rank);
  }
  ASSERT_EQ(end->size(), 1U);
  EXPECT_EQ(end->front().code(), Code::kMismatch);
  EXPECT_THAT(end->front().message(), HasSubstr("16"));
  ASSERT_EQ(boards.short_board.failures(0).size(), 1U) << "who has called the long one knows it too";
  EXPECT_EQ(boards.short_board.failures(0).front().code(), Code::kMismatch);
  EXPECT_THAT(boards.short_board.failures(0).front().message(), HasSubstr("1000"));
  boards.long_board.local_rank(0).request_failure(Status(Code::kMismatch, "test"));
  boards.long_board.step(0);
}

// What becomes of the collective is to be seen on its own board.
TEST(LocalRankOnTwoBoards, NobodyWaitsForAnAnnouncement) {
  Boards boards(2);
  Ints large(1000, 1);
  Collective announced = sum_of(large);
  announced.deadline = boards.short_board.now + milliseconds(5);
  LocalRank& local_rank = boards.short_board.local_rank(0);
  local_rank.announce(announced);
  boards.short_board.step(0);
  EXPECT_FALSE(local_rank.waits_for_others());
  EXPECT_EQ(local_rank.next_wakeup(), kNever);
  boards.short_board.board().leave(1);
  boards.short_board.now += seconds(1);
  boards.short_board.step(0);
  EXPECT_TRUE(boards.short_board.failures(0).empty());
  EXPECT_EQ(local_rank.counters().chunks_completed.get(), 0U);
}

TEST(LocalRankOnTwoBoards, AnAnnouncementHasNoDeadlineThoughWhatIsBehindItHas) {
  Boards boards(2);
  Ints large(1000, 1);
  Ints small(16, 2);
  Collective announced = sum_of(large);
  announced.deadline = boards.short_board.now + milliseconds(5);
  Collective called = sum_of(small);
  called.deadline = boards.short_board.now + seconds(5);
  boards.short_board.local_rank(0).announce(announced);
  const Outcomes end = boards.short_board.submit(0, called);
  boards.short_board.step(0);
  EXPECT_EQ(boards.short_board.local_rank(0).next_wakeup(), called.deadline);
  boards.short_board.now += seconds(4);
  boards.short_board.step(0);
  EXPECT_TRUE(end->empty());
  boards.short_board.now += seconds(1);
  boards.short_board.step(0);
  ASSERT_EQ(end->size(), 1U);
  EXPECT_EQ(end->front().code(), Code::kTimeout);
  EXPECT_THAT(end->front().message(), HasSubstr("16"));
}

TEST(LocalRankOnTwoBoards, WhoWantsToKnowWaitsForAnAnnouncement) {
  Boards boards(2);
  Ints large(1000, 1);
  std::vector<Status> end;
  Collective announced = sum_of(large);
  announced.deadline = boards.short_board.now + milliseconds(5);
  announced.done = [&end](const Status& status) { end.push_back(status); };
  LocalRank& local_rank = boards.short_board.local_rank(0);
  local_rank.announce(announced);
  boards.short_board.step(0);
  EXPECT_TRUE(local_rank.waits_for_others());
  EXPECT_EQ(local_rank.next_wakeup(), announced.deadline);
  Team& team = boards.short_board;
  for (int i = 0; i < 3; ++i) team.step(0);
  EXPECT_TRUE(end.empty()) << "the other rank has not announced it";
  team.local_rank(1).announce(announced);
  for (const int rank : {1, 0, 1}) team.step(rank);
  ASSERT_EQ(end.size(), 2U);
  EXPECT_TRUE(end[0].ok() && end[1].ok());
  EXPECT_EQ(large, Ints(1000, 1)) << "nothing is reduced here";

  local_rank.announce(announced);
  team.step(0);
  team.now += milliseconds(6);
  team.step(0);
  ASSERT_EQ(end.size(), 3U);
  EXPECT_EQ(end[2].code(), Code::kTimeout);
  EXPECT_THAT(end[2].message(), HasSubstr("1000"));
}

TEST(LocalRankOnTwoBoards, ALongStepEndsWhereAShortCollectiveComes) {
  Boards boards(1);
  Ints large(16 * 20, 1);
  Ints small(16, 2);
  const Outcomes end = boards.submit_long(0, large);
  LocalRank& local_rank = boards.long_board.local_rank(0);
  local_rank.yield_to(boards.short_board.local_rank(0));
  boards.short_board.submit(0, sum_of(small));
  EXPECT_TRUE(boards.long_board.step(0));
  EXPECT_LE(boards.long_board.board().published(), 1U) << "one round";
  EXPECT_TRUE(boards.short_board.run());
  while (boards.long_board.step(0)) {
  }
  EXPECT_EQ(end->size(), 1U);
}

TEST(LocalRankOnTwoBoards, ASubmissionToEitherEndsASleepThatIsToCome) {
  const BoardShape shape{2, 2, 64};
  testing::BoardMemory first(shape);
  testing::BoardMemory memory(shape);
  const Board second(shape, memory.data(), &first.board());
  LocalRank one(first.board(), 0, [](const Status&) {});
  LocalRank other(second, 0, [](const Status&) {});
  Ints a(1, 1);
  for (LocalRank* called : {&one, &other}) {
    const Time begin = monotonic_now();
    called->submit(sum_of(a));
    LocalRank::sleep({&one, &other}, kLong);
    EXPECT_LT(monotonic_now() - begin, kSoon);
    while (called->step(begin)) {
    }
    EXPECT_FALSE(called->has_work());
  }
  const Time begin = monotonic_now();
  second.leave(1);
  LocalRank::sleep({&one, &other}, kLong);
  EXPECT_LT(monotonic_now() - begin, kSoon);
}

}  // namespace
}  // namespace switchml::shm
