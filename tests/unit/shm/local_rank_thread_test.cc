#include "shm/local_rank_thread.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <future>
#include <memory>

#include "engine/arithmetic.h"
#include "engine/in_place.h"
#include "integers.h"
#include "team.h"

namespace switchml::shm {
namespace {

using switchml::testing::Arithmetic;
using switchml::testing::in_place;
using switchml::testing::StrangeArithmetic;
using testing::Ints;
using testing::kLong;
using testing::sum_of;
using testing::Team;

/// A rank's local rank and the thread that steps it.
class ThreadedRank {
 public:
  ThreadedRank(Team& team, int rank, Duration spin = Duration(0))
      : local_rank_(team.local_rank(rank)), thread_({&local_rank_}, spin) {}

  /// How `collective` ends.
  std::future<Status> submit(Collective collective) {
    auto end = testing::end_of(&collective);
    give(std::move(collective));
    return end;
  }
  /// Where it ends.
  std::future<std::thread::id> submit_for_thread(Collective collective) {
    auto promise = std::make_shared<std::promise<std::thread::id>>();
    collective.done = [promise](const Status&) { promise->set_value(std::this_thread::get_id()); };
    give(std::move(collective));
    return promise->get_future();
  }
  void fail() {
    local_rank_.request_failure(Status(Code::kAborted, "over"));
    thread_.notify();
  }
  void give(Collective collective) {
    local_rank_.submit(std::move(collective));
    thread_.notify();
  }
  std::unique_ptr<CallerTurn> begin_turn() { return thread_.begin_turn(); }
  /// The same, once the thread has let go of what it has finished.
  std::unique_ptr<CallerTurn> turn() {
    std::unique_ptr<CallerTurn> turn = begin_turn();
    for (const Time end = monotonic_now() + kLong; !turn && monotonic_now() < end; turn = begin_turn()) {
      std::this_thread::yield();
    }
    return turn;
  }

