#include "shm/local_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "engine/in_place.h"
#include "integers.h"
#include "team.h"
#include "words_path.h"

namespace switchml::shm {
namespace {

using switchml::testing::in_place;
using testing::Bytes;
using ::testing::HasSubstr;
using testing::Ints;
using testing::kLong;
using testing::kSoon;
using testing::Outcomes;
using testing::sum_of;
using testing::Team;

Collective barrier() {
  Collective c;
  c.op = ReduceOp::kBarrier;
  c.title = "barrier";
  return c;
}

// ---- results ----

/// One rank's side of a sum: its tensor, and the part of the result that it wants, between two guards.
struct Side {
  Ints input;
  Ints output;
  size_t begin = 0;
  Collective call;
};

constexpr int32_t kGuard = 0x5a5a5a5a;

Side random_side(size_t count, std::mt19937_64& random) {
  Side side;
  side.input.resize(count);
  for (int32_t& x : side.input) x = static_cast<int32_t>(random());
  side.begin = random() % (count + 1);
  const size_t end = side.begin + random() % (count - side.begin + 1);
  side.output.assign(end - side.begin + 2, kGuard);
  side.call.type = ElementType::kInt32;
  side.call.count = count;
  side.call.operands()->output.begin = side.begin;
  side.call.operands()->output.end = end;
  return side;
}

/// Collectives of all ranks, each of which calls them in their order, but when it likes.
class Program {
 public:
  Program(Team& team, uint64_t seed) : team_(team), random_(seed), called_(static_cast<size_t>(team.ranks())) {
    calls_.resize(1 + random_() % 4);
    for (auto& call : calls_) {
      const size_t count = random_() % 3 == 0 ? random_() % 3 : random_() % 200;
      for (int rank = 0; rank < team.ranks(); ++rank) call.push_back(random_side(count, random_));
    }
  }

  bool run() {
    for (int i = 0; i < 100000; ++i) {
      const int rank = team_.any_rank();
      if (random_() % 8 == 0) call_next(rank);
      team_.step(rank);
      const bool all_called = std::all_of(called_.begin(), called_.end(), [&](size_t n) { return n == calls_.size(); });
      if (all_called && team_.all_done()) return true;
    }
    return false;
  }

  void expect_sums() const {
    for (const auto& call : calls_) {
      Ints sums(call[0].input.size());
      for (const Side& side : call) {
        for (size_t i = 0; i < sums.size(); ++i) {
          sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(side.input[i]));
        }
      }
      for (const Side& side : call) {
        ASSERT_EQ(side.output.front(), kGuard);
        ASSERT_EQ(side.output.back(), kGuard);
        for (size_t i = 1; i + 1 < side.output.size(); ++i) ASSERT_EQ(side.output[i], sums[side.begin + i - 1]) << i;
      }
    }
  }

 private:
  void call_next(int rank) {
    size_t& called = called_[static_cast<size_t>(rank)];
    if (called == calls_.size()) return;
    Side& side = calls_[called++][static_cast<size_t>(rank)];
    side.call.operands()->input = side.input.data();
    side.call.operands()->output.data = side.output.data() + 1;
    team_.submit(rank, side.call);
  }

