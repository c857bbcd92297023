#include "c10d/monitored_barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace switchml {
namespace {

bool says(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

class Map final : public Rendezvous {
 public:
  Status set(const std::string& key, const std::string& value) override {
    if (on_set) on_set(key, value);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (torn_) return {Code::kUnavailable, "the map is torn"};
    values_[key] = value;
    return {};
  }
  Result<std::string> get(const std::string& key, Time) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (torn_) return Status(Code::kUnavailable, "the map is torn");
    const auto found = values_.find(key);
    if (found == values_.end()) return Status(Code::kTimeout, key);
    return found->second;
  }
  void tear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    torn_ = true;
  }
  size_t size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return values_.size();
  }
  std::function<void(const std::string& key, const std::string& value)> on_set;  // called before

 private:
  std::mutex mutex_;
  bool torn_ = false;
  std::map<std::string, std::string> values_;
};

constexpr milliseconds kShort{300};
constexpr milliseconds kLong{120000};

class Ranks {
 public:
  explicit Ranks(int size) {
    for (int rank = 0; rank < size; ++rank) barriers_.push_back(std::make_unique<MonitoredBarrier>(map, rank, size));
  }
  MonitoredBarrier& operator[](int rank) { return *barriers_[static_cast<size_t>(rank)]; }

  /// `come` call at the same time; their outcomes, by rank.
  std::map<int, Status> pass(const std::vector<int>& come, milliseconds timeout, bool all = false) {
    std::map<int, Status> outcomes;
    for (const int rank : come) outcomes[rank];
    std::vector<std::thread> threads;
    for (const int rank : come) {
      threads.emplace_back([&, rank] { outcomes.at(rank) = (*this)[rank].pass(timeout, all); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  /// `others` come to this call, and then rank 0, which waits for kShort: a busy machine makes none of them too late.
  std::map<int, Status> pass_led(const std::vector<int>& others, int call, bool all) {
    std::map<int, Status> outcomes;
    std::thread followers([&] { outcomes = pass(others, kLong, all); });
    for (const int rank : others) await(rank, call);
    const Status of_zero = (*this)[0].pass(kShort, all);
    followers.join();
    outcomes[0] = of_zero;
    return outcomes;
  }
  /// Until that rank has come to that call.
  void await(int rank, int call) const {
    const std::string key = rank == 0 ? "opened" : "arrived/" + std::to_string(rank);
    const auto has_come = [&] {
      const auto value = map->get("monitored_barrier/" + key, {});
      return value.ok() && value.value() == std::to_string(call);
    };
    while (!has_come()) std::this_thread::yield();
  }

  const std::shared_ptr<Map> map = std::make_shared<Map>();

 private:
  std::vector<std::unique_ptr<MonitoredBarrier>> barriers_;
};

void expect_all_pass(const std::map<int, Status>& outcomes) {
  for (const auto& [rank, outcome] : outcomes) EXPECT_TRUE(outcome.ok()) << rank << ": " << outcome.to_string();
}

TEST(MonitoredBarrier, ManyInARowKeepTheStoreSmall) {
  Ranks ranks(4);
  for (int i = 0; i < 50; ++i) expect_all_pass(ranks.pass({0, 1, 2, 3}, kLong, i % 2 == 1));
  EXPECT_EQ(ranks.map->size(), 5U);
}

TEST(MonitoredBarrier, HoldsEverybodyForTheLast) {
  Ranks ranks(3);
  std::atomic<bool> last_came{false};
  std::vector<std::thread> threads;
  for (const int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      EXPECT_TRUE(ranks[rank].pass(kLong, false).ok());
      EXPECT_TRUE(last_came.load());
    });
  }
  std::this_thread::sleep_for(milliseconds(50));
  last_came = true;
  EXPECT_TRUE(ranks[2].pass(kLong, false).ok());
  for (std::thread& thread : threads) thread.join();
}

TEST(MonitoredBarrier, NamesTheFirstMissingRankOrAll) {
  for (const bool all : {false, true}) {
    Ranks ranks(5);
    const Time begin = monotonic_now();
    const auto outcomes = ranks.pass_led({1, 3}, 1, all);
    EXPECT_LT(monotonic_now() - begin, kLong / 2);
    const char* const names = all ? "[Rank 0]: Ranks 2, 4 failed to pass monitoredBarrier in 300 ms"
                                  : "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 300 ms";
    EXPECT_EQ(outcomes.at(0).code(), Code::kTimeout);
    EXPECT_EQ(outcomes.at(0).message(), names);
    for (const int rank : {1, 3}) {
      const std::string reached =
          "Rank " + std::to_string(rank) + " successfully reached monitoredBarrier, but received";
      EXPECT_EQ(outcomes.at(rank).message().rfind(reached, 0), 0U) << outcomes.at(rank).message();
      EXPECT_TRUE(says(outcomes.at(rank), names)) << outcomes.at(rank).message();
    }
  }
}

TEST(MonitoredBarrier, NoTimeAtAllFailsAtOnce) {
  Ranks ranks(3);
  const Status outcome = ranks[0].pass(milliseconds(0), false);
  EXPECT_TRUE(says(outcome, "Rank 0 timed out in monitoredBarrier after 0 ms"));
  EXPECT_TRUE(says(outcome, "Rank 1 "));
}

TEST(MonitoredBarrier, ARankThatComesTooLateIsToldAtOnceAndIsInStepAgain) {
  Ranks ranks(3);
  ranks.pass_led({1}, 1, false);
  ranks.pass_led({1}, 2, true);
  for (int missed = 0; missed < 2; ++missed) {
    const Time begin = monotonic_now();
    const Status late = ranks[2].pass(kLong, false);
    EXPECT_LT(monotonic_now() - begin, kLong / 2);
    EXPECT_TRUE(says(late, "2 failed to pass monitoredBarrier in 300 ms"));
  }
  expect_all_pass(ranks.pass({0, 1, 2}, kLong));
  EXPECT_EQ(ranks.map->size(), 4U);
}

TEST(MonitoredBarrier, ARankZeroThatDoesNotComeIsNamed) {
  Ranks ranks(3);
  for (const auto& [rank, outcome] : ranks.pass({1, 2}, kShort)) {
    EXPECT_EQ(outcome.code(), Code::kTimeout) << rank;
    EXPECT_TRUE(says(outcome, "Rank 0 did not come in 300 ms"));
  }
  // It comes now, and two have already failed in this call.
  EXPECT_TRUE(says(ranks[0].pass(kLong, false), "Rank 1 failed to pass monitoredBarrier"));
  expect_all_pass(ranks.pass({0, 1, 2}, kLong));
}

TEST(MonitoredBarrier, RankZeroIsToldOfAllThatGaveUpEvenIfTheyAreFurther) {
  Ranks ranks(3);
  for (int i = 0; i < 2; ++i) ranks.pass({1, 2}, milliseconds(5));
  for (int i = 0; i < 2; ++i) {
    const Status outcome = ranks[0].pass(kLong, true);
    EXPECT_TRUE(says(outcome, "Ranks 1, 2 failed"));
    EXPECT_TRUE(says(outcome, "rank 1, 2 had come and given up"));
  }
  expect_all_pass(ranks.pass({0, 1, 2}, kLong));
}

TEST(MonitoredBarrier, TheClockOfTheOthersStartsAgainWhenRankZeroComes) {
  Ranks ranks(3);
  constexpr milliseconds kItsTime{2000};
  std::thread early([&] { EXPECT_TRUE(ranks[1].pass(kItsTime, false).ok()); });
  ranks.await(1, 1);
  std::this_thread::sleep_for(kItsTime / 2);
  std::thread first([&] { EXPECT_TRUE(ranks[0].pass(kLong, false).ok()); });
  std::this_thread::sleep_for(kItsTime / 2 + milliseconds(100));  // rank 1's own time is over
  EXPECT_TRUE(ranks[2].pass(kLong, false).ok());
  early.join();
  first.join();
}

TEST(MonitoredBarrier, ARankThatGivesUpWhileRankZeroComesAgreesWithIt) {
  // Rank 0 opens the call in the moment before rank 1 says that it gives up: rank 1 must look again.
  Ranks ranks(2);
  std::thread zero;
  Status of_zero;
  std::atomic<bool> opened{false};
  ranks.map->on_set = [&](const std::string& key, const std::string& value) {
    if (key.find("verdict") != std::string::npos) opened = true;
    if (value != "1 gone" || zero.joinable()) return;
    zero = std::thread([&] { of_zero = ranks[0].pass(kLong, false); });
    while (!opened) std::this_thread::yield();
  };
  const Status of_one = ranks[1].pass(kShort, false);
  zero.join();
  EXPECT_TRUE(of_zero.ok()) << of_zero.to_string();
  EXPECT_TRUE(of_one.ok()) << of_one.to_string();
}

TEST(MonitoredBarrier, ADeadRankZeroIsNamedAfterItCame) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks.map->set("monitored_barrier/opened", "1").ok());
  EXPECT_TRUE(says(ranks[1].pass(kShort, false), "Rank 0 came, but said nothing"));
}

