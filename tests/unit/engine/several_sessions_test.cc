// Engines with a session with each of several switches (EngineOptions::others), with their threads and the real clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/switch_engine.h"
#include "in_place.h"
#include "switch_thread.h"
#include "tensors.h"
#include "transport/shared_link.h"

namespace switchml::testing {
namespace {

struct PartsOptions {
  std::vector<uint32_t> weights;  // a switch each
  int shards = 1;
  int workers = 3;
  int slots = 8;  // of each session, for each shard
  Duration patience = seconds(10);
};

constexpr size_t kPartsPayload = 1024;

/// Workers whose engines share their collectives out to several switches: "switch 0", "switch 1" and so on.
class Parts {
 public:
  explicit Parts(const PartsOptions& options)
      : options_(options), hub_(InprocHub::create({})), failures_(static_cast<size_t>(options.workers)) {
    std::vector<Endpoint> places;
    for (size_t i = 0; i < options.weights.size(); ++i) {
      switches.push_back(std::make_unique<SwitchThread>(*hub_));
      places.push_back(switches.back()->address());
    }
    std::vector<std::vector<std::unique_ptr<Transport>>> transports;
    for (int w = 0; w < options.workers; ++w) transports.push_back(connect(places));
    for (size_t i = 0; i < places.size(); ++i) open(*transports[0][i * shards()], i, places[i]);
    for (int w = 0; w < options.workers; ++w) start(w, std::move(transports[static_cast<size_t>(w)]));
  }

  SwitchEngine& engine(int worker) { return *engines_[static_cast<size_t>(worker)]; }
  size_t shards() const { return static_cast<size_t>(options_.shards); }
  /// What its engine tells as the reason of its end, which callers may hear first.
  std::vector<Status> failures(int worker) { return failures_[static_cast<size_t>(worker)].wait(1); }
  void submit(int worker, Collective collective) {
    collective.done = completions.add();
    engine(worker).submit(std::move(collective));
    ++submitted_;
  }
  /// How all that was submitted has ended.
  std::vector<Status> ends() {
    std::vector<Status> statuses = completions.wait(submitted_);
    EXPECT_EQ(statuses.size(), submitted_) << "each once";
    return statuses;
  }
  void expect_success() {
    for (const Status& status : ends()) ASSERT_TRUE(status.ok()) << status.to_string();
  }

  std::vector<std::unique_ptr<SwitchThread>> switches;
  Completions completions;

 private:
  std::vector<std::unique_ptr<Transport>> connect(const std::vector<Endpoint>& places) {
    std::vector<std::unique_ptr<Transport>> transports(places.size() * shards());
    for (size_t shard = 0; shard < shards(); ++shard) {
      auto links = share_link(hub_->attach(), places);
      for (size_t i = 0; i < places.size(); ++i) transports[i * shards() + shard] = std::move(links[i]);
    }
    return transports;
  }

  void open(Transport& transport, size_t number, const Endpoint& place) {
    wire::Open asked;
    asked.client_key = 5;
    asked.workers = static_cast<uint16_t>(options_.workers);
    asked.shards = static_cast<uint16_t>(options_.shards);
    asked.slots = static_cast<uint16_t>(options_.slots * options_.shards);
    asked.payload = kPartsPayload;
    asked.flags = wire::kOpenExact;
    SessionParameters session = open_session(transport, place, asked);
    ASSERT_TRUE(session.exact);
    session.weight = options_.weights[number];
    session.secret[0] = 1;
    session.secret[1] = 2;
    session.switch_name = "switch " + std::to_string(number);
    sessions_.push_back(session);
  }

  void start(int worker, std::vector<std::unique_ptr<Transport>> transports) {
    for (size_t i = 0; i < transports.size(); ++i) {
      sessions_[i / shards()].worker = worker;
      join(*transports[i], sessions_[i / shards()], static_cast<int>(i % shards()));
    }
    EngineOptions options;
    options.session = sessions_.front();
    options.others.assign(sessions_.begin() + 1, sessions_.end());
    options.switch_patience = options_.patience;
    options.on_failure = failures_[static_cast<size_t>(worker)].add();
    engines_.push_back(SwitchEngine::start(options, std::move(transports)));
  }