  Team& team_;
  std::mt19937_64 random_;
  std::vector<size_t> called_;
  std::vector<std::vector<Side>> calls_;
};

TEST(LocalRank, SumsAreExactInWhateverOrderMembersStep) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const BoardShape shape{1 + static_cast<int>(random() % 5), 1 + static_cast<int>(random() % 5),
                           64 * (1 + random() % 3)};
    Team team(shape, seed);
    Program program(team, seed);
    ASSERT_TRUE(program.run()) << "seed " << seed;
    program.expect_sums();
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

// What is not ready is odd, which would show in the sums.
TEST(LocalRank, OffersInputsAsTheyBecomeReadyAndTellsHowFarResultsAre) {
  constexpr size_t kCount = 500;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Team team({3, 4, 64}, seed);
    std::mt19937_64 random(seed);
    Ints given[3] = {Ints(kCount, 1), Ints(kCount, 1), Ints(kCount, 1)}, got[3] = {given[0], given[0], given[0]};
    Watermark ready[3];
    ResultWatermark written[3];
    for (int rank = 0; rank < 3; ++rank) {
      Collective c = sum_of(given[rank]);
      c.operands()->output.data = got[rank].data();
      c.ready = &ready[rank];
      c.written = &written[rank];
      team.submit(rank, c);
    }
    for (int i = 0; i < 100000 && !team.all_done(); ++i) {
      const size_t which = random() % 3, from = ready[which].elements(), until = std::min(kCount, from + random() % 60);
      for (size_t e = from; e < until; ++e) given[which][e] = static_cast<int32_t>(2 * e);
      ready[which].raise(until);
      const int rank = team.any_rank();
      team.step(rank);
      for (size_t e = 0; e < written[rank].elements(); ++e) ASSERT_EQ(got[rank][e], static_cast<int32_t>(6 * e));
    }
    for (const ResultWatermark& result : written) ASSERT_EQ(result.elements(), kCount) << "seed " << seed;
  }
}

TEST(LocalRank, AGatheringTellsHowFarEachPieceIs) {
  constexpr size_t kCount = 500;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Team team({3, 4, 64}, seed);
    Bytes given[3], got[3][3];
    ResultWatermark written[3][3];
    for (int rank = 0; rank < 3; ++rank) {
      given[rank].assign(kCount, static_cast<uint8_t>(rank + 1));
      Gather gather;
      gather.input = given[rank].data();
      for (int from = 0; from < 3; ++from) {
        got[rank][from].resize(kCount);
        gather.receive_ranges.push_back({got[rank][from].data(), 0, kCount});
        gather.written.push_back(&written[rank][from]);
      }
      Collective c;
      c.type = ElementType::kUInt8;
      c.count = kCount;
      c.kind = std::move(gather);
      team.submit(rank, c);
    }
    bool is_early = false;
    for (int i = 0; i < 100000 && !team.all_done(); ++i) {
      const int rank = team.any_rank();
      team.step(rank);
      for (int from = 0; from < 3; ++from) {
        const size_t there = written[rank][from].elements();
        is_early = is_early || (there > 0 && there < kCount);
        for (size_t e = 0; e < there; ++e) ASSERT_EQ(got[rank][from][e], from + 1);
      }
    }
    EXPECT_TRUE(is_early) << "seed " << seed;
    for (const auto& of_rank : written) {
      for (const ResultWatermark& piece : of_rank) EXPECT_EQ(piece.elements(), kCount) << "seed " << seed;
    }
  }
}

TEST(LocalRank, EveryOperationOfEveryTypeHasTheBitsOfTheSwitch) {
  constexpr size_t n = 1500;
  testing::Random random(41);
  for (const ReduceOp op : testing::kReductions) {
    for (int t = 0; t < kElementTypes; ++t) {
      const auto type = static_cast<ElementType>(t);
      if (!integer_can(op, type)) continue;
      for (int flavour = 0; flavour < testing::kFlavours; ++flavour) {
        Team team({3, 4, 2048}, static_cast<uint64_t>(flavour) + 1);
        auto tensors = testing::random_tensors(type, 3, n, flavour, random);
        const Bytes expected = testing::by_definition({op, type, 3}, tensors, n);
        for (int rank = 0; rank < 3; ++rank) {
          Collective c = in_place(op, type, tensors[static_cast<size_t>(rank)]);
          c.count = c.operands()->output.end = n;
          c.operands()->divisor = 3;
          team.submit(rank, c);
        }
        ASSERT_TRUE(team.run());
        for (const Bytes& tensor : tensors) {
          ASSERT_EQ(testing::difference(type, expected.data(), tensor.data(), n), "")
              << to_string(op) << " of " << to_string(type) << ", flavour " << flavour;
        }
      }
    }
  }
}

