#include "c10d/gloo_reducer.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "fixture.h"

namespace switchml {
namespace {

std::unique_ptr<GlooReducer> reducer(const std::shared_ptr<GlooMeeting>& gloo, int rank, int size) {
  return std::make_unique<GlooReducer>(c10::make_intrusive<FakeGloo>(gloo, rank, size));
}

TEST(GlooReducer, ReducesInPlaceOnAllRanks) {
  const auto gloo = std::make_shared<GlooMeeting>();
  std::vector<std::unique_ptr<GlooReducer>> reducers;
  for (int rank = 0; rank < 3; ++rank) reducers.push_back(reducer(gloo, rank, 3));
  on_each_rank(3, [&](int rank) {
    GlooReducer& mine = *reducers[static_cast<size_t>(rank)];
    std::vector<int64_t> longs = {rank, -rank, int64_t{1} << (40 + rank)};
    EXPECT_TRUE(mine.maximum(longs.data(), longs.size()).ok());
    EXPECT_EQ(longs, (std::vector<int64_t>{2, 0, int64_t{1} << 42}));
    std::vector<int32_t> words = {INT32_MIN + rank, rank};
    EXPECT_TRUE(mine.maximum(words.data(), words.size()).ok());
    EXPECT_EQ(words, (std::vector<int32_t>{INT32_MIN + 2, 2}));
    words = {INT32_MAX, rank};
    EXPECT_TRUE(mine.sum(words.data(), words.size()).ok());
    EXPECT_EQ(words, (std::vector<int32_t>{static_cast<int32_t>(3U * INT32_MAX), 3})) << "modulo 2^32";
  });
}

TEST(GlooReducer, AnInterruptEndsAWaitForOthers) {
  const auto gloo = std::make_shared<GlooMeeting>();
  const auto mine = reducer(gloo, 0, 2);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    mine->interrupt();
  });
  std::vector<int32_t> words = {1, 2};
  const Status status = mine->sum(words.data(), words.size());
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_EQ(words, (std::vector<int32_t>{1, 2}));
  later.join();
  EXPECT_EQ(mine->sum(words.data(), words.size()).code(), Code::kAborted) << "and every later call";
}

TEST(GlooReducer, WhatGlooSaysIsTheError) {
  const auto gloo = std::make_shared<GlooMeeting>();
  const auto mine = reducer(gloo, 0, 2);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gloo->end();
  });
  std::vector<int32_t> words = {1};
  const Status status = mine->sum(words.data(), words.size());
  later.join();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message().find("Gloo: "), 0U) << status.message();
}

struct NeverEnds final : compat::Base {
  explicit NeverEnds(std::shared_future<void> end) : compat::Base(0, 1), end_(std::move(end)) {}
  ~NeverEnds() override { end_.wait(); }
  const std::string getBackendName() const override { return "never ends"; }
  std::shared_future<void> end_;
};

TEST(GlooReducer, AGroupThatStillWaitsIsLeftBehind) {
  std::promise<void> end;
  EXPECT_FALSE(destroy_within(c10::make_intrusive<NeverEnds>(end.get_future().share()), std::chrono::milliseconds(50)));
  end.set_value();
  std::promise<void> ended;
  ended.set_value();
  EXPECT_TRUE(destroy_within(c10::make_intrusive<NeverEnds>(ended.get_future().share()), std::chrono::seconds(60)));
}

}  // namespace
}  // namespace switchml
