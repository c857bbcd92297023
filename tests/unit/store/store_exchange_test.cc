#include "store/store_exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <stdexcept>
#include <thread>

#include "store/map_store.h"

namespace switchml {
namespace {

class BrokenStore : public Rendezvous {
 public:
  Status set(const std::string&, const std::string&) override { return {Code::kUnavailable, "torn"}; }
  Result<std::string> get(const std::string& key, Time) override {
    asked.insert(key);
    return Status(Code::kUnavailable, "torn");
  }
  std::set<std::string> asked;
};

/// A store in which one key is seen from the nth time on that it is asked for.
class LateStore : public MapStore {
 public:
  LateStore(std::string key, int times) : left(times), key_(std::move(key)) {}
  Result<std::string> get(const std::string& key, Time deadline) override {
    return key == key_ && --left > 0 ? Status(Code::kTimeout, key) : MapStore::get(key, deadline);
  }
  int left;

 private:
  const std::string key_;
};

class Roll : public ::testing::Test {
 protected:
  GroupInfo info(int rank) const { return {rank, 4, "group g"}; }
  void say(int rank, const std::string& topic, const Blob& blob) {
    const GroupInfo group = info(rank);
    EXPECT_TRUE(StoreExchange(store_, group).say(topic, blob).ok());
  }
  MapStore store_;
  GroupInfo group_{0, 4, "group g"};
  StoreExchange roll_{store_, group_};
};

TEST_F(Roll, EverybodyIsHeardInOrder) {
  for (int rank = 3; rank >= 0; --rank) {
    Blob blob;
    blob.set("me", static_cast<uint64_t>(rank));
    say(rank, "t", blob);
  }
  auto all = roll_.hear_all("t", monotonic_now() + seconds(5));
  ASSERT_TRUE(all.ok());
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(all.value()[rank].text("me"), std::to_string(rank));
}

TEST_F(Roll, AllThatAreMissingAreNamed) {
  say(0, "t", Blob());
  say(2, "t", Blob());
  auto all = roll_.hear_all("t", monotonic_now() + milliseconds(50));
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.status().code(), Code::kTimeout);
  EXPECT_TRUE(contains(all.status(), "ranks 1, 3 of group g did not come within")) << all.status().message();
}

TEST_F(Roll, WhoIsMissingIsSaidAtOnce) {
  const Status otherwise(Code::kTimeout, "all are here");
  say(0, "t", Blob());
  say(1, "t", Blob());
  say(3, "t", Blob());
  const Status missing = roll_.who_is_missing("t", seconds(1800), otherwise);
  EXPECT_EQ(missing.code(), Code::kTimeout);
  EXPECT_TRUE(contains(missing, "rank 2 of group g did not come within 1800 s")) << missing.message();
  say(2, "t", Blob());
  EXPECT_EQ(roll_.who_is_missing("t", seconds(1800), otherwise).message(), "all are here");
}

TEST_F(Roll, WhoIsMissingIsNotAskedOfABrokenStoreRankByRank) {
  BrokenStore none;
  StoreExchange roll(none, group_);
  const Status status = roll.who_is_missing("t", seconds(1800), Status(Code::kTimeout, "all are here"));
  EXPECT_TRUE(contains(status, "the store of group g cannot be read: torn")) << status.message();
  EXPECT_EQ(none.asked.count(rank_key("t", 1)), 0U);
}

TEST_F(Roll, WhatIsThereIsReadAtOnceAndTheRestAsItComes) {
  say(0, "t", Blob());
  say(3, "t", Blob());
  roll_.use({nullptr, [this](Duration, bool) {
               say(1, "t", Blob());
               say(2, "t", Blob());
               return false;
             }});
  EXPECT_EQ(roll_.hear_all("t", kNever)->size(), 4U);
}

TEST_F(Roll, WhoWaitsForRankZeroRestsUntilThatRings) {
  int rung = 0;
  const auto ring = [&rung] { ++rung; };
  const GroupInfo one = info(1);
  StoreExchange zero(store_, group_), other(store_, one);
  zero.use({ring, nullptr});
  std::vector<bool> rests;
  other.use({ring, [&](Duration, bool until_ring) {
               rests.push_back(until_ring);
               if (until_ring) {
                 EXPECT_TRUE(zero.tell_all("t", Blob()).ok());
               } else {
                 say(2, "t", Blob());
               }
               return until_ring;
             }});
  EXPECT_TRUE(other.hear("t", 0, "speak", kNever).ok());
  EXPECT_TRUE(other.hear("t", 2, "speak", kNever).ok());
  EXPECT_EQ(rests, (std::vector<bool>{true, false}));
  EXPECT_EQ(rung, 1);
}

// Rank 0's word may come behind its ring.
TEST_F(Roll, WhoFindsNoWordAfterARingLooksAgainSoon) {
  const GroupInfo one = info(1);
  StoreExchange other(store_, one);
  std::vector<bool> rests;
  other.use({nullptr, [&](Duration, bool until_ring) {
               rests.push_back(until_ring);
               if (rests.size() == 4) say(0, "t", Blob());
               return until_ring;
             }});
  EXPECT_TRUE(other.hear("t", 0, "speak", kNever).ok());
  EXPECT_EQ(rests, (std::vector<bool>{true, false, true, false}));
}

TEST_F(Roll, AnErrorNamesItsRank) {
  say(0, "t", Blob());
  say(1, "t", Blob::failure({Code::kInvalidArgument, "bad thing"}));
  auto all = roll_.hear_all("t", monotonic_now() + seconds(5));
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(all.status().message(), "rank 1: bad thing");
}

TEST_F(Roll, OneRankIsAwaitedByName) {
  auto one = roll_.hear("t", 2, "bring bread", monotonic_now() + milliseconds(20));
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.status().code(), Code::kTimeout);
  EXPECT_TRUE(contains(one.status(), "rank 2 of group g did not bring bread")) << one.status().message();
  say(2, "t", Blob::failure({Code::kMismatch, "stale bread"}));
  one = roll_.hear("t", 2, "bring bread", monotonic_now() + seconds(5));
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.status().message(), "stale bread");
}