// Such an output is written with non-temporal stores, to an address that no vector is aligned to.
TEST(LocalRank, ALargePartOfAResult) {
  constexpr size_t n = 400000;
  Team team({2, 4, 65536});
  std::vector<Ints> inputs(2, Ints(n));
  for (size_t i = 0; i < n; ++i) {
    inputs[0][i] = static_cast<int32_t>(i * 7);
    inputs[1][i] = static_cast<int32_t>(i * 1000003);
  }
  std::vector<Ints> outputs(2, Ints(n, kGuard));
  std::vector<Outcomes> outcomes;
  for (size_t rank = 0; rank < 2; ++rank) {
    Collective c = sum_of(inputs[rank]);
    c.operands()->output.data = outputs[rank].data() + 1 + rank;
    c.operands()->output.begin = 1000;
    c.operands()->output.end = n - 3;
    outcomes.push_back(team.submit(static_cast<int>(rank), c));
  }
  ASSERT_TRUE(team.run());
  for (size_t rank = 0; rank < 2; ++rank) {
    const size_t wanted = n - 3 - 1000;
    for (size_t i = 0; i < wanted; ++i) {
      ASSERT_EQ(outputs[rank][1 + rank + i], static_cast<int32_t>((1000 + i) * 1000010)) << i;
    }
    EXPECT_EQ(outputs[rank][rank], kGuard);
    EXPECT_EQ(outputs[rank][1 + rank + wanted], kGuard);
  }
}

TEST(LocalRank, BarriersCompleteInTheirOrderAndWhenAllHaveCalled) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Team team({3, 2, 64}, seed);
    Ints tensors[3] = {Ints(40, 1), Ints(40, 1), Ints(40, 1)};
    std::vector<std::vector<int>> ended(3);
    std::vector<Collective> calls[3];
    for (size_t rank = 0; rank < 3; ++rank) {
      calls[rank] = {barrier(), sum_of(tensors[rank]), barrier(), barrier()};
      for (size_t i = 0; i < 4; ++i) {
        calls[rank][i].done = [&ended, rank, i](const Status& status) {
          ended[rank].push_back(status.ok() ? static_cast<int>(i) : -1);
        };
      }
    }
    for (size_t rank = 0; rank < 3; ++rank) {
      for (int i = 0; i < 200; ++i) team.step(team.any_rank());
      for (const auto& order : ended) ASSERT_TRUE(order.empty()) << "before all have called";
      for (const Collective& call : calls[rank]) team.local_rank(static_cast<int>(rank)).submit(call);
    }
    for (int i = 0; i < 1000; ++i) team.step(team.any_rank());
    for (const auto& order : ended) ASSERT_EQ(order, (std::vector<int>{0, 1, 2, 3})) << "seed " << seed;
  }
}

TEST(LocalRank, ACollectiveMayBeSubmittedWhereAnotherEnds) {
  Team team({2, 1, 64});
  std::vector<Ints> tensors(2, Ints(20, 3));
  std::vector<Outcomes> second(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    Collective first = sum_of(tensors[rank]);
    first.done = [&, rank](const Status&) {
      second[rank] = team.submit(static_cast<int>(rank), sum_of(tensors[rank]));
    };
    team.local_rank(static_cast<int>(rank)).submit(first);
  }
  for (int i = 0; i < 1000; ++i) team.step(team.any_rank());
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(second[rank]);
    ASSERT_EQ(second[rank]->size(), 1U);
    EXPECT_TRUE(second[rank]->front().ok());
    EXPECT_EQ(tensors[rank], Ints(20, 12));
  }
}