  const PartsOptions options_;
  const std::shared_ptr<InprocHub> hub_;
  std::vector<SessionParameters> sessions_;
  size_t submitted_ = 0;
  std::vector<Completions> failures_;                   // by worker
  std::vector<std::unique_ptr<SwitchEngine>> engines_;  // the first to go
};

const PartsOptions kLayouts[] = {
    {{1, 1}, 1}, {{1, 3}, 2}, {{1, 1000, 1}, 1, 3, 64}, {{5, 1, 1, 2}, 3, 2}, {std::vector<uint32_t>(9, 1), 1, 4},
};
const size_t kCounts[] = {0, 1, 255, 256, 257, 3000, 20000};

/// Element i of worker w: any bits; of floats a number whose sums are exact.
template <typename T>
T element(int worker, size_t i) {
  const uint64_t bits = (i * 8 + static_cast<uint64_t>(worker) + 1) * 0x9e3779b97f4a7c15ULL;
  return static_cast<T>(std::is_floating_point_v<T> ? bits >> 44 : bits);
}

/// Tensors of every size, all under way at once; `sum`: what C++ makes of two elements.
template <typename T, typename F>
void expect_sums_of(const PartsOptions& options, ReduceOp op, ElementType type, const F& sum) {
  Parts parts(options);
  std::vector<Tensors<T>> tensors;
  for (const size_t count : kCounts) tensors.emplace_back(static_cast<size_t>(options.workers), std::vector<T>(count));
  for (int w = 0; w < options.workers; ++w) {
    for (Tensors<T>& tensor : tensors) {
      std::vector<T>& mine = tensor[static_cast<size_t>(w)];
      for (size_t i = 0; i < mine.size(); ++i) mine[i] = element<T>(w, i);
      parts.submit(w, in_place(op, type, mine));
    }
  }
  parts.expect_success();
  for (const Tensors<T>& tensor : tensors) {
    for (const std::vector<T>& result : tensor) {
      for (size_t i = 0; i < result.size(); ++i) {
        T expected = element<T>(0, i);
        for (int w = 1; w < options.workers; ++w) expected = sum(expected, element<T>(w, i));
        ASSERT_EQ(result[i], expected) << i << " of " << result.size();
      }
    }
  }
}

TEST(SeveralSessions, SumsAreWhatTheyAreWithOne) {
  for (const PartsOptions& layout : kLayouts) {
    SCOPED_TRACE(::testing::Message() << layout.weights.size() << " switches, " << layout.shards << " shards");
    const auto add = [](auto a, auto b) { return static_cast<decltype(a)>(a + b); };
    expect_sums_of<float>(layout, ReduceOp::kSum, ElementType::kFloat32, add);
    expect_sums_of<double>(layout, ReduceOp::kSum, ElementType::kFloat64, add);
    expect_sums_of<uint64_t>(layout, ReduceOp::kSum, ElementType::kInt64, add);
    expect_sums_of<uint8_t>(layout, ReduceOp::kSum, ElementType::kUInt8, add);
    expect_sums_of<uint32_t>(layout, ReduceOp::kProduct, ElementType::kInt32,
                             [](uint32_t a, uint32_t b) { return a * b; });
    expect_sums_of<int16_t>(layout, ReduceOp::kMax, ElementType::kInt16,
                            [](int16_t a, int16_t b) { return std::max(a, b); });
  }
}

// Only part of the result, elsewhere, across the boundaries of shares.
TEST(SeveralSessions, OnlyWhatIsAskedForIsWritten) {
  Parts parts({{1, 2, 3}, 2});
  Tensors<int32_t> inputs(3, std::vector<int32_t>(9000)), outputs(3, std::vector<int32_t>(5002, -1));
  for (int w = 0; w < 3; ++w) {
    auto& input = inputs[static_cast<size_t>(w)];
    std::iota(input.begin(), input.end(), w);
    Collective c = in_place(ReduceOp::kSum, ElementType::kInt32, input);
    c.operands()->output.data = outputs[static_cast<size_t>(w)].data() + 1;
    c.operands()->output.begin = 1500;
    c.operands()->output.end = 6500;
    parts.submit(w, c);
  }
  parts.expect_success();
  for (const auto& output : outputs) {
    EXPECT_EQ(output.front() + output.back(), -2);
    for (int32_t i = 0; i < 5000; ++i) ASSERT_EQ(output[static_cast<size_t>(i) + 1], 3 * (1500 + i) + 3);
  }
}

TEST(SeveralSessions, ChunksGoToTheSwitchesByWeight) {
  Parts parts({{1, 3, 6}, 2});
  constexpr size_t kChunks = 2000;
  Tensors<float> tensors(3, std::vector<float>(kChunks * kPartsPayload / sizeof(float), 1.0F));
  for (int w = 0; w < 3; ++w) {
    parts.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[static_cast<size_t>(w)]));
  }
  parts.expect_success();
  for (int w = 0; w < 3; ++w) {
    ASSERT_EQ(parts.engine(w).shards(), 6);
    const double expected[] = {100, 100, 300, 300, 600, 600};
    for (int shard = 0; shard < 6; ++shard) {
      EXPECT_NEAR(static_cast<double>(parts.engine(w).counters(shard).chunks_completed.get()), expected[shard], 1);
    }
  }
}

