// Engines with their threads and the real clock, over the in-process transport.
#include "engine/switch_engine.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "switch_thread.h"

namespace switchml {
namespace {

using testing::Completions;
using testing::SwitchThread;

class EngineTest : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int kWorkers = 3;

  void SetUp() override {
    const int shards = GetParam();
    hub_ = InprocHub::create({});
    switch_ = std::make_unique<SwitchThread>(*hub_);
    std::vector<std::vector<std::unique_ptr<Transport>>> transports(kWorkers);
    for (auto& worker : transports) {
      for (int s = 0; s < shards; ++s) worker.push_back(hub_->attach());
    }
    wire::Open open;
    open.client_key = 5;
    open.workers = kWorkers;
    open.shards = static_cast<uint16_t>(shards);
    open.slots = static_cast<uint16_t>(8 * shards);
    open.payload = 4096;
    EngineOptions options;
    options.session = testing::open_session(*transports[0][0], switch_->address(), open);
    for (int w = 0; w < kWorkers; ++w) {
      options.session.worker = w;
      for (int s = 0; s < shards; ++s) {
        testing::join(*transports[static_cast<size_t>(w)][static_cast<size_t>(s)], options.session, s);
      }
      engines_.push_back(SwitchEngine::start(options, std::move(transports[static_cast<size_t>(w)])));
    }
  }

  std::shared_ptr<InprocHub> hub_;
  std::unique_ptr<SwitchThread> switch_;
  std::vector<std::unique_ptr<Engine>> engines_;
  Completions completions_;
};

TEST_P(EngineTest, SubmissionsFromSeveralTensorsCompleteOnAllRanks) {
  constexpr size_t kTensors = 20;
  std::vector<std::vector<std::vector<int32_t>>> data(kWorkers);
  for (int w = 0; w < kWorkers; ++w) {
    for (size_t t = 0; t < kTensors; ++t) {
      data[static_cast<size_t>(w)].emplace_back(t * 997);
      auto& tensor = data[static_cast<size_t>(w)].back();
      std::iota(tensor.begin(), tensor.end(), w * 1000);
    }
    for (auto& tensor : data[static_cast<size_t>(w)]) {
      Collective c;
      c.type = ElementType::kInt32;
      c.operands()->input = c.operands()->output.data = tensor.data();
      c.count = c.operands()->output.end = tensor.size();
      c.done = completions_.add();
      engines_[static_cast<size_t>(w)]->submit(c);
    }
  }
  const auto statuses = completions_.wait(kWorkers * kTensors);
  ASSERT_EQ(statuses.size(), kWorkers * kTensors);
  for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.to_string();
  for (const auto& worker : data) {
    for (const auto& tensor : worker) {
      for (size_t i = 0; i < tensor.size(); ++i) ASSERT_EQ(tensor[i], static_cast<int32_t>(3 * i + 3000));
    }
  }
}

TEST_P(EngineTest, AbortUnblocksAtOnceAndLaterCallsFailWithTheReason) {
  std::vector<float> tensor(100000, 1.0F);
  Collective c;
  c.operands()->input = c.operands()->output.data = tensor.data();
  c.count = c.operands()->output.end = tensor.size();
  c.done = completions_.add();
  engines_[0]->submit(c);  // nobody else calls
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Time before = monotonic_now();
  engines_[0]->abort("the test said so");
  ASSERT_EQ(completions_.wait(1).size(), 1U);
  EXPECT_LT(monotonic_now() - before, seconds(15));
  engines_[0]->submit(c);
  const auto statuses = completions_.wait(2);
  ASSERT_EQ(statuses.size(), 2U);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_EQ(status.message(), "the test said so");
  }
  EXPECT_EQ(engines_[0]->status().code(), Code::kAborted);
}

TEST_P(EngineTest, DestructionFinishesWhatIsRunning) {
  std::vector<float> tensor(1000, 1.0F);
  Collective c;
  c.operands()->input = c.operands()->output.data = tensor.data();
  c.count = c.operands()->output.end = tensor.size();
  c.done = completions_.add();
  engines_[1]->submit(c);
  engines_[1].reset();
  const auto statuses = completions_.wait(1);
  ASSERT_EQ(statuses.size(), 1U);
  EXPECT_EQ(statuses[0].code(), Code::kAborted);
}

TEST_P(EngineTest, ADeadlineFailsAllShardsTogether) {
  std::vector<float> tensor(100000, 1.0F);
  Collective c;
  c.operands()->input = c.operands()->output.data = tensor.data();
  c.count = c.operands()->output.end = tensor.size();
  c.deadline = monotonic_now() + milliseconds(700);
  c.done = completions_.add();
  engines_[2]->submit(c);
  const auto statuses = completions_.wait(1);
  ASSERT_EQ(statuses.size(), 1U);
  EXPECT_EQ(statuses[0].code(), Code::kTimeout);
  EXPECT_NE(statuses[0].message().find("rank 0, 1 "), std::string::npos) << statuses[0].message();
}

INSTANTIATE_TEST_SUITE_P(Shards, EngineTest, ::testing::Values(1, 3));

TEST(Engine, AGroupOfOneCopiesExactly) {
  EngineOptions options;
  auto hub = InprocHub::create({});
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(hub->attach());
  const auto engine = SwitchEngine::start(options, std::move(transports));
  const std::vector<float> in = {0.1F, 1e-45F, 3e38F, 1e-20F};
  std::vector<float> out(2);
  Collective c;
  c.operands()->input = in.data();
  c.operands()->output.data = out.data();
  c.count = 4;
  c.operands()->output.begin = 1;
  c.operands()->output.end = 3;
  bool done = false;
  c.done = [&](const Status& status) { done = status.ok(); };
  engine->submit(c);
  EXPECT_TRUE(done);
  EXPECT_EQ(out, (std::vector<float>{1e-45F, 3e38F}));
}

TEST(Engine, SumsToFloat32WhereEachRankIsAWorkerOfOneExactSwitch) {  // [NSUM-5]
  const auto sums = [](void (*change)(SessionParameters * session)) {
    EngineOptions options;
    options.session.exact = true;
    options.session.workers = 2;
    options.session.payload_bytes = 1024;
    options.session.slots = 8;
    change(&options.session);
    options.others = {options.session};
    options.others[0].tree = false;
    auto hub = InprocHub::create({});
    std::vector<std::unique_ptr<Transport>> transports;
    for (int i = 0; i < 2; ++i) transports.push_back(hub->attach());
    return SwitchEngine::start(options, std::move(transports))->sums_to_float32();
  };
  EXPECT_TRUE(sums([](SessionParameters* /*session*/) {}));
  EXPECT_FALSE(sums([](SessionParameters* session) { session->tree = true; }));
  EXPECT_FALSE(sums([](SessionParameters* session) { session->exact = false; }));
  EXPECT_FALSE(sums([](SessionParameters* session) { session->ranks = 4; })) << "hosts of several ranks";
  EXPECT_FALSE(sums([](SessionParameters* session) { session->workers = 1; }));
}

}  // namespace
}  // namespace switchml