TEST(LocalRank, SaysWhetherThereIsSomethingToDo) {
  Team team({2, 2, 64});
  Ints a(1, 1);
  Ints b(1, 2);
  EXPECT_FALSE(team.local_rank(0).has_work());
  EXPECT_FALSE(team.local_rank(0).waits_for_others());
  EXPECT_EQ(team.local_rank(0).next_wakeup(), kNever);
  team.submit(0, sum_of(a));
  EXPECT_TRUE(team.local_rank(0).has_work());
  EXPECT_TRUE(team.step(0)) << "it has offered";
  EXPECT_FALSE(team.local_rank(0).has_work());
  EXPECT_FALSE(team.step(0));
  EXPECT_TRUE(team.local_rank(0).waits_for_others());
  EXPECT_FALSE(team.local_rank(0).has_full_window());
  team.submit(1, sum_of(b));
  EXPECT_TRUE(team.step(1));
  EXPECT_TRUE(team.local_rank(0).has_work()) << "a result is there";
  EXPECT_TRUE(team.step(0));
  EXPECT_FALSE(team.local_rank(0).waits_for_others());
  EXPECT_EQ(a[0], 3);
}

TEST(LocalRank, OffersAsFarAsItsWindowGoes) {
  for (const int slots : {1, 2, 5}) {
    Team team({2, slots, 64});
    std::vector<Ints> tensors(10, Ints(20, 1));  // two chunks each
    for (Ints& tensor : tensors) team.submit(0, sum_of(tensor));
    team.step(0);
    const uint64_t window = team.board().window();
    EXPECT_EQ(window, slots == 5 ? 2U : 1U);
    for (uint64_t seq = 1; seq <= window; ++seq) EXPECT_TRUE(team.board().has_offered(0, seq)) << seq;
    EXPECT_FALSE(team.board().has_offered(0, window + 1));
    EXPECT_TRUE(team.local_rank(0).has_full_window());
    team.local_rank(0).request_failure(Status(Code::kAborted, "test"));
    team.step(0);
  }
}

// ---- disagreement ----

TEST(LocalRank, WhatRanksDisagreeAboutIsFoundOnAllOfThem) {
  const std::vector<std::function<void(Collective*)>> differences = {
      [](Collective* c) { c->op = ReduceOp::kMax; },
      [](Collective* c) { c->op = ReduceOp::kMin; },
      [](Collective* c) { c->type = ElementType::kFloat32; },
      [](Collective* c) {
        c->type = ElementType::kInt64;
        c->count = c->operands()->output.end = 250;
      },
      [](Collective* c) { c->count = c->operands()->output.end = 499; },
      [](Collective* c) { c->count = c->operands()->output.end = 320; },  // whole chunks, which are all the same
      [](Collective* c) { c->count = c->operands()->output.end = 1; },
      [](Collective* c) { c->title = "reduce"; },
      [](Collective* c) { c->tag = 1; },
      [](Collective* c) { c->operands()->divisor = 3; },
      [](Collective* c) { *c = barrier(); },
  };
  for (size_t d = 0; d < differences.size(); ++d) {
    for (int odd = 0; odd < 3; ++odd) {
      Team team({3, 2, 64}, d + 1);
      std::vector<Ints> tensors(3, Ints(500, 1));
      std::vector<Outcomes> outcomes;
      std::vector<std::string> texts;
      for (int rank = 0; rank < 3; ++rank) {
        Collective c = sum_of(tensors[static_cast<size_t>(rank)]);
        if (rank == odd) differences[d](&c);
        texts.push_back(describe(c));
        outcomes.push_back(team.submit(rank, c));
      }
      ASSERT_TRUE(team.run()) << "difference " << d;
      for (size_t rank = 0; rank < 3; ++rank) {
        ASSERT_EQ(outcomes[rank]->front().code(), Code::kMismatch) << "difference " << d << ", rank " << rank;
        EXPECT_THAT(outcomes[rank]->front().message(), HasSubstr("called " + texts[rank] + ","));
        EXPECT_EQ(team.failures(static_cast<int>(rank)).size(), 1U);
        EXPECT_EQ(team.local_rank(static_cast<int>(rank)).counters().witness_failures.get(), 1U);
      }
    }
  }
}

// ---- those who do not come ----

