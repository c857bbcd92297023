#include "c10d/coalescing.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <thread>

#include "c10d/work.h"
#include "fixture.h"

namespace switchml {
namespace {

c10::intrusive_ptr<SwitchWork> work_of(const TensorList& outputs) {
  return c10::make_intrusive<SwitchWork>(0, c10d::OpType::ALLREDUCE, CallRecord("test"), OutputLists{outputs});
}

std::exception_ptr problem(const std::string& text) { return std::make_exception_ptr(std::runtime_error(text)); }

TEST(Coalescing, IsCompleteWhenAllAre) {
  Coalescing coalescing;
  const auto first = work_of({counting(1)});
  const auto second = work_of({counting(2), counting(3)});
  coalescing.add(work_of({}));  // nobody has begun
  coalescing.begin();
  coalescing.add(first);
  coalescing.add(second);
  const auto all = coalescing.end(0);
  const auto future = all->getFuture();
  EXPECT_EQ(future, all->getFuture());
  second->succeed();
  EXPECT_FALSE(all->isCompleted());
  EXPECT_FALSE(future->completed());
  first->succeed();
  EXPECT_TRUE(all->isCompleted());
  EXPECT_TRUE(all->wait());
  EXPECT_TRUE(all->isSuccess());
  EXPECT_EQ(all->result().size(), 3U);
  ASSERT_EQ(future->value().toTensorVector().size(), 3U);
  EXPECT_TRUE(same(future->value().toTensorVector()[2], counting(3)));
}

TEST(Coalescing, OfNothingIsComplete) {
  Coalescing coalescing;
  coalescing.begin();
  const auto nothing = coalescing.end(0);
  EXPECT_TRUE(nothing->isCompleted());
  EXPECT_TRUE(nothing->wait());
  EXPECT_TRUE(nothing->getFuture()->completed());
}

TEST(Coalescing, FailsWithTheFirstErrorWhenAllHaveEnded) {
  Coalescing coalescing;
  const auto first = work_of({});
  const auto second = work_of({});
  coalescing.begin();
  coalescing.add(first);
  coalescing.add(second);
  const auto all = coalescing.end(0);
  const auto future = all->getFuture();
  first->fail(problem("cut"));
  second->fail(problem("later"));
  EXPECT_EQ(thrown_by([&] { all->wait(); }), "cut");
  EXPECT_FALSE(all->isSuccess());
  EXPECT_TRUE(future->hasError());
}

TEST(Coalescing, ATimeoutIsForAll) {
  Coalescing coalescing;
  coalescing.begin();
  for (int i = 0; i < 3; ++i) coalescing.add(work_of({}));
  const auto all = coalescing.end(0);
  EXPECT_TRUE(contains(thrown_by([&] { all->wait(milliseconds(20)); }), "timed out"));
}

TEST(Coalescing, BeginsAnewAfterOneWithoutAnEnd) {
  Coalescing coalescing;
  coalescing.begin();
  coalescing.add(work_of({}));
  coalescing.begin();
  EXPECT_TRUE(coalescing.end(0)->isCompleted());
}

TEST(Coalescing, TakesTheCallsOfItsThreadOnly) {
  Coalescing coalescing;
  coalescing.begin();
  std::thread other([&] {
    coalescing.add(work_of({}));
    EXPECT_TRUE(contains(refusal_of([&] { coalescing.begin(); }), "another thread's calls"));
    EXPECT_TRUE(contains(refusal_of([&] { coalescing.end(0); }), "has not called startCoalescing()"));
  });
  other.join();
  EXPECT_TRUE(coalescing.end(0)->isCompleted());
  EXPECT_TRUE(contains(refusal_of([&] { coalescing.end(0); }), "has not called startCoalescing()"));
}

}  // namespace
}  // namespace switchml