// From the collective on that all ranks agree about, wherever each of them is, and however often they do.
TEST(SeveralSessions, OtherWeightsHoldFromOneCollectiveOn) {
  Parts parts({{1, 1}, 1});
  constexpr size_t kChunks = 20;
  Tensors<float> tensors(3, std::vector<float>(kChunks * kPartsPayload / sizeof(float), 1.0F));
  const auto sum = [&](int w) {
    parts.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[static_cast<size_t>(w)]));
  };
  for (int w = 0; w < 3; ++w) {
    for (int i = 0; i < w; ++i) sum(w);  // one is where another is not yet
    EXPECT_EQ(parts.engine(w).hold(), static_cast<uint64_t>(w));
    EXPECT_EQ(parts.engine(w).held_until(), kNever);
    Collective held = in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[static_cast<size_t>(w)]);
    held.deadline = monotonic_now() + seconds(60);
    parts.submit(w, held);
    EXPECT_EQ(parts.engine(w).held_until(), held.deadline);
    EXPECT_EQ(parts.engine(w).hold(), static_cast<uint64_t>(w)) << "what is held does not count";
  }
  for (int w = 0; w < 3; ++w) parts.engine(w).set_weights(2, {1, 3});
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(parts.engine(w).hold(), static_cast<uint64_t>(w) + 1);
    parts.engine(w).set_weights(3, {4, 1});
  }
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(parts.engine(w).held_until(), kNever);
    for (int i = w + 1; i < 4; ++i) sum(w);
  }
  parts.expect_success();
  for (int w = 0; w < 3; ++w) {
    const auto done = [&](int shard) { return parts.engine(w).counters(shard).chunks_completed.get(); };
    EXPECT_NEAR(static_cast<double>(done(0)), 10 + 10 + 5 + 16, 1);
    EXPECT_NEAR(static_cast<double>(done(1)), 10 + 10 + 15 + 4, 1);
  }
}

TEST(SeveralSessions, WhatIsHeldEndsWithTheEngine) {
  Parts parts({{1, 1}, 1});
  std::vector<float> tensor(10, 1.0F);
  parts.engine(0).hold();
  parts.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  parts.engine(0).abort("the test said so");
  parts.engine(0).hold();
  parts.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  for (const Status& status : parts.ends()) EXPECT_EQ(status.code(), Code::kAborted);
}

// Barriers too, which are of all sessions: behind all that came before.
TEST(SeveralSessions, ABarrierComesBehindEverything) {
  Parts parts({{1, 1, 1}, 2});
  std::vector<Tensors<int32_t>> tensors(20, Tensors<int32_t>(3, std::vector<int32_t>(700, 1)));
  std::mutex mutex;
  std::vector<std::vector<char>> order(3);
  for (int w = 0; w < 3; ++w) {
    const auto noting = [&, w](char what) {
      return [&, w, what](const Status&) {
        const std::lock_guard<std::mutex> lock(mutex);
        order[static_cast<size_t>(w)].push_back(what);
      };
    };
    for (auto& tensor : tensors) {
      Collective c = in_place(ReduceOp::kSum, ElementType::kInt32, tensor[static_cast<size_t>(w)]);
      c.done = noting('s');
      parts.engine(w).submit(c);
    }
    Collective barrier;
    barrier.op = ReduceOp::kBarrier;
    barrier.done = [done = parts.completions.add(), note = noting('b')](const Status& status) {
      note(status);
      done(status);
    };
    parts.engine(w).submit(barrier);
  }
  ASSERT_EQ(parts.completions.wait(3).size(), 3U);
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& mine : order) EXPECT_EQ(std::string(mine.begin(), mine.end()), std::string(20, 's') + "b");
}