TEST(LocalRank, ADeadlineNamesTheRanksThatAreMissing) {
  Team team({4, 2, 64});
  Ints tensors[2] = {Ints(100, 1), Ints(100, 1)};
  Outcomes outcomes[2];
  const Time deadline = team.now + seconds(30);
  for (const int rank : {0, 2}) {
    Collective c = sum_of(tensors[rank / 2]);
    c.deadline = deadline;
    outcomes[rank / 2] = team.submit(rank, c);
  }
  for (int i = 0; i < 100; ++i) team.step(team.any_rank());
  EXPECT_EQ(team.local_rank(0).next_wakeup(), deadline);
  team.now = deadline - nanoseconds(1);
  for (int i = 0; i < 100; ++i) team.step(team.any_rank());
  EXPECT_FALSE(team.all_done());
  team.now = deadline;
  for (int i = 0; i < 100; ++i) team.step(team.any_rank());
  for (const Outcomes& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_EQ(outcome->front().code(), Code::kTimeout);
    EXPECT_THAT(outcome->front().message(), HasSubstr("all_reduce(SUM, int32, 100 elements) did not complete"));
    EXPECT_THAT(outcome->front().message(), HasSubstr("no contribution from rank 1, 3 for 30 s"));
  }
  EXPECT_EQ(team.failures(0).size(), 1U);
  ASSERT_EQ(team.failures(1).size(), 1U) << "it has called nothing, but the group is over";
  EXPECT_EQ(team.failures(1).front().code(), Code::kTimeout);
}

TEST(LocalRank, WhatACallWaitsForIsShownAFewTimesASecond) {
  Team team({2, 2, 64});
  std::vector<EngineWait> shown;
  SlowWarning slow;
  slow.show = [&shown](const Collective&, const EngineWait& wait) { shown.push_back(wait); };
  team.local_rank(0).warn_when_slow(slow);
  Ints tensors[2] = {Ints(10, 1), Ints(10, 1)};
  team.submit(0, sum_of(tensors[0]));
  const auto pass = [&](Duration time) {
    for (const Time end = team.now + time; team.now < end; team.now += milliseconds(10)) team.step(team.any_rank());
  };
  pass(milliseconds(200));
  EXPECT_TRUE(shown.empty());
  pass(milliseconds(1800));
  EXPECT_GE(shown.size(), 4U);
  EXPECT_LE(shown.size(), 9U);
  EXPECT_EQ(shown.at(0).chunk, 1U);
  EXPECT_EQ(shown.at(0).slot, 1);
  EXPECT_THAT(shown.at(0).missing, HasSubstr("no contribution from rank 1"));
  team.submit(1, sum_of(tensors[1]));
  pass(milliseconds(20));
  shown.clear();
  pass(seconds(2));
  EXPECT_TRUE(shown.empty()) << "it has ended";
}

TEST(LocalRank, WhoIsAwaitedForLongIsNamedOnceOfEachCall) {
  Team team({3, 2, 64});
  std::vector<std::string> said;
  team.local_rank(0).warn_when_slow({seconds(4), [&said](const Collective& call, const std::string& missing) {
                                       said.push_back(std::to_string(call.sequence) + ": " + missing);
                                     }});
  Ints tensors[3] = {Ints(100, 1), Ints(100, 1), Ints(100, 1)};
  const auto call = [&](int rank, uint64_t sequence) {
    Collective c = sum_of(tensors[rank]);
    c.sequence = sequence;
    team.submit(rank, c);
  };
  const auto pass = [&](Duration time) {
    for (const Time end = team.now + time; team.now < end; team.now += milliseconds(100)) team.step(team.any_rank());
  };
  for (const int rank : {0, 2}) call(rank, 1);
  for (const int rank : {0, 2}) call(rank, 2);
  pass(seconds(3));
  EXPECT_TRUE(said.empty());
  pass(seconds(60));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("1: no contribution from rank 1 for 4"));
  call(1, 1);
  pass(seconds(60));
  ASSERT_EQ(said.size(), 2U);
  EXPECT_THAT(said[1], HasSubstr("2: no contribution from rank 1 for 4"));
  call(1, 2);
  EXPECT_TRUE(team.run());
  EXPECT_EQ(said.size(), 2U);
}

