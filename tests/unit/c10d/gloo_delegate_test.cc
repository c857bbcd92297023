#include "c10d/gloo_delegate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "fixture.h"

namespace switchml {
namespace {

using std::chrono::milliseconds;

/// Its destructor waits for `end`, where there is one, and then sets `ended`.
struct SlowToEnd final : compat::Base {
  explicit SlowToEnd(std::shared_future<void> end = {}, std::promise<void>* ended = nullptr)
      : compat::Base(0, 1), end_(std::move(end)), ended_(ended) {}
  ~SlowToEnd() override {
    if (end_.valid()) end_.wait();
    if (ended_ != nullptr) ended_->set_value();
  }
  const std::string getBackendName() const override { return "slow"; }
  const std::shared_future<void> end_;
  std::promise<void>* const ended_;
};

std::shared_ptr<GroupCore> lonely_core() { return std::make_shared<GroupCore>(GroupInfo{0, 1, "test"}); }

c10::intrusive_ptr<SwitchWork> part_work() {
  return c10::make_intrusive<SwitchWork>(0, c10d::OpType::BROADCAST, CallRecord("part"));
}
std::exception_ptr failure(const char* text) { return std::make_exception_ptr(std::runtime_error(text)); }
std::string outcome_of(const c10::intrusive_ptr<c10d::Work>& work) {
  return thrown_by([&] { work->wait(milliseconds(10000)); });
}

// ---- the group ----

TEST(GlooGroup, IsMadeOnceByWhoeverNeedsItFirst) {
  std::atomic<int> made{0};
  GlooDelegate gloo(lonely_core(), [&made] {
    ++made;
    std::this_thread::sleep_for(milliseconds(20));
    return c10::make_intrusive<SlowToEnd>();
  });
  EXPECT_FALSE(gloo.existing());
  on_each_rank(4, [&](int) { EXPECT_TRUE(gloo.get()); });
  EXPECT_EQ(made.load(), 1);
  EXPECT_EQ(gloo.get(), gloo.existing());
}

// The factory may wait for a lock that the thread which asks for existing() holds.
TEST(GlooGroup, IsMadeWithoutALock) {
  std::atomic<bool> asked{false};
  std::atomic<bool> making{false};
  GlooDelegate gloo(lonely_core(), [&] {
    making = true;
    while (!asked) std::this_thread::yield();
    return c10::make_intrusive<SlowToEnd>();
  });
  std::thread other([&] {
    while (!making) std::this_thread::yield();
    EXPECT_FALSE(gloo.existing());
    asked = true;
  });
  EXPECT_TRUE(gloo.get());
  other.join();
}

TEST(GlooGroup, AFactoryThatFailedIsTriedAgain) {
  int calls = 0;
  GlooDelegate gloo(lonely_core(), [&calls]() -> c10::intrusive_ptr<compat::Base> {
    if (++calls == 1) throw std::runtime_error("no address");
    return c10::make_intrusive<SlowToEnd>();
  });
  EXPECT_TRUE(contains(thrown_by([&] { gloo.get(); }), "no address"));
  EXPECT_TRUE(gloo.get());
}

TEST(GlooGroup, AfterReleaseItIsGone) {
  const auto core = lonely_core();
  GlooDelegate gloo(core, [] { return c10::make_intrusive<SlowToEnd>(); });
  gloo.get();
  core->close(Status(Code::kAborted, "the process group was shut down"));
  gloo.release(milliseconds(1000));
  gloo.release(milliseconds(1000));
  EXPECT_FALSE(gloo.existing());
  EXPECT_TRUE(contains(thrown_by([&] { gloo.get(); }), "the process group was shut down"));
}

TEST(GlooGroup, ReleaseDoesNotWaitForAPeerThatNeverComes) {
  std::promise<void> end;
  std::promise<void> ended;
  const std::shared_future<void> told = end.get_future().share();
  GlooDelegate gloo(lonely_core(), [&] { return c10::make_intrusive<SlowToEnd>(told, &ended); });
  gloo.get();
  gloo.release(milliseconds(10));  // a wait would have no end
  end.set_value();
  ended.get_future().wait();  // for leak checkers
}

// ---- calls ----

class GlooCall : public ::testing::Test {
 protected:
  ~GlooCall() override { core_->pool().join(); }

