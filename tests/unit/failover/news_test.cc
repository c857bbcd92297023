#include "failover/news.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(News, ALossIsOfOneSwitchAndTheFirstReasonCounts) {
  News news;
  news.hear(1, News::loss(2, "switch s is silent"));
  news.hear(0, News::loss(2, "it does not answer"));
  EXPECT_EQ(news.loss_after(2), "switch s is silent");
  EXPECT_EQ(news.loss_after(0), std::nullopt);
  EXPECT_EQ(news.loss_after(4), std::nullopt);
}

TEST(News, RankZeroAloneOffersAndAnOldOfferChangesNothing) {
  News news;
  EXPECT_EQ(news.offered(), 0);
  news.hear(1, News::offer(7));
  EXPECT_EQ(news.offered(), 0);
  news.hear(0, News::offer(3));
  news.hear(0, News::offer(2));
  EXPECT_EQ(news.offered(), 3);
}

TEST(News, WhoHasLeftIsAtTheEndAsWell) {
  News news;
  news.hear(2, News::end());
  news.hear(2, News::end());
  news.hear_leave(1);
  EXPECT_EQ(news.at_the_end(), 2U);
  EXPECT_TRUE(news.at_the_end(1) && news.at_the_end(2));
  EXPECT_TRUE(news.has_left(1));
  EXPECT_FALSE(news.has_left(2));
  EXPECT_FALSE(news.at_the_end(0));
}

TEST(News, WhatIsNoneOfItIsPassedOver) {
  News news;
  for (const char* text : {"", "end of it", "los", "back", "lost"}) news.hear(0, text);
  EXPECT_EQ(news.at_the_end(), 0U);
  EXPECT_EQ(news.offered(), 0);
  EXPECT_EQ(news.loss_after(0), std::nullopt);
}

}  // namespace
}  // namespace switchml