TEST(LocalRank, TheEarliestDeadlineCountsWhereverItStands) {
  Team team({2, 2, 64});
  Ints a(10, 1);
  Ints b(20, 1);
  Collective first = sum_of(a);
  first.deadline = team.now + seconds(60);
  Collective second = sum_of(b);
  second.deadline = team.now + seconds(5);
  const Outcomes outcomes[] = {team.submit(0, first), team.submit(0, second)};
  team.step(0);
  EXPECT_EQ(team.local_rank(0).next_wakeup(), second.deadline);
  team.now = second.deadline;
  team.step(0);
  for (const Outcomes& outcome : outcomes) {
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_THAT(outcome->front().message(), HasSubstr("20 elements) did not complete"));
  }
}

TEST(LocalRank, ADeadlineThatWasMetIsForgotten) {
  Team team({1, 2, 64});
  Ints a(10, 1);
  Ints b(10, 1);
  Collective first = sum_of(a);
  first.deadline = team.now + seconds(1);
  team.submit(0, first);
  ASSERT_TRUE(team.run());
  team.now += seconds(2);
  const Outcomes later = team.submit(0, sum_of(b));
  ASSERT_TRUE(team.run());
  EXPECT_TRUE(later->front().ok()) << later->front().to_string();
}

TEST(LocalRank, ADeadlineNamesTheRankThatStoppedWhileItAdded) {
  Team team({2, 2, 64});
  Ints a(10, 1);
  Collective c = sum_of(a);
  c.deadline = team.now + seconds(7);
  const Outcomes outcome = team.submit(0, c);
  team.step(0);
  team.board().offer(1, 1, team.board().call_of(0, 1));
  team.step(0);
  team.now = c.deadline;
  team.step(0);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_THAT(outcome->front().message(),
              HasSubstr("all ranks have contributed, and rank 1 has not added its part for 7 s"));
}

TEST(LocalRank, WhatOneRankHasWaitedForInVainSucceedsOnNone) {
  for (const uint64_t seed : {1, 2, 3}) {  // parts of all, of none, of large ones
    for (const bool called : {false, true}) {
      Team team({2, 4, 64}, seed);
      Ints tensors[2] = {Ints(10, 1), Ints(10, 1)};
      Collective c = sum_of(tensors[0]);
      c.deadline = team.now + seconds(7);
      Outcomes late;
      if (called) late = team.submit(1, sum_of(tensors[1]));  // and is stopped before its first step
      const Outcomes outcome = team.submit(0, c);
      team.step(0);
      team.now = c.deadline;
      team.step(0);
      ASSERT_EQ(outcome->size(), 1U);
      EXPECT_EQ(outcome->front().code(), Code::kTimeout);
      if (!called) late = team.submit(1, sum_of(tensors[1]));
      for (int i = 0; i < 3; ++i) team.step(1);
      ASSERT_EQ(late->size(), 1U);
      EXPECT_EQ(late->front().code(), Code::kTimeout);
      EXPECT_THAT(late->front().message(), HasSubstr("rank 0 gave up: all_reduce(SUM, int32, 10 elements) did not"));
    }
  }
}

TEST(LocalRank, APartOfARankThatHasLeftIsNotWaitedFor) {
  Team team({2, 2, 64});
  Ints tensors[2] = {Ints(10, 1), Ints(10, 1)};
  const Outcomes outcomes[2] = {team.submit(0, sum_of(tensors[0])), team.submit(1, sum_of(tensors[1]))};
  team.step(1);
  team.board().leave(1);
  for (int i = 0; i < 3; ++i) team.step(0);
  ASSERT_EQ(outcomes[0]->size(), 1U);
  EXPECT_THAT(outcomes[0]->front().message(), HasSubstr("1 (left the session)"));
}