TEST_F(Roll, ABrokenStoreIsSaidSo) {
  store_.broken = true;
  const Status status = roll_.say("t", Blob());
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "the map is torn"));
}

// ---- ranks that give up ----

TEST_F(Roll, WhoGivesUpEndsEveryWait) {
  const GroupInfo two = info(2);
  StoreExchange(store_, two).give_up({Code::kInternal, "no thread"});
  for (const Status& status : {roll_.hear_all("t", kNever).status(), roll_.hear("u", 1, "speak", kNever).status()}) {
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_EQ(status.message(), "rank 2: no thread");
  }
}

TEST_F(Roll, WhatWasLeftBeforeIsHeardAllTheSame) {
  Blob blob;
  blob.set("me", uint64_t{1});
  say(1, "t", blob);
  give_up_opening(store_, info(2), {Code::kInternal, "no thread"});
  EXPECT_TRUE(roll_.hear("t", 1, "speak", kNever).ok());
}

TEST_F(Roll, NobodyRepeatsWhatTheOthersKnow) {
  const auto others_hear = [&] { return roll_.hear("t", 3, "speak", monotonic_now() + milliseconds(100)).status(); };
  const GroupInfo one = info(1);
  StoreExchange late(store_, one);
  late.give_up({Code::kTimeout, "all have waited as long"});
  StoreExchange said(store_, one);
  EXPECT_TRUE(said.say("u", Blob::failure({Code::kInternal, "bad thing"})).ok());
  said.give_up({Code::kInternal, "bad thing"});
  StoreExchange heard(store_, one);
  EXPECT_EQ(heard.hear("u", 1, "speak", kNever).status().message(), "bad thing");
  heard.give_up({Code::kInternal, "bad thing"});
  EXPECT_EQ(others_hear().code(), Code::kTimeout);
}

