#include "c10d/completion.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace switchml {
namespace {

TEST(CompletionPool, RunsEverythingBeforeJoinReturns) {
  std::atomic<int> ran{0};
  CompletionPool pool;
  for (int i = 0; i < 1000; ++i) pool.post([&ran] { ++ran; });
  pool.join();
  EXPECT_EQ(ran.load(), 1000);
}

TEST(CompletionPool, KeepsTheOrderWhileOneThreadIsEnough) {
  std::vector<int> order;
  CompletionPool pool;
  for (int i = 0; i < 100; ++i) pool.post([&order, i] { order.push_back(i); });
  pool.join();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

// A callback that waits for a later completion, which waits for a still later one: 40 deep.
TEST(CompletionPool, GrowsWhenTasksWaitForLaterTasks) {
  constexpr int kDepth = 40;
  CompletionPool pool;
  std::vector<std::promise<void>> done(kDepth + 1);
  for (int i = 0; i < kDepth; ++i) {
    pool.post([&done, i] {
      done[static_cast<size_t>(i) + 1].get_future().wait();
      done[static_cast<size_t>(i)].set_value();
    });
  }
  pool.post([&done] { done[kDepth].set_value(); });
  const auto first = done[0].get_future().wait_for(std::chrono::seconds(30));
  EXPECT_EQ(first, std::future_status::ready);
  EXPECT_GE(pool.threads(), static_cast<size_t>(kDepth));
  pool.join();
}

TEST(CompletionPool, JoinFinishesTasksThatBlockEachOther) {
  CompletionPool pool;
  std::promise<void> later;
  std::atomic<bool> waited{false};
  pool.post([&] {
    later.get_future().wait();
    waited = true;
  });
  pool.post([&later] { later.set_value(); });
  pool.join();
  EXPECT_TRUE(waited.load());
}

TEST(CompletionPool, DoesNotGrowWhileTasksMove) {
  CompletionPool pool;
  std::atomic<int> ran{0};
  for (int i = 0; i < 20000; ++i) pool.post([&ran] { ++ran; });
  while (ran.load() < 20000) std::this_thread::yield();
  EXPECT_LE(pool.threads(), 64U);  // a thread that the system stops for a millisecond looks blocked
}

TEST(CompletionPool, LetsGoOfATaskWhenItIsDone) {
  CompletionPool pool;
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = held;
  std::promise<void> ran;
  pool.post([held = std::move(held), &ran] { ran.set_value(); });
  ran.get_future().wait();
  for (int i = 0; i < 5000 && !watch.expired(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(watch.expired());
}

TEST(CompletionPool, RunsOnTheCallersThreadAfterJoin) {
  CompletionPool pool;
  pool.join();
  std::thread::id ran_on;
  pool.post([&ran_on] { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(CompletionPool, MayBeDestroyedOnItsOwnThread) {
  auto pool = std::make_shared<CompletionPool>();
  CompletionPool& alias = *pool;
  std::promise<void> ended;
  alias.post([pool = std::move(pool), &ended]() mutable {
    pool.reset();
    ended.set_value();
  });
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

}  // namespace
}  // namespace switchml