// One collective after the other, each in the session whose turn it is, from threads that sleep.
TEST(SeveralSessions, EachHasItsTurnWhenThreadsSleep) {
  Parts parts({std::vector<uint32_t>(5, 1), 2, 2});
  std::vector<std::vector<int32_t>> tensors(2, std::vector<int32_t>(1));
  for (int32_t i = 0; i < 30; ++i) {
    for (int w = 0; w < 2; ++w) {
      tensors[static_cast<size_t>(w)][0] = i + w;
      parts.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, tensors[static_cast<size_t>(w)]));
    }
    parts.expect_success();
    for (const auto& tensor : tensors) ASSERT_EQ(tensor[0], 2 * i + 1);
  }
}

TEST(SeveralSessions, ASilentSwitchIsNamedByEveryRank) {
  PartsOptions options{{1, 1, 1}, 2};
  options.patience = seconds(2);
  Parts parts(options);
  parts.switches[1]->silent = true;
  Tensors<float> tensors(6, std::vector<float>(50000, 1.0F));
  for (size_t i = 0; i < tensors.size(); ++i) {
    parts.submit(static_cast<int>(i % 3), in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[i]));
  }
  for (const Status& status : parts.ends()) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find("the switch switch 1 "), std::string::npos) << status.message();
  }
  for (int w = 0; w < 3; ++w) {
    EXPECT_EQ(parts.engine(w).status().code(), Code::kUnavailable);
    const auto told = parts.failures(w);
    ASSERT_EQ(told.size(), 1U) << "once, whichever shards find out";
    EXPECT_EQ(told[0].to_string(), parts.engine(w).status().to_string());
  }
  parts.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[0]));
  EXPECT_EQ(parts.ends().back().code(), Code::kUnavailable);
}

TEST(SeveralSessions, AbortEndsWhatAnySessionWaitsFor) {
  for (const size_t count : {size_t{1}, size_t{100000}}) {
    Parts parts({{1, 1000, 1}, 3});
    std::vector<float> tensor(count, 1.0F);
    for (int i = 0; i < 9; ++i) {                                                // each session is a home
      parts.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));  // nobody else calls
    }
    parts.engine(0).abort("the test said so");
    parts.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
    for (const Status& status : parts.ends()) {
      EXPECT_EQ(status.code(), Code::kAborted);
      EXPECT_EQ(status.message(), "the test said so");
    }
  }
}

TEST(SeveralSessions, DestructionFinishesWhatIsRunning) {
  Completions completions;
  std::vector<float> tensor(100000, 1.0F);
  {
    Parts parts({{1, 1}, 2});
    Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, tensor);
    c.done = completions.add();
    parts.engine(1).submit(c);
  }
  const auto statuses = completions.wait(1);
  ASSERT_EQ(statuses.size(), 1U);
  EXPECT_EQ(statuses[0].code(), Code::kAborted);
}

TEST(SeveralSessions, ADeadlineNamesWhoIsMissing) {
  Parts parts({{1, 1}, 2});
  std::vector<float> tensor(100000, 1.0F);
  Collective c = in_place(ReduceOp::kSum, ElementType::kFloat32, tensor);
  c.deadline = monotonic_now() + milliseconds(700);
  parts.submit(2, c);
  const auto ends = parts.ends();
  EXPECT_EQ(ends[0].code(), Code::kTimeout);
  EXPECT_NE(ends[0].message().find("rank 0, 1 "), std::string::npos) << ends[0].message();
  EXPECT_EQ(parts.failures(2).size(), 1U);
}

// Whatever they call, and whoever is the home.
TEST(SeveralSessions, RanksThatDisagreeAllFindOut) {
  const size_t counts[][2] = {{1, 2}, {1, 50000}, {0, 1}, {50000, 49999}};
  for (const auto& count : counts) {
    for (int turns = 0; turns < 3; ++turns) {
      Parts parts({{1, 5, 1}, 1, 2});
      std::vector<std::vector<int32_t>> same(2, std::vector<int32_t>(10)), other;
      for (const size_t n : count) other.emplace_back(n);
      for (int w = 0; w < 2; ++w) {
        for (int turn = 0; turn < turns; ++turn) {
          parts.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, same[static_cast<size_t>(w)]));
        }
      }
      parts.expect_success();
      for (int w = 0; w < 2; ++w) {
        parts.submit(w, in_place(ReduceOp::kSum, ElementType::kInt32, other[static_cast<size_t>(w)]));
      }
      const auto ends = parts.ends();
      for (size_t i = ends.size() - 2; i < ends.size(); ++i) {
        EXPECT_EQ(ends[i].code(), Code::kMismatch) << count[0] << " and " << count[1] << ": " << ends[i].to_string();
      }
    }
  }
}

}  // namespace
}  // namespace switchml::testing
