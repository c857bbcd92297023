// The pair with engines that only write down what they are told; tests/unit/session/session_pair_test.cc has real
// ones.
#include "engine/paired_engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace switchml::testing {
namespace {

/// Completes what it is given when it is told to.
class NotingEngine final : public Engine {
 public:
  void submit(Collective collective) override { calls.push_back(std::move(collective)); }
  void abort(const std::string& reason) override { fail(Status(Code::kAborted, reason)); }
  void fail(const Status& status) override {
    ++failures;
    if (failed.ok()) failed = status;
    if (on_failure) on_failure(status);
  }
  Status status() const override { return failed; }
  int shards() const override { return static_cast<int>(own_counters.size()); }
  const WorkerCounters& counters(int shard) const override { return own_counters[static_cast<size_t>(shard)]; }
  size_t memory_bytes() const override { return 100; }

  void finish(const Status& status) {
    const auto done = std::move(calls.front().done);
    calls.pop_front();
    done(status);
  }

  std::deque<Collective> calls;
  std::deque<WorkerCounters> own_counters{1};
  std::function<void(const Status&)> on_failure;
  Status failed;
  int failures = 0;
};

class Pair : public ::testing::Test {
 protected:
  static Collective sum_of(void* memory, size_t count) {
    Collective call;
    call.count = count;
    call.operands()->input = call.operands()->output.data = memory;
    call.operands()->output.end = count;
    return call;
  }
  void submit(ReduceOp op, ElementType type, size_t count, uint64_t tag = 0) {
    Collective call = sum_of(memory_.data(), count);
    call.op = op;
    call.type = type;
    call.operands()->divisor = 3;
    call.tag = tag;
    call.deadline = Time{} + seconds(5);
    call.done = [this](const Status& status) { ends.push_back(status); };
    pair.submit(std::move(call));
  }

  NotingEngine switched, exact;
  PairedEngine pair{switched, exact, kFewElements};
  std::vector<Status> ends;

 private:
  std::vector<double> memory_ = std::vector<double>(kFewElements + 2);
};

TEST_F(Pair, FewElementsAndWhatTheSwitchCannotGoExactly) {  // [PAIR-1]
  submit(ReduceOp::kSum, ElementType::kFloat32, kFewElements);
  submit(ReduceOp::kSum, ElementType::kFloat64, kFewElements + 1);
  submit(ReduceOp::kProduct, ElementType::kFloat32, kFewElements + 1);
  submit(ReduceOp::kMax, ElementType::kInt64, kFewElements + 1);
  submit(ReduceOp::kBarrier, ElementType::kFloat32, 0);
  submit(ReduceOp::kSum, ElementType::kInt32, 0);
  EXPECT_TRUE(switched.calls.empty());
  ASSERT_EQ(exact.calls.size(), 6U);
  EXPECT_EQ(exact.calls[0].count, kFewElements);
  EXPECT_NE(exact.calls[0].operands()->input, nullptr);
  exact.finish({});
  EXPECT_EQ(ends.size(), 1U);
}

TEST_F(Pair, WhatMustBeExactNeverGoesToTheSwitch) {
  PairedEngine integers(switched, exact, 0);
  std::vector<float> memory(kFewElements + 1);
  for (PairedEngine* engine : {&pair, &integers}) {
    for (const bool exactly : {true, false}) {
      Collective call = sum_of(memory.data(), memory.size());
      call.exactly = exactly;
      engine->submit(std::move(call));
      EXPECT_EQ(switched.calls.size(), exactly ? 0U : 1U);
      EXPECT_EQ(exact.calls.size(), 1U);
      EXPECT_EQ(exact.calls.front().count, exactly ? memory.size() : 0U);
      switched.calls.clear();
      exact.calls.clear();
    }
  }
}

TEST_F(Pair, WithoutAThresholdTheSwitchDoesAllThatItCan) {  // [PAIR-1]
  PairedEngine integers(switched, exact, 0);
  std::vector<float> memory(1);
  for (const auto& [op, count] : {std::pair{ReduceOp::kSum, 1U}, {ReduceOp::kSum, 0U}, {ReduceOp::kProduct, 1U}}) {
    Collective call = sum_of(memory.data(), count);
    call.op = op;
    integers.submit(std::move(call));
  }
  EXPECT_EQ(switched.calls.size(), 1U);
  EXPECT_EQ(exact.calls.size(), 3U);
}

TEST_F(Pair, LargeSumsGoThroughTheSwitchAndAreAnnouncedExactly) {  // [PAIR-2]
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kInt64}) {
    submit(ReduceOp::kSum, type, kFewElements + 1, 11);
    ASSERT_EQ(switched.calls.size(), 1U);
    ASSERT_EQ(exact.calls.size(), 1U);
    const Collective& sum = switched.calls.front();
    EXPECT_EQ(sum.count, kFewElements + 1);
    EXPECT_EQ(sum.tag, 11U);
    EXPECT_NE(sum.operands()->output.data, nullptr);
    const Collective& announced = exact.calls.front();
    EXPECT_EQ(announced.count, 0U);
    EXPECT_EQ(announced.operands()->output.data, nullptr);
    EXPECT_EQ(announced.operands()->divisor, 3U);
    EXPECT_EQ(announced.deadline, sum.deadline);
    EXPECT_EQ(describe(announced), describe(sum));
    switched.finish({});
    EXPECT_TRUE(ends.empty()) << "not all ranks are known to have called it";
    exact.finish({});
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_TRUE(ends.front().ok());
    ends.clear();
  }
}

