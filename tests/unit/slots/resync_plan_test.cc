#include "slots/resync_plan.h"

#include <gtest/gtest.h>

namespace switchml {
namespace {

TEST(ResyncPlan, TheLowestRankThatHasAResultGivesIt) {  // [MOVE-3]
  const ResyncPlan plan({{1, 4, 0, 7}, {2, 4, 1, 7}, {2, 3, 1, 7}});
  EXPECT_TRUE(plan.possible());
  EXPECT_EQ(plan.gives(0), (std::vector<int>{1}));
  EXPECT_EQ(plan.gives(1), (std::vector<int>{0, 2}));
  EXPECT_TRUE(plan.gives(2).empty());
  EXPECT_EQ(plan.takes_from(0), (std::vector<int>{1}));
  EXPECT_TRUE(plan.takes_from(1).empty());
  EXPECT_EQ(plan.takes_from(2), (std::vector<int>{0}));
  EXPECT_EQ(plan.last(0), 2U);
  EXPECT_EQ(plan.last(2), 1U);
}

TEST(ResyncPlan, NumbersWrapAround) {
  const ResyncPlan plan({{0xffffffffU}, {2}});
  EXPECT_TRUE(plan.possible());
  EXPECT_EQ(plan.gives(1), (std::vector<int>{0}));
}

TEST(ResyncPlan, TwoUsesApartIsImpossible) {
  EXPECT_FALSE(ResyncPlan({{3}, {5}}).possible());
  EXPECT_TRUE(ResyncPlan({{3}, {4}}).possible());
}

}  // namespace
}  // namespace switchml
