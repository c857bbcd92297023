#include "c10d/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "no_threads.h"

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

/// Runs `depth` callbacks, each of which issues a call and then waits for its completion in `wait`.
void nest(CompletionPool& pool, int depth, const std::function<void(std::future<void>)>& wait) {
  if (depth == 0) return;
  std::promise<void> completed;
  pool.post([&] { completed.set_value(); }, CompletionPool::level_here());
  wait(completed.get_future());
  nest(pool, depth - 1, wait);
  std::promise<void> inner;
  pool.post(
      [&] {
        nest(pool, depth - 1, wait);
        inner.set_value();
      },
      CompletionPool::level_here());
  wait(inner.get_future());
}

TEST(CompletionPool, CallbacksMayWaitForWhatTheyIssue) {
  CompletionPool pool;
  std::promise<void> done;
  pool.post([&] {
    nest(pool, 7, [](std::future<void> future) { future.wait(); });
    done.set_value();
  });
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_LE(pool.threads(), 7U + CompletionPool::kMostPerLevel) << "a thread for each level, or little more";
  pool.join();
}

// Many callbacks at once whose own calls come last in the queue: those may not wait behind them.
TEST(CompletionPool, ManyCallbacksMayWaitForWhatTheyIssue) {
  CompletionPool pool;
  constexpr int kCalls = 100;
  std::atomic<int> ended{0};
  std::promise<void> done;
  for (int i = 0; i < kCalls; ++i) {
    pool.post([&] {
      std::promise<void> inner;
      pool.post([&] { inner.set_value(); }, CompletionPool::level_here());
      inner.get_future().wait();
      if (++ended == kCalls) done.set_value();
    });
  }
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_LE(pool.threads(), 2 * CompletionPool::kMostPerLevel);
  pool.join();
}

// A task that waits for a later one of its level, which waits for a still later one: 40 deep.
TEST(CompletionPool, AWaitGivesItsPlaceToAnotherThread) {
  constexpr int kDepth = 40;
  CompletionPool pool;
  std::vector<std::promise<void>> done(kDepth + 1);
  for (int i = 0; i < kDepth; ++i) {
    pool.post([&done, i] {
      {
        const CompletionPool::Wait wait;
        done[static_cast<size_t>(i) + 1].get_future().wait();
      }
      done[static_cast<size_t>(i)].set_value();
    });
  }
  pool.post([&done] { done[kDepth].set_value(); });
  EXPECT_EQ(done[0].get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  pool.join();
}

// As Python's lock does. Nobody knows whether what they wait for needs another thread.
TEST(CompletionPool, TasksThatBlockMakeFewThreads) {
  CompletionPool pool;
  std::mutex mutex;
  std::unique_lock<std::mutex> held(mutex);
  std::atomic<int> ran{0};
  for (int i = 0; i < 1000; ++i) {
    pool.post([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      ++ran;
    });
  }
  size_t most = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < end) {
    most = std::max(most, pool.threads());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(most, CompletionPool::kMostPerLevel);
  held.unlock();
  for (int i = 0; i < 6000 && pool.threads() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pool.threads(), 1U) << "threads without work end";
  EXPECT_EQ(ran.load(), 1000);
  pool.join();
}

TEST(CompletionPool, AnswersForAThreadThatCannotBeMade) {
  expect_in_child([] {
    if (!refuse_threads()) return kThreadsAreGiven;
    CompletionPool pool;
    if (pool.start().ok()) return 1;
    bool ran = false;
    pool.post([&ran] { ran = true; });
    return ran ? 0 : 2;
  });
}

TEST(CompletionPool, GoesOnWithTheThreadsThatItHas) {
  expect_in_child([] {
    CompletionPool pool;
    if (!pool.start().ok()) return 1;
    if (!refuse_threads()) return kThreadsAreGiven;
    std::atomic<int> ran{0};
    for (int i = 0; i < 3; ++i) {
      pool.post([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that one more is wanted
        ++ran;
      });
    }
    pool.join();
    return ran == 3 ? 0 : 2;
  });
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
  EXPECT_LE(pool.threads(), CompletionPool::kMostPerLevel);  // a thread that the system stops looks blocked
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

TEST(CompletionPool, HasNewThreadsAfterARest) {
  CompletionPool pool;
  for (int turn = 0; turn < 3; ++turn) {
    std::atomic<int> runs{0};
    std::promise<std::thread::id> ran_on;
    pool.post([&] { ran_on.set_value(std::this_thread::get_id()); });
    EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
    for (int i = 0; i < 20; ++i) pool.post([&] { ++runs; });
    pool.rest();
    EXPECT_EQ(runs.load(), 20);
    EXPECT_EQ(pool.threads(), 0U);
  }
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
