#include "store/store_channel.h"

#include <gtest/gtest.h>

#include "store/map_store.h"

namespace switchml {
namespace {

StoreChannel::MayWait for_ever() {
  return [](int, Duration) { return Status(); };
}

TEST(StoreChannel, WhatOneSaysOthersHear) {
  MapStore store;
  StoreChannel zero(store, 0, for_ever());
  StoreChannel one(store, 1, for_ever());
  ASSERT_TRUE(zero.say("state", std::string("a\0b", 3)).ok());
  ASSERT_TRUE(one.say("state", "").ok());
  EXPECT_EQ(one.hear("state", 0).value(), std::string("a\0b", 3));
  EXPECT_EQ(zero.hear("state", 1).value(), "");
}

TEST(StoreChannel, WaitsAsLongAsItMay) {
  MapStore store;
  int asked = 0;
  StoreChannel zero(store, 0, [&](int rank, Duration waited) {
    EXPECT_EQ(rank, 3);
    EXPECT_GE(waited, milliseconds(100) * ++asked);
    return asked < 3 ? Status() : Status(Code::kAborted, "enough");
  });
  auto heard = zero.hear("state", 3);
  ASSERT_FALSE(heard.ok());
  EXPECT_EQ(heard.status().message(), "enough");
  EXPECT_EQ(asked, 3);
}

TEST(StoreChannel, ABrokenStoreEndsTheWait) {
  MapStore store;
  store.broken = true;
  StoreChannel zero(store, 0, for_ever());
  EXPECT_EQ(zero.say("state", "x").code(), Code::kUnavailable);
  EXPECT_EQ(zero.agree("ready", 2, Status()).code(), Code::kUnavailable);
}

TEST(StoreChannel, AllAgreeOrAllHearWhoDoesNot) {
  for (const bool well : {true, false}) {
    MapStore store;
    each_rank(3, [&](int rank) {
      StoreChannel mine(store, rank, for_ever());
      const bool bad = !well && rank == 1;
      const Status status = mine.agree("ready", 3, bad ? Status(Code::kMismatch, "no way") : Status());
      EXPECT_EQ(status.ok(), well);
      EXPECT_EQ(status.message(), well ? "" : bad ? "no way" : "rank 1: no way");
    });
  }
}

}  // namespace
}  // namespace switchml