TEST_F(Pair, AnAnnouncementTellsCallsApartThatDifferInAnything) {
  submit(ReduceOp::kSum, ElementType::kFloat32, kFewElements + 1, 11);
  submit(ReduceOp::kSum, ElementType::kFloat32, kFewElements + 2, 11);
  submit(ReduceOp::kSum, ElementType::kFloat32, kFewElements + 1, 12);
  submit(ReduceOp::kSum, ElementType::kFloat32, 0, 11);  // an empty tensor, which is no announcement
  ASSERT_EQ(exact.calls.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(agreement_hash(exact.calls[i]), agreement_hash(exact.calls[j])) << i << ", " << j;
    }
  }
}

TEST_F(Pair, TheFirstErrorOfACallIsItsEnd) {
  submit(ReduceOp::kMax, ElementType::kFloat32, kFewElements + 1);
  exact.finish(Status(Code::kMismatch, "they differ"));
  switched.finish(Status(Code::kAborted, "later"));
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends.front().code(), Code::kMismatch);
}

TEST_F(Pair, IsBothTogether) {
  exact.own_counters.resize(2);
  EXPECT_EQ(pair.shards(), 3);
  EXPECT_EQ(&pair.counters(0), &switched.own_counters[0]);
  EXPECT_EQ(&pair.counters(1), &exact.own_counters[0]);
  EXPECT_EQ(&pair.counters(2), &exact.own_counters[1]);
  EXPECT_EQ(pair.memory_bytes(), 200U);
  EXPECT_TRUE(pair.status().ok());
  exact.failed = Status(Code::kTimeout, "exact");
  EXPECT_EQ(pair.status().message(), "exact");
  pair.abort("over");
  EXPECT_EQ(switched.failed.message(), "over");
  EXPECT_EQ(exact.failures, 1);
  pair.fail(Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(switched.failures, 2);
  EXPECT_EQ(exact.failures, 2);
}

TEST_F(Pair, EnginesFailTogether) {
  SharedFate fate;
  const auto tell = [&fate](const Status& status) { fate.fail(status); };
  switched.on_failure = exact.on_failure = tell;
  fate.bind(switched, exact);
  exact.fail(Status(Code::kMismatch, "they differ"));
  EXPECT_EQ(switched.failed.message(), "they differ");
  const int failures = exact.failures;
  switched.fail(Status(Code::kTimeout, "late"));
  EXPECT_EQ(exact.failures, failures) << "the first failure counts";
}

TEST_F(Pair, AnEngineThatFailedBeforeThereIsAPairFailsTheOther) {
  SharedFate fate;
  fate.fail(Status(Code::kUnavailable, "a rank is gone"));
  fate.bind(switched, exact);
  EXPECT_EQ(exact.failed.message(), "a rank is gone");
  EXPECT_EQ(switched.failed.message(), "a rank is gone");
}

TEST_F(Pair, EnginesThatEndAreNotTold) {
  SharedFate fate;
  fate.bind(switched, exact);
  fate.forget();
  fate.fail(Status(Code::kUnavailable, "a rank is gone"));
  EXPECT_EQ(exact.failures + switched.failures, 0);
}

}  // namespace
}  // namespace switchml::testing