 private:
  LocalRank& local_rank_;
  LocalRankThread thread_;
};

template <typename T>
bool is_ready(const std::future<T>& future) {
  return future.wait_for(Duration(0)) == std::future_status::ready;
}

template <typename T>
void work_until_ready(CallerTurn& turn, const std::future<T>& future) {
  while (!is_ready(future)) turn.work_until([&future] { return is_ready(future); });
}

TEST(LocalRankThread, StepsUntilAllIsDone) {
  for (const Duration spin : {Duration(0), Duration(microseconds(50))}) {
    Team team({3, 2, 64});
    std::vector<std::unique_ptr<ThreadedRank>> ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(std::make_unique<ThreadedRank>(team, rank, spin));
    for (int round = 0; round < 30; ++round) {
      std::vector<Ints> tensors(3, Ints(100, round));
      std::vector<std::future<Status>> ends;
      for (size_t rank = 0; rank < 3; ++rank) ends.push_back(ranks[rank]->submit(sum_of(tensors[rank])));
      for (auto& end : ends) {
        ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
        ASSERT_TRUE(end.get().ok());
      }
      for (const Ints& tensor : tensors) ASSERT_EQ(tensor, Ints(100, 3 * round));
    }
  }
}

TEST(LocalRankThread, KeepsDeadlines) {
  for (const Duration spin : {Duration(0), Duration(microseconds(50))}) {
    Team team({2, 2, 64});
    ThreadedRank rank(team, 0, spin);
    Ints tensor(1, 1);
    Collective c = sum_of(tensor);
    const Time begin = monotonic_now();
    c.deadline = begin + milliseconds(60);
    auto end = rank.submit(c);
    ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
    EXPECT_EQ(end.get().code(), Code::kTimeout);
    EXPECT_GE(monotonic_now() - begin, milliseconds(60));
  }
}

TEST(LocalRankThread, WhatWasAskedForLastIsDone) {
  for (int i = 0; i < 50; ++i) {
    Team team({2, 2, 64});
    Ints tensor(1, 1);
    auto rank = std::make_unique<ThreadedRank>(team, 0);
    auto end = rank->submit(sum_of(tensor));
    rank->fail();
    rank.reset();
    ASSERT_TRUE(is_ready(end));
    EXPECT_EQ(end.get().code(), Code::kAborted);
    EXPECT_EQ(team.failures(0).size(), 1U);
  }
}

// Half a second each if its sleep had to run out. A busy machine makes some take as long, but not most.
TEST(LocalRankThread, EndsAtOnceWhereItSleeps) {
  int at_once = 0;
  for (int i = 0; i < 30; ++i) {
    Team team({2, 2, 64});
    const Time begin = monotonic_now();
    {
      const ThreadedRank rank(team, 0);
      std::this_thread::sleep_for(milliseconds(i % 3));
    }
    at_once += monotonic_now() - begin < milliseconds(400) ? 1 : 0;
  }
  EXPECT_GT(at_once, 6);
}

// Reductions take the caller's word for floats: flush-to-zero or another rounding would change the bits.
TEST(LocalRankThread, WorksWithDefaultArithmetic) {
  Team team(BoardShape{1, 4, 8192});
  const StrangeArithmetic strange;
  const Arithmetic before;
  ThreadedRank rank(team, 0);
  const auto found = [&rank](std::unique_ptr<CallerTurn> turn) {
    Ints tensor{1};
    std::promise<Arithmetic> arithmetic;
    Collective collective = sum_of(tensor);
    collective.done = [&arithmetic](const Status&) { arithmetic.set_value(Arithmetic()); };
    auto result = arithmetic.get_future();
    rank.give(std::move(collective));
    if (turn) work_until_ready(*turn, result);
    return result.get();
  };
  for (const Arithmetic& arithmetic : {found(nullptr), found(rank.turn())}) {
    EXPECT_EQ(arithmetic.rounding, FE_TONEAREST);
    EXPECT_EQ(arithmetic.flags, 0U);
  }
  const Arithmetic after;
  EXPECT_EQ(after.rounding, before.rounding) << "a turn has changed its caller's arithmetic";
  EXPECT_EQ(after.flags, before.flags) << "a turn has changed its caller's arithmetic";
}

// ---- turns of callers ----

TEST(CallerTurn, DoesTheWorkInTheCallersThread) {
  for (const Duration spin : {Duration(0), Duration(microseconds(50))}) {
    Team team({2, 2, 64});
    ThreadedRank other(team, 0, spin);
    ThreadedRank own(team, 1, spin);
    for (int round = 0; round < 30; ++round) {
      Ints of_other(100, round);
      Ints tensor(100, 1);
      auto end_of_other = other.submit(sum_of(of_other));
      const auto turn = own.turn();
      ASSERT_NE(turn, nullptr);
      auto where = own.submit_for_thread(sum_of(tensor));
      work_until_ready(*turn, where);
      EXPECT_EQ(where.get(), std::this_thread::get_id());
      EXPECT_EQ(tensor, Ints(100, round + 1));
      EXPECT_TRUE(end_of_other.get().ok());
      EXPECT_EQ(of_other, tensor);
    }
  }
}

TEST(CallerTurn, IsForOneAtATimeAndWhileNothingIsUnderWay) {
  Team team({2, 2, 64});
  ThreadedRank other(team, 0);
  ThreadedRank own(team, 1);
  auto turn = own.begin_turn();
  ASSERT_NE(turn, nullptr);
  EXPECT_EQ(own.begin_turn(), nullptr) << "while another has it";
  turn.reset();
  Ints tensors[] = {{1}, {2}};
  auto end = own.submit(sum_of(tensors[1]));
  EXPECT_EQ(own.begin_turn(), nullptr) << "with a collective under way";
  auto end_of_other = other.submit(sum_of(tensors[0]));
  EXPECT_TRUE(end.get().ok());
  EXPECT_NE(own.turn(), nullptr) << "once it is over";
  EXPECT_TRUE(end_of_other.get().ok());
}

TEST(CallerTurn, ThatEndsEarlyLeavesTheRestToTheThread) {
  Team team({2, 2, 64});
  ThreadedRank other(team, 0);
  ThreadedRank own(team, 1);
  for (const bool works : {false, true}) {
    Ints tensors[] = {Ints(1000, 1), Ints(1000, 2)};
    auto turn = own.turn();
    ASSERT_NE(turn, nullptr);
    auto where = own.submit_for_thread(sum_of(tensors[1]));
    if (works) turn->work_until([] { return false; });  // in vain: the other rank has not called it
    turn.reset();
    EXPECT_FALSE(is_ready(where));
    auto end_of_other = other.submit(sum_of(tensors[0]));
    ASSERT_EQ(where.wait_for(kLong), std::future_status::ready);
    EXPECT_NE(where.get(), std::this_thread::get_id());
    EXPECT_TRUE(end_of_other.get().ok());
    EXPECT_EQ(tensors[1], Ints(1000, 3));
  }
}

TEST(CallerTurn, MayBeOfAnyThread) {
  Team team({1, 2, 64});
  ThreadedRank rank(team, 0, microseconds(50));
  for (int round = 0; round < 20; ++round) {
    std::thread([&rank] {
      Ints tensor{1};
      const auto turn = rank.turn();
      auto where = rank.submit_for_thread(sum_of(tensor));
      work_until_ready(*turn, where);
      EXPECT_EQ(where.get(), std::this_thread::get_id());
    }).join();
  }
}

TEST(CallerTurn, IsEndedByAFailureThatAnotherThreadAsksFor) {
  Team team({2, 2, 64});
  ThreadedRank rank(team, 0);
  Ints tensor{1};
  const auto turn = rank.turn();
  auto end = rank.submit(sum_of(tensor));
  std::thread other([&rank] { rank.fail(); });
  work_until_ready(*turn, end);
  other.join();
  EXPECT_EQ(end.get().code(), Code::kAborted);
}

TEST(CallerTurn, WhatComesMeanwhileIsDone) {
  Team team({2, 2, 64});
  ThreadedRank other(team, 0);
  ThreadedRank own(team, 1);
  for (int round = 0; round < 50; ++round) {
    Ints tensors[4] = {{1}, {2}, {3}, {4}};
    auto turn = own.turn();
    auto first = own.submit(sum_of(tensors[0]));
    std::vector<std::future<Status>> rest;
    std::thread caller([&] {
      EXPECT_EQ(own.begin_turn(), nullptr);
      rest.push_back(own.submit(sum_of(tensors[1])));
      for (size_t i : {2, 3}) rest.push_back(other.submit(sum_of(tensors[i])));
    });
    work_until_ready(*turn, first);
    caller.join();
    if (round % 2 == 0) work_until_ready(*turn, rest[0]);
    turn.reset();
    EXPECT_TRUE(first.get().ok());
    for (auto& end : rest) EXPECT_TRUE(end.get().ok());
    EXPECT_EQ(tensors[0], Ints{4});
    EXPECT_EQ(tensors[1], Ints{6});
  }
}

}  // namespace
}  // namespace switchml::shm
