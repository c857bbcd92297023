#include "shm/member_thread.h"

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

/// How `collective` ends on a member that a thread steps.
std::future<Status> submit(Member& member, Collective collective) {
  auto promise = std::make_shared<std::promise<Status>>();
  collective.done = [promise](const Status& status) { promise->set_value(status); };
  member.submit(std::move(collective));
  return promise->get_future();
}

/// Takes all processors but `count` from this thread while it lives.
class FewProcessors {
 public:
  explicit FewProcessors(int count) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t few;
    CPU_ZERO(&few);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < count; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &few);
    }
    enough_ = CPU_COUNT(&few) == count && ::sched_setaffinity(0, sizeof few, &few) == 0;
  }
  ~FewProcessors() { ::sched_setaffinity(0, sizeof before_, &before_); }
  FewProcessors(const FewProcessors&) = delete;
  FewProcessors& operator=(const FewProcessors&) = delete;
  bool enough() const { return enough_; }

 private:
  cpu_set_t before_;
  bool enough_;
};

TEST(MemberThread, OnlyRanksThatHaveAProcessorEachLookForWork) {
  const FewProcessors one(1);
  ASSERT_TRUE(one.enough());
  EXPECT_GT(spin_time(1), Duration(0));
  EXPECT_LE(spin_time(1), milliseconds(1));
  EXPECT_EQ(spin_time(2), Duration(0));
  EXPECT_EQ(spin_time(128), Duration(0));
}

TEST(MemberThread, OfTwoProcessorsEachRankHasOne) {
  const FewProcessors two(2);
  if (!two.enough()) GTEST_SKIP() << "this machine has one processor";
  EXPECT_GT(spin_time(2), Duration(0));
  EXPECT_EQ(spin_time(3), Duration(0));
}

TEST(MemberThread, StepsUntilAllIsDone) {
  for (const Duration spin : {Duration(0), Duration(microseconds(50))}) {
    Team team({3, 2, 64});
    std::vector<std::unique_ptr<MemberThread>> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.push_back(std::make_unique<MemberThread>(std::vector<Member*>{&team.member(rank)}, spin));
    for (int round = 0; round < 30; ++round) {
      std::vector<Ints> tensors(3, Ints(100, round));
      std::vector<std::future<Status>> ends;
      for (int rank = 0; rank < 3; ++rank) {
        ends.push_back(submit(team.member(rank), sum_of(tensors[static_cast<size_t>(rank)])));
      }
      for (auto& end : ends) {
        ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
        ASSERT_TRUE(end.get().ok());
      }
      for (const Ints& tensor : tensors) ASSERT_EQ(tensor, Ints(100, 3 * round));
    }
  }
}

TEST(MemberThread, KeepsDeadlines) {
  for (const Duration spin : {Duration(0), Duration(microseconds(50))}) {
    Team team({2, 2, 64});
    const MemberThread thread({&team.member(0)}, spin);
    Ints tensor(1, 1);
    Collective c = sum_of(tensor);
    const Time begin = monotonic_now();
    c.deadline = begin + milliseconds(60);
    auto end = submit(team.member(0), c);
    ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
    EXPECT_EQ(end.get().code(), Code::kTimeout);
    EXPECT_GE(monotonic_now() - begin, milliseconds(60));
  }
}

TEST(MemberThread, WhatWasAskedForLastIsDone) {
  for (int i = 0; i < 50; ++i) {
    Team team({2, 2, 64});
    Ints tensor(1, 1);
    auto thread = std::make_unique<MemberThread>(std::vector<Member*>{&team.member(0)}, Duration(0));
    auto end = submit(team.member(0), sum_of(tensor));
    team.member(0).request_failure(Status(Code::kAborted, "over"));
    thread.reset();
    ASSERT_EQ(end.wait_for(Duration(0)), std::future_status::ready);
    EXPECT_EQ(end.get().code(), Code::kAborted);
    EXPECT_EQ(team.failures(0).size(), 1U);
  }
}

// Half a second each if its sleep had to run out.
TEST(MemberThread, EndsAtOnceWhereItSleeps) {
  const Time begin = monotonic_now();
  for (int i = 0; i < 30; ++i) {
    Team team({2, 2, 64});
    const MemberThread thread({&team.member(0)}, Duration(0));
    std::this_thread::sleep_for(milliseconds(i % 3));
  }
  EXPECT_LT(monotonic_now() - begin, seconds(12));
}

// Reductions take the caller's word for floats: flush-to-zero or another rounding would change the bits.
TEST(MemberThread, WorksWithDefaultArithmetic) {
  Team team(BoardShape{1, 4, 8192});
  std::unique_ptr<MemberThread> thread;
  {
    const StrangeArithmetic strange;
    thread = std::make_unique<MemberThread>(std::vector<Member*>{&team.member(0)}, Duration(0));
  }
  std::promise<Arithmetic> found;
  Ints tensor{1};
  Collective collective = sum_of(tensor);
  collective.done = [&found](const Status&) { found.set_value(Arithmetic()); };
  team.member(0).submit(std::move(collective));
  auto result = found.get_future();
  ASSERT_EQ(result.wait_for(kLong), std::future_status::ready);
  const Arithmetic arithmetic = result.get();
  EXPECT_EQ(arithmetic.rounding, FE_TONEAREST);
  EXPECT_EQ(arithmetic.flags, 0U);
  team.member(0).request_failure(Status(Code::kAborted, "for the test"));
}

}  // namespace
}  // namespace switchml::shm