TEST(LocalRank, ARankThatHasGivenUpMakesNoParts) {
  Team team({2, 8, 64});
  Ints tensors[5] = {Ints(10, 1), Ints(10, 1), Ints(10, 1), Ints(10, 1), Ints(10, 1)};
  team.submit(0, sum_of(tensors[0]));
  Collective differs = sum_of(tensors[1]);
  differs.done = [&](const Status&) { team.board().offer(1, 3, team.board().call_of(0, 3)); };  // now it is ready
  team.local_rank(0).submit(std::move(differs));
  team.submit(0, sum_of(tensors[2]));
  team.step(0);
  team.submit(1, sum_of(tensors[3]));
  Collective other = sum_of(tensors[4]);
  other.op = ReduceOp::kMax;
  team.submit(1, other);
  for (const int rank : {1, 0}) team.step(rank);
  EXPECT_EQ(team.failures(0).size(), 1U);
  EXPECT_TRUE(team.board().is_ready(3));
  EXPECT_FALSE(team.board().has_made(0, 3));
  team.step(1);
}

TEST(LocalRank, WhoHasLeftIsNotWaitedFor) {
  Team team({3, 2, 64}, 2);
  std::vector<Ints> tensors(3, Ints(10, 1));
  std::vector<Outcomes> outcomes;
  for (int rank = 0; rank < 3; ++rank)
    outcomes.push_back(team.submit(rank, sum_of(tensors[static_cast<size_t>(rank)])));
  team.step(1);
  team.board().leave(1);
  ASSERT_TRUE(team.run()) << "it had contributed before";
  for (const Outcomes& outcome : outcomes) EXPECT_TRUE(outcome->front().ok());
  for (const int rank : {0, 2}) {
    const Outcomes next = team.submit(rank, sum_of(tensors[static_cast<size_t>(rank)]));
    for (int i = 0; i < 3; ++i) team.step(rank);
    ASSERT_EQ(next->size(), 1U);
    EXPECT_EQ(next->front().code(), Code::kUnavailable);
    EXPECT_THAT(next->front().message(), HasSubstr("all_reduce(SUM, int32, 10 elements) cannot complete"));
    EXPECT_THAT(next->front().message(), HasSubstr("1 (left the session)"));
    EXPECT_EQ(team.failures(rank).size(), 1U);
  }
}

// ---- failure ----

TEST(LocalRank, AFailureEndsEverythingOnceAndForAll) {
  Team team({2, 2, 64});
  std::vector<Ints> tensors(4, Ints(200, 1));
  const Outcomes before[] = {team.submit(0, sum_of(tensors[0])), team.submit(0, sum_of(tensors[1]))};
  for (int i = 0; i < 5; ++i) team.step(0);
  const Outcomes with = team.submit(0, sum_of(tensors[2]));
  team.local_rank(0).request_failure(Status(Code::kAborted, "first"));
  team.local_rank(0).request_failure(Status(Code::kUnavailable, "second"));
  EXPECT_TRUE(team.local_rank(0).has_work());
  team.step(0);
  const Outcomes after = team.submit(0, sum_of(tensors[3]));
  for (int i = 0; i < 5; ++i) team.step(0);
  for (const Outcomes& outcome : {before[0], before[1], with, after}) {
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_EQ(outcome->front().to_string(), Status(Code::kAborted, "first").to_string());
  }
  ASSERT_EQ(team.failures(0).size(), 1U);
  EXPECT_EQ(team.failures(0)[0].message(), "first");
  EXPECT_FALSE(team.local_rank(0).waits_for_others());
  EXPECT_EQ(team.local_rank(0).next_wakeup(), kNever);
}

