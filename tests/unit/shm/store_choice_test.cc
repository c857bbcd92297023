#include "shm/store_choice.h"

#include <gtest/gtest.h>

namespace switchml::shm {
namespace {

constexpr size_t kCopied = 64 * 1024;
constexpr Duration kSlowCopy = 65 * StoreChoice::kSlowKiB;
constexpr Duration kFastCopy = 63 * StoreChoice::kSlowKiB;

void copies(StoreChoice* choice, int count, Duration cached) {
  for (int i = 0; i < count; ++i) choice->took(kCopied, cached);
}

TEST(StoreChoice, BypassesTheCachesWhereTwoCopiesWereSlow) {
  StoreChoice choice;
  copies(&choice, 100, kFastCopy);
  EXPECT_EQ(choice.stores(), Stores::kCached);
  copies(&choice, 1, kSlowCopy);
  EXPECT_EQ(choice.stores(), Stores::kCached) << "one may be chance";
  copies(&choice, 1, kSlowCopy);
  EXPECT_EQ(choice.stores(), Stores::kNonTemporal);
}

TEST(StoreChoice, SmallCopiesTellNothing) {
  StoreChoice choice;
  for (int i = 0; i < 10; ++i) choice.took(StoreChoice::kLeast - 1, seconds(1));
  EXPECT_EQ(choice.stores(), Stores::kCached);
}

TEST(StoreChoice, LooksAgainNowAndThen) {
  StoreChoice choice;
  copies(&choice, 2, kSlowCopy);
  int cached = 0;
  for (int i = 0; i < 10 * (StoreChoice::kBetween + 1); ++i) {
    cached += choice.stores() == Stores::kCached ? 1 : 0;
    copies(&choice, 1, kSlowCopy);
  }
  EXPECT_EQ(cached, 10);
  copies(&choice, 2 * (StoreChoice::kBetween + 1), kFastCopy);
  EXPECT_EQ(choice.stores(), Stores::kCached) << "cores that have moved";
}

}  // namespace
}  // namespace switchml::shm
