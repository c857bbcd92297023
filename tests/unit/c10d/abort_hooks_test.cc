#include "c10d/abort_hooks.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace switchml {
namespace {

class AbortHooksTest : public ::testing::Test {
 protected:
  AbortHooks::Hook noting(int what) {
    return [this, what] { called.push_back(what); };
  }
  AbortHooks hooks;
  std::vector<int> called;
};

TEST_F(AbortHooksTest, AreCalledInOrderAndOnce) {
  hooks.add(2, noting(2));
  hooks.add(-1, noting(-1));
  hooks.run();
  hooks.run();
  EXPECT_EQ(called, (std::vector<int>{-1, 2}));
}

TEST_F(AbortHooksTest, OfOneNameTheLastCounts) {
  hooks.add(1, noting(10));
  hooks.add(1, noting(11));
  hooks.run();
  EXPECT_EQ(called, (std::vector<int>{11}));
}

TEST_F(AbortHooksTest, AreNotCalledOnceTheyAreTakenAway) {
  hooks.add(1, noting(1));
  hooks.add(2, noting(2));
  hooks.remove(1);
  hooks.remove(77);  // nothing
  hooks.run();
  EXPECT_EQ(called, (std::vector<int>{2}));
}

TEST_F(AbortHooksTest, OneThatThrowsKeepsNoOtherFromItsTurn) {
  hooks.add(1, [] { throw std::runtime_error("no disk"); });
  hooks.add(2, noting(2));
  hooks.run();
  EXPECT_EQ(called, (std::vector<int>{2}));
}

TEST_F(AbortHooksTest, MayChangeTheHooks) {
  hooks.add(1, [this] {
    hooks.remove(1);
    hooks.add(2, noting(2));
  });
  hooks.run();
  EXPECT_TRUE(called.empty());
  hooks.run();
  EXPECT_EQ(called, (std::vector<int>{2}));
}

TEST_F(AbortHooksTest, AreDroppedWhenTheyHaveRun) {
  const auto held = std::make_shared<int>(0);
  hooks.add(1, [held] { ++*held; });
  hooks.run();
  EXPECT_EQ(*held, 1);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace switchml
