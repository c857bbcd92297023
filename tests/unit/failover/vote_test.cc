#include "failover/vote.h"

#include <gtest/gtest.h>

#include "store/map_store.h"

namespace switchml {
namespace {

/// What three ranks get that say these numbers, which rank 0 adds; a negative one cannot say any.
std::vector<Result<Blob>> votes(const std::vector<int>& numbers,
                                const StoreChannel::MayWait& may_wait = for_seconds(10)) {
  MapStore store;
  std::vector<Result<Blob>> verdicts(numbers.size(), Result<Blob>(Blob()));
  each_rank(static_cast<int>(numbers.size()), [&](int rank) {
    StoreChannel channel(store, rank, may_wait);
    const int number = numbers[static_cast<size_t>(rank)];
    Blob mine;
    mine.set("number", static_cast<uint64_t>(number < 0 ? 0 : number));
    const auto sum = [](const std::vector<Blob>& said) {
      uint64_t all = 0;
      for (const Blob& one : said) {
        uint64_t part = 0;
        EXPECT_TRUE(one.number("number", 100, &part));
        all += part;
      }
      Blob verdict;
      verdict.set("sum", all);
      return verdict;
    };
    const GroupInfo group{rank, static_cast<int>(numbers.size()), "g"};
    const auto told = number < 0 ? Result<Blob>(Status(Code::kUnavailable, "no way")) : Result<Blob>(mine);
    verdicts[static_cast<size_t>(rank)] = vote(channel, group, "t", told, sum);
  });
  return verdicts;
}

TEST(Vote, RankZerosConclusionIsThatOfAll) {
  for (const auto& verdict : votes({1, 20, 3})) {
    ASSERT_TRUE(verdict.ok()) << verdict.status().to_string();
    EXPECT_EQ(verdict->text("sum"), "24");
  }
}

TEST(Vote, WhatOneRankCannotDoIsOffForAll) {
  for (const int who : {0, 1, 2}) {
    std::vector<int> numbers = {1, 2, 3};
    numbers[static_cast<size_t>(who)] = -1;
    const auto verdicts = votes(numbers);
    for (int rank = 0; rank < 3; ++rank) {
      const Status& status = verdicts[static_cast<size_t>(rank)].status();
      EXPECT_EQ(status.code(), Code::kUnavailable);
      EXPECT_EQ(status.message(), rank == who ? "no way" : "rank " + std::to_string(who) + ": no way");
    }
  }
}

// Rank 0 does not wait for the others any more; they go by its word all the same.
TEST(Vote, RankZeroAloneEndsTheWait) {
  MapStore store;
  const auto no_more = [](int, Duration) { return Status(Code::kUnavailable, "the switch was lost meanwhile"); };
  const auto nothing = [](const std::vector<Blob>&) { return Blob(); };
  StoreChannel first(store, 0, no_more), second(store, 1, for_seconds(10));
  const GroupInfo of_first{0, 2, "g"}, of_second{1, 2, "g"};
  EXPECT_EQ(vote(first, of_first, "t", Blob(), nothing).status().message(), "the switch was lost meanwhile");
  EXPECT_EQ(vote(second, of_second, "t", Blob(), nothing).status().message(), "the switch was lost meanwhile");
}

}  // namespace
}  // namespace switchml