// A failure at any point, on any rank: everything ends, and nothing ends twice.
TEST(LocalRank, AFailureAtAnyMoment) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Team team({3, 2, 64}, seed);
    std::vector<Ints> tensors(6, Ints(60, 1));
    for (size_t i = 0; i < tensors.size(); ++i) team.submit(static_cast<int>(i % 3), sum_of(tensors[i]));
    for (uint64_t i = 0; i < seed % 40; ++i) team.step(team.any_rank());
    const int failing = team.any_rank();
    team.local_rank(failing).request_failure(Status(Code::kAborted, "test"));
    team.step(failing);
    team.board().leave(failing);
    ASSERT_TRUE(team.run()) << "seed " << seed;
  }
}

// ---- sleep ----

TEST(LocalRank, WhoLeavesEndsASleepThatIsToCome) {
  Team team({2, 2, 64});
  Ints a(1, 1);
  const Outcomes outcome = team.submit(0, sum_of(a));
  team.step(0);
  team.board().leave(1);
  const Time begin = monotonic_now();
  team.local_rank(0).sleep(kLong);
  EXPECT_LT(monotonic_now() - begin, kSoon);
  team.step(0);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_THAT(outcome->front().message(), HasSubstr("(left the session)"));
}

/// Steps `local rank` from a thread of its own until `collectives` have ended, and sleeps where there is nothing to do.
std::thread run_until_ended(LocalRank& local_rank, const std::atomic<int>& ended, int collectives) {
  return std::thread([&local_rank, &ended, collectives] {
    while (ended.load() < collectives) {
      if (!local_rank.step(monotonic_now()) && ended.load() < collectives) local_rank.sleep(kLong);
    }
  });
}

// Nobody looks for work, so a wake that is lost would cost half a minute.
TEST(LocalRank, NoWakeIsLost) {
  constexpr int kCollectives = 60;
  for (const int slots : {1, 2, 3, 8}) {
    Team team({4, slots, 64});
    std::vector<std::vector<Ints>> tensors(4, std::vector<Ints>(kCollectives, Ints(160, 1)));
    std::atomic<int> ended[4] = {};
    std::vector<std::thread> threads;
    const Time begin = monotonic_now();
    for (int rank = 0; rank < 4; ++rank) {
      threads.push_back(run_until_ended(team.local_rank(rank), ended[rank], kCollectives));
    }
    for (int i = 0; i < kCollectives; ++i) {
      for (int rank = 0; rank < 4; ++rank) {
        Collective c = sum_of(tensors[static_cast<size_t>(rank)][static_cast<size_t>(i)]);
        c.done = [&, rank](const Status& status) { ended[rank] += status.ok() ? 1 : 1000; };
        team.local_rank(rank).submit(c);
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LT(monotonic_now() - begin, kSoon) << slots << " slots";
    for (const auto& of_rank : tensors) {
      for (const Ints& tensor : of_rank) ASSERT_EQ(tensor, Ints(160, 4));
    }
    for (const auto& count : ended) EXPECT_EQ(count, kCollectives) << "all have succeeded";
  }
}

// A rank that has called ahead sleeps until half of its window is there, but no collective may wait for the next one.
TEST(LocalRank, ASleeperIsWokenForTheEndOfACollectiveThoughTheNextIsNotCalled) {
  Team team({2, 8, 64});
  std::vector<Ints> tensors(3, Ints(16, 1));
  std::atomic<int> ended{0};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    Collective c = sum_of(tensors[i]);
    c.done = [&](const Status&) { ++ended; };
    team.local_rank(0).submit(c);
  }
  std::thread thread = run_until_ended(team.local_rank(0), ended, 1);
  std::this_thread::sleep_for(milliseconds(50));  // it has offered both and sleeps
  const Time begin = monotonic_now();
  team.submit(1, sum_of(tensors[2]));
  while (!team.all_done()) team.step(1);
  thread.join();
  EXPECT_LT(monotonic_now() - begin, kSoon);
  EXPECT_EQ(tensors[0], Ints(16, 2));
  team.local_rank(0).request_failure(Status(Code::kAborted, "test"));
  team.step(0);
}

}  // namespace
}  // namespace switchml::shm
