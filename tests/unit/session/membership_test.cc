#include "session/membership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

#include "base/limits.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "store/map_store.h"
#include "store/store_exchange.h"
#include "watch/peer_watch.h"

namespace switchml {
namespace {

TEST(Membership, TheFirstLossCountsAndIsToldOnceAlsoLater) {
  MapStore store;
  Membership ranks({0, 3, "group g"}, store);
  EXPECT_FALSE(ranks.has_loss());
  std::vector<std::string> engine, callback;
  Membership::Handlers handlers;
  handlers.on_loss = [&](const Status& why) { engine.push_back(why.message()); };
  ranks.watch({}, seconds(1), handlers);
  ranks.lose({Code::kUnavailable, "rank 1 is gone"});
  ranks.when_lost([&](const Status& why) { callback.push_back(why.message()); });
  ranks.lose({Code::kUnavailable, "rank 2 is gone"});
  EXPECT_TRUE(ranks.has_loss());
  EXPECT_EQ(callback, std::vector<std::string>{"rank 1 is gone"});
  EXPECT_EQ(engine.size(), 2U) << "which has its own first reason";
  ranks.when_lost(nullptr);
}

// Nobody listens where rank 0 should.
TEST(Membership, WhatItsWatchSeesIsALossUnlessRankZeroHasLeft) {
  const auto address = [] {
    auto listener = PeerWatch::listen(literal_address("127.0.0.1", 0).value());
    EXPECT_TRUE(listener.ok());
    return local_endpoint(listener->get());
  }();
  MapStore store;
  Membership ranks({1, 2, "group g"}, store);
  std::promise<std::string> told;
  std::atomic<int> asked{0};
  Membership::Handlers handlers;
  handlers.on_loss = [&](const Status& why) { told.set_value(why.message()); };
  handlers.rank_0_left = [&] { return asked++ < 0; };
  ranks.watch({Fd(), nullptr, address, {}}, seconds(1), handlers);
  auto loss = told.get_future();
  ASSERT_EQ(loss.wait_for(seconds(60)), std::future_status::ready);
  EXPECT_EQ(loss.get(), "rank 0 is gone: its process has ended without leaving the group");
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(ranks.gone_ranks().count(0), 1U);
  ranks.leave();
  EXPECT_TRUE(ranks.has_loss());
}

TEST(Membership, RanksThatAreGoneAreKnownByHow) {
  MapStore store;
  Membership ranks({0, 3, "group g"}, store);
  ranks.note_gone(2, "rank 2 (h, process 9) is gone: killed");
  ranks.note_gone(2, "again");
  EXPECT_EQ(ranks.gone_ranks(), (std::map<int, std::string>{{2, "rank 2 (h, process 9) is gone: killed"}}));
}

/// Counts how often it is asked for several keys, or one.
class CountingCalls : public MapStore {
 public:
  Result<std::vector<std::string>> get_all(const std::vector<std::string>& keys) override {
    ++requests;
    return MapStore::get_all(keys);
  }
  int requests = 0;
};

TEST(Membership, CallsOfManyRanksAreComparedWithFewRequests) {
  CountingCalls store;
  for (int rank = 1; rank < kMaxRanks; ++rank) {
    if (rank == 700) continue;
    ASSERT_TRUE(store.set(rank_key("call/0", rank), rank == 5 ? "barrier" : "a(1)").ok());
  }
  Membership ranks({0, kMaxRanks, "group g"}, store);
  const std::string told = ranks.compare_calls("a(1)");
  EXPECT_NE(told.find("; rank 5 called barrier; rank 700 did not say"), std::string::npos) << told;
  EXPECT_LE(store.requests, 40);
}

TEST(Membership, WithoutAWatchNothingIsAwaitedOrTold) {
  MapStore store;
  Membership ranks({0, 2, "group g"}, store);
  EXPECT_FALSE(ranks.awaits_ranks());
  ranks.tell("news");
  ranks.give_up("why");
  ranks.leave();
  EXPECT_FALSE(ranks.has_loss());
}

}  // namespace
}  // namespace switchml
