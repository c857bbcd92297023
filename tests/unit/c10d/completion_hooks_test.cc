#include "c10d/completion_hooks.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace switchml {
namespace {

class CompletionHooksTest : public ::testing::Test {
 protected:
  CompletionHooks::Hook noting(int what) {
    return [this, what](uint64_t key, std::optional<float> duration_ms) {
      called.emplace_back(what, key);
      last = duration_ms;
    };
  }
  CompletionHooks hooks;
  std::vector<std::pair<int, uint64_t>> called;
  std::optional<float> last;
};

TEST_F(CompletionHooksTest, AreCalledEachTime) {
  EXPECT_FALSE(hooks.any());
  hooks.add(2, noting(2));
  hooks.add(1, noting(1));
  hooks.add(1, noting(3));  // in the other's place
  EXPECT_TRUE(hooks.any());
  hooks.run(7, 1.5F);
  EXPECT_EQ(last, 1.5F);
  hooks.run(8, std::nullopt);
  EXPECT_EQ(last, std::nullopt);
  EXPECT_EQ(called, (std::vector<std::pair<int, uint64_t>>{{3, 7}, {2, 7}, {3, 8}, {2, 8}}));
}

TEST_F(CompletionHooksTest, AreNotCalledOnceTheyAreTakenAway) {
  hooks.add(1, noting(1));
  hooks.remove(1);
  hooks.remove(77);  // nothing
  EXPECT_FALSE(hooks.any());
  hooks.run(7, {});
  EXPECT_TRUE(called.empty());
}

TEST_F(CompletionHooksTest, GoToTheGroupInWhosePlaceTheirsCame) {
  CompletionHooks next;
  hooks.add(1, noting(1));
  next.take_over(hooks);
  EXPECT_TRUE(next.any() && !hooks.any());
  next.run(7, {});
  EXPECT_EQ(called.size(), 1U);
}

}  // namespace
}  // namespace switchml