TEST(MonitoredBarrier, InterruptEndsTheCallAndTellsTheOthers) {
  for (const int victim : {0, 1}) {
    Ranks ranks(3);
    std::map<int, Status> outcomes;
    // Rank 0 hears nothing of rank 1, and waits for its own time.
    std::thread call([&] { outcomes = ranks.pass({0, 1}, victim == 0 ? kLong : milliseconds(3000)); });
    for (const int rank : {0, 1}) ranks.await(rank, 1);
    const Time begin = monotonic_now();
    ranks[victim].interrupt("enough");
    ranks[victim].interrupt("more than enough");
    call.join();
    EXPECT_LT(monotonic_now() - begin, kLong / 2);
    EXPECT_EQ(outcomes.at(victim).code(), Code::kAborted);
    EXPECT_EQ(outcomes.at(victim).message(), "enough");
    EXPECT_FALSE(outcomes.at(1 - victim).ok());
    EXPECT_TRUE(victim == 1 || says(outcomes.at(1), "Rank 0 said: enough")) << outcomes.at(1).message();
    EXPECT_EQ(ranks[victim].pass(kLong, false).code(), Code::kAborted);
  }
}

TEST(MonitoredBarrier, AStoreThatFailsEndsTheCall) {
  for (const int rank : {0, 1}) {
    Ranks ranks(2);
    Status outcome;
    std::thread call([&] { outcome = ranks[rank].pass(kLong, false); });
    std::this_thread::sleep_for(milliseconds(20));
    ranks.map->tear();
    call.join();
    EXPECT_EQ(outcome.code(), Code::kUnavailable);
    EXPECT_TRUE(says(outcome, "torn"));
    EXPECT_EQ(ranks[rank].pass(kLong, false).code(), Code::kUnavailable);
  }
}

TEST(MonitoredBarrier, OneCallAtATime) {
  Ranks ranks(2);
  std::thread call([&] { EXPECT_TRUE(ranks[0].pass(kLong, false).ok()); });
  std::this_thread::sleep_for(milliseconds(50));
  const Status second = ranks[0].pass(kLong, false);
  EXPECT_EQ(second.code(), Code::kInvalidArgument);
  EXPECT_TRUE(says(second, "another thread"));
  EXPECT_TRUE(ranks[1].pass(kLong, false).ok());
  call.join();
}

}  // namespace
}  // namespace switchml