TEST_F(Roll, RankZeroPartsLast) {
  std::atomic<bool> all{false};
  std::thread others([&] {
    for (int rank = 1; rank < 4; ++rank) {
      const GroupInfo group = info(rank);
      all = rank == 3;
      StoreExchange(store_, group).part(seconds(60));
    }
  });
  roll_.part(seconds(60));
  EXPECT_TRUE(all);
  others.join();
}

TEST_F(Roll, NobodyPartsFromThoseWhoDoNotComeForLong) { roll_.part(milliseconds(10)); }

TEST_F(Roll, RankZeroPartsFromTheRestWhereOneIsLost) {
  LateStore store(rank_key("parted", 3), 2);
  for (const int rank : {1, 3}) EXPECT_TRUE(store.set(rank_key("parted", rank), "").ok());
  StoreExchange roll(store, group_);
  roll.wait_while([] { return Status(Code::kUnavailable, "rank 2 is gone"); });
  roll.part(seconds(3600));
  EXPECT_EQ(store.left, 0);
}

TEST_F(Roll, RankZeroPartsFromTheRestWhereOneIsFoundLostMeanwhile) {
  for (const int rank : {1, 3}) EXPECT_TRUE(store_.set(rank_key("parted", rank), "").ok());
  int asked = 0;
  roll_.wait_while([&asked] { return ++asked < 3 ? Status() : Status(Code::kUnavailable, "rank 2 is gone"); });
  roll_.part(seconds(3600));
  EXPECT_EQ(asked, 3);
}

TEST_F(Roll, WhatElseFailsEndsAWait) {
  roll_.wait_while([] { return Status(Code::kUnavailable, "rank 1 is gone"); });
  EXPECT_EQ(roll_.hear_all("t", kNever).status().message(), "rank 1 is gone");
}

TEST_F(Roll, WhatARankHasSaidComesBeforeWhatIsSeenOfIt) {
  const GroupInfo other = info(1);
  StoreExchange(store_, other).give_up(Status(Code::kUnavailable, "no thread"));
  roll_.wait_while([] { return Status(Code::kUnavailable, "rank 1 is gone"); });
  EXPECT_EQ(roll_.hear_all("t", kNever).status().message(), "rank 1: no thread");
}

TEST_F(Roll, WhoseDeathHasEndedTheStoreIsNamedWhenThatIsKnown) {
  int asked = 0;
  BrokenStore none;
  StoreExchange roll(none, group_);
  roll.wait_while([&asked] { return ++asked % 5 != 0 ? Status() : Status(Code::kUnavailable, "rank 1 is gone"); });
  EXPECT_EQ(roll.say("t", Blob()).message(), "rank 1 is gone");
  EXPECT_EQ(roll.hear("t", 1, "speak", kNever).status().message(), "rank 1 is gone");
}

TEST_F(Roll, AStepThatFailsOrThrowsIsTold) {
  using Outcome = Result<int>;
  const auto told_of = [&](const std::function<Outcome()>& step) {
    MapStore store;
    const GroupInfo one = info(1);
    StoreExchange roll(store, one);
    try {
      EXPECT_FALSE(telling_others(roll, step).ok());
    } catch (const std::runtime_error&) {
    }
    return StoreExchange(store, group_).hear("t", 1, "speak", kNever).status().message();
  };
  EXPECT_EQ(told_of([]() -> Outcome { return Status(Code::kInternal, "bad"); }), "rank 1: bad");
  EXPECT_EQ(told_of([]() -> Outcome { throw StatusError(Status(Code::kUnavailable, "no memory")); }),
            "rank 1: no memory");
  EXPECT_EQ(told_of([]() -> Outcome { throw std::runtime_error("Ctrl-C\nat line 1"); }),
            "rank 1: its process ended the wait: Ctrl-C");
}

}  // namespace
}  // namespace switchml
