#include "session/membership.h"

#include <gtest/gtest.h>

#include <vector>

#include "store/map_store.h"

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

TEST(Membership, RanksThatAreGoneAreKnownByHow) {
  MapStore store;
  Membership ranks({0, 3, "group g"}, store);
  ranks.note_gone(2, "rank 2 (h, process 9) is gone: killed");
  ranks.note_gone(2, "again");
  EXPECT_EQ(ranks.gone_ranks(), (std::map<int, std::string>{{2, "rank 2 (h, process 9) is gone: killed"}}));
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