  /// A call whose works are `works`; its number is noted when it is issued.
  c10::intrusive_ptr<c10d::Work> start(const GlooDelegate::WorkPtr& precheck, std::vector<GlooDelegate::WorkPtr> works,
                                       int number = 1) {
    return delegate_.start(
        CallRecord(core_, Call::kBroadcast, Way::kGloo), c10d::OpType::BROADCAST, precheck, timeout_,
        [this, works, number](compat::Base&) {
          const std::lock_guard<std::mutex> lock(mutex_);
          issued_.push_back(number);
          return works;
        },
        {}, {{counting(3)}}, [this] { ++finished_; });
  }
  std::vector<int> issued() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return issued_;
  }
  /// Waits until so many calls were issued.
  bool issued_soon(size_t count) {
    for (int i = 0; i < 2000 && issued().size() < count; ++i) std::this_thread::sleep_for(milliseconds(5));
    return issued().size() == count;
  }

  const std::shared_ptr<GroupCore> core_ = std::make_shared<GroupCore>(GroupInfo{0, 2, "test"});
  GlooDelegate delegate_{core_, [] { return c10::make_intrusive<SlowToEnd>(); }};
  const c10::intrusive_ptr<SwitchWork> one_ = part_work();
  const c10::intrusive_ptr<SwitchWork> two_ = part_work();
  const c10::intrusive_ptr<SwitchWork> precheck_ = part_work();
  milliseconds timeout_{0};
  std::mutex mutex_;
  std::vector<int> issued_;
  std::atomic<int> finished_{0};
};

TEST_F(GlooCall, WithoutAPrecheckIsIssuedAtOnceAndCompletesAfterAllWorksAndTheFinish) {
  const auto work = start({}, {one_, two_});
  EXPECT_EQ(issued().size(), 1U);
  two_->succeed();
  EXPECT_FALSE(work->isCompleted());
  one_->succeed();
  EXPECT_EQ(outcome_of(work), "");
  EXPECT_EQ(finished_.load(), 1);
  EXPECT_EQ(work->result().size(), 1U);
}

TEST_F(GlooCall, WithoutAPrecheckARefusalGoesToTheCaller) {
  const auto refuse = [](compat::Base&) -> std::vector<GlooDelegate::WorkPtr> {
    throw std::runtime_error("no such root");
  };
  EXPECT_EQ(thrown_by([&] {
              delegate_.start(CallRecord(core_, Call::kBroadcast, Way::kGloo), c10d::OpType::BROADCAST, {}, timeout_,
                              refuse, {}, {}, nullptr);
            }),
            "no such root");
}

TEST_F(GlooCall, MovesNothingBeforeItsFenceHasPassed) {
  const auto work = start(precheck_, {one_});
  one_->succeed();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(issued().empty());
  EXPECT_FALSE(work->isCompleted());
  precheck_->succeed();
  EXPECT_EQ(outcome_of(work), "");
  EXPECT_EQ(issued().size(), 1U);
}

TEST_F(GlooCall, AFenceThatFailsEndsItUnissued) {
  const auto work = start(precheck_, {one_});
  precheck_->fail(failure("ranks called different collectives"));
  EXPECT_EQ(outcome_of(work), "ranks called different collectives");
  EXPECT_TRUE(issued().empty());
  EXPECT_EQ(finished_.load(), 0);
}

TEST_F(GlooCall, AreIssuedInTheirOrderWhicheverFenceIsToldFirst) {
  std::vector<c10::intrusive_ptr<SwitchWork>> prechecks;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int i = 0; i < 5; ++i) {
    prechecks.push_back(part_work());
    works.push_back(start(prechecks.back(), {}, i));
  }
  for (const int i : {4, 2, 1}) prechecks[static_cast<size_t>(i)]->succeed();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(issued().empty());
  prechecks[0]->succeed();
  ASSERT_TRUE(issued_soon(3));
  prechecks[3]->fail(failure("the session is over"));
  EXPECT_EQ(outcome_of(works[4]), "") << "a failed one does not hold up those behind it";
  EXPECT_EQ(issued(), (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(outcome_of(works[3]), "the session is over");
}

TEST_F(GlooCall, ManyFromManyThreadsKeepTheirOrder) {
  constexpr int kCalls = 200;
  std::vector<c10::intrusive_ptr<SwitchWork>> prechecks;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (int i = 0; i < kCalls; ++i) {
    prechecks.push_back(part_work());
    works.push_back(start(prechecks.back(), {}, i));
  }
  on_each_rank(4, [&](int thread) {
    for (int i = thread; i < kCalls; i += 4) prechecks[static_cast<size_t>(i)]->succeed();
  });
  for (const auto& work : works) EXPECT_EQ(outcome_of(work), "");
  const std::vector<int> order = issued();
  ASSERT_EQ(order.size(), static_cast<size_t>(kCalls));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(GlooCall, ARefusalBehindAFenceFailsTheWorkAsItIs) {
  const auto refuse = [](compat::Base&) -> std::vector<GlooDelegate::WorkPtr> {
    compat::throw_value_error("no such root");
  };
  const auto work = delegate_.start(CallRecord(core_, Call::kBroadcast, Way::kGloo), c10d::OpType::BROADCAST, precheck_,
                                    timeout_, refuse, {}, {}, nullptr);
  precheck_->succeed();
  EXPECT_EQ(value_error_of([&] { work->wait(milliseconds(10000)); }), "no such root");
}

TEST_F(GlooCall, AnErrorOfTheGroupGetsTheCallsContext) {
  const auto work = start(precheck_, {one_, two_});
  precheck_->succeed();
  ASSERT_TRUE(issued_soon(1));
  one_->fail(failure("Connection closed by peer"));
  EXPECT_EQ(outcome_of(work),
            "switchml broadcast on rank 0 of 2 (group test): the Gloo group: Connection closed by peer");
  EXPECT_EQ(finished_.load(), 0);
}

TEST_F(GlooCall, WhoeverKnowsWhichRankIsGoneHasAMomentToSaySo) {
  const auto work = start({}, {one_, two_});
  one_->fail(failure("Connection closed by peer"));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(work->isCompleted());
  delegate_.abort(Status(Code::kUnavailable, "rank 1 is gone"));
  EXPECT_TRUE(contains(outcome_of(work), "rank 1 is gone"));
  EXPECT_FALSE(contains(outcome_of(work), "Connection closed"));
}

TEST_F(GlooCall, TheMomentComesOnce) {
  const auto first = start({}, {one_});
  const auto second = start({}, {two_});
  one_->fail(failure("Connection closed by peer"));
  EXPECT_TRUE(contains(outcome_of(first), "Connection closed by peer"));
  const auto begin = std::chrono::steady_clock::now();
  two_->fail(failure("Connection closed by peer"));
  EXPECT_TRUE(contains(outcome_of(second), "Connection closed by peer"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(900));
}

// Gloo's own timeout does not always end a call.
TEST_F(GlooCall, AWaitEndsAfterTheTimeoutAndASecond) {
  timeout_ = milliseconds(100);
  const auto work = start({}, {one_});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(contains(thrown_by([&] { work->wait(); }), "did not finish the call in time"));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took, milliseconds(1000));
  EXPECT_LT(took, milliseconds(8000));
}

TEST_F(GlooCall, IsInFlightUntilItCompletes) {
  const auto work = start({}, {one_});
  EXPECT_FALSE(core_->wait_until_landed(milliseconds(10)));
  one_->succeed();
  EXPECT_EQ(outcome_of(work), "");
  EXPECT_TRUE(core_->wait_until_landed(milliseconds(5000)));
}

TEST_F(GlooCall, AbortEndsWhatWaitsAndWhatTheGroupHasInHand) {
  const auto in_hand = start({}, {one_});
  const auto waiting = start(precheck_, {two_});
  delegate_.abort(Status(Code::kAborted, "the process group was aborted"));
  EXPECT_TRUE(contains(outcome_of(in_hand), "broadcast on rank 0 of 2 (group test): aborted: the process group was"));
  EXPECT_TRUE(contains(outcome_of(waiting), "the process group was aborted"));
  one_->succeed();
  precheck_->succeed();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(issued().size(), 1U) << "an aborted call is not issued later";
  EXPECT_EQ(finished_.load(), 0);
}

}  // namespace
}  // namespace switchml
