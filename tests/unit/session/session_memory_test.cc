// Sessions of ranks that share memory, by session.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "reduced.h"

namespace switchml {
namespace {

/// The sessions of ranks 0 ... among `size`, in this process.
Sessions open_some(int count, int size, const Config& config, Rendezvous& store) {
  Sessions sessions(static_cast<size_t>(count));
  each_rank(count, [&](int rank) {
    auto session = Session::open(config, {rank, size, "group g"}, store, monotonic_now() + seconds(20));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    sessions[static_cast<size_t>(rank)] = std::move(session.value());
  });
  return sessions;
}

/// The sessions of a group; none where one rank has none, which fails the test.
class SessionInMemory : public ::testing::Test {
 protected:
  Sessions open(int size, const Config& config = preset_config()) {
    Sessions sessions = open_some(size, size, config, store_);
    for (const auto& session : sessions) {
      if (session == nullptr) return {};
    }
    return sessions;
  }
  MapStore store_;
};

/// bfloat16, as far as these tests need it: small integers, which it has exactly.
struct BFloat16 {
  BFloat16() = default;
  explicit BFloat16(int value) {
    const auto number = static_cast<float>(value);
    uint32_t single = 0;
    std::memcpy(&single, &number, sizeof single);
    bits = static_cast<uint16_t>(single >> 16);
  }
  bool operator==(const BFloat16& other) const { return bits == other.bits; }
  uint16_t bits = 0;
};

TEST_F(SessionInMemory, ReducesTypesAndSizes) {
  const Sessions sessions = open(4);
  ASSERT_EQ(sessions.size(), 4U);
  for (const size_t count : {0U, 1U, 63U, 4097U, 100001U, 1000003U}) {
    expect_reduced<float>(sessions, ElementType::kFloat32, ReduceOp::kSum, count);
    expect_reduced<BFloat16>(sessions, ElementType::kBFloat16, ReduceOp::kSum, count);
    expect_reduced<int8_t>(sessions, ElementType::kInt8, ReduceOp::kSum, count);
    expect_reduced<int64_t>(sessions, ElementType::kInt64, ReduceOp::kSum, count);
    expect_reduced<int32_t>(sessions, ElementType::kInt32, ReduceOp::kMax, count);
    expect_reduced<float>(sessions, ElementType::kFloat32, ReduceOp::kMin, count);
  }
}

TEST_F(SessionInMemory, ABarrierEndsWhenAllHaveCalledIt) {
  const Sessions sessions = open(3);
  ASSERT_EQ(sessions.size(), 3U);
  const auto enter = [&](size_t rank) {
    Collective barrier;
    barrier.op = ReduceOp::kBarrier;
    barrier.title = "barrier";
    return submit(*sessions[rank], std::move(barrier));
  };
  auto zero = enter(0);
  auto one = enter(1);
  EXPECT_FALSE(ends_within(zero, milliseconds(100)));
  auto two = enter(2);
  for (auto* pending : {&zero, &one, &two}) {
    const Status status = pending->get();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST_F(SessionInMemory, ARankAloneNeedsNobody) {
  const Sessions sessions = open(1);
  ASSERT_EQ(sessions.size(), 1U);
  expect_reduced<float>(sessions, ElementType::kFloat32, ReduceOp::kSum, 100000);
}

TEST_F(SessionInMemory, SaysWhatItIs) {
  const Sessions sessions = open(3);
  ASSERT_EQ(sessions.size(), 3U);
  for (size_t rank = 0; rank < sessions.size(); ++rank) {
    Session& session = *sessions[rank];
    EXPECT_EQ(session.abilities().transport, "shm");
    EXPECT_EQ(session.embedded(), nullptr);
    EXPECT_FALSE(session.without_switch());
    EXPECT_EQ(session.parameters().worker, static_cast<int>(rank));
    EXPECT_EQ(session.parameters().workers, 3);
    EXPECT_EQ(session.engine().shards(), 3) << "small tensors and messages have one of their own each";
    EXPECT_GT(session.engine().memory_bytes(), 0U);
    EXPECT_TRUE(session.engine().status().ok());
  }
}

TEST_F(SessionInMemory, GivesTheMaximaThatASwitchGives) {
  constexpr size_t kCount = 70001;
  std::vector<std::vector<float>> results;
  Config through_switch = quick_config();
  through_switch.payload_bytes = 1024;
  for (const Config& config : {preset_config(), through_switch}) {
    MapStore store;
    Sessions sessions = open_some(3, 3, config, store);
    std::vector<std::vector<float>> values;
    for (int rank = 0; rank < 3; ++rank) values.push_back(uneven(rank, kCount));
    each_rank(3, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      ASSERT_NE(sessions[r], nullptr);
      EXPECT_EQ(sessions[r]->abilities().transport, config.transport == "auto" ? "shm" : "udp");
      Collective largest = in_place(&values[r], ElementType::kFloat32);
      largest.op = ReduceOp::kMax;
      const Status status = submit(*sessions[r], std::move(largest)).get();
      EXPECT_TRUE(status.ok()) << status.to_string();
      sessions[r].reset();
    });
    for (const auto& result : values) results.push_back(result);
  }
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kCount * sizeof(float)), 0);
  }
}

// ---- ends ----

TEST_F(SessionInMemory, WhoLeavesEndsWhatTheOthersWaitFor) {
  for (const size_t leaver : {0U, 2U}) {
    MapStore store;
    Sessions sessions = open_some(4, 4, preset_config(), store);
    for (const auto& session : sessions) ASSERT_NE(session, nullptr);
    std::vector<std::vector<float>> values(4, std::vector<float>(1000, 1.0F));
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < 4; ++rank) {
      if (rank == leaver) continue;
      pending.push_back(submit(*sessions[rank], in_place(&values[rank], ElementType::kFloat32)));
    }
    for (const auto& one : pending) EXPECT_FALSE(ends_within(one, milliseconds(50)));
    sessions[leaver].reset();
    const std::string said = "rank " + std::to_string(leaver) + " (left the session)";
    for (auto& one : pending) {
      ASSERT_TRUE(ends_within(one, seconds(60)));
      const Status status = one.get();
      EXPECT_EQ(status.code(), Code::kUnavailable);
      EXPECT_TRUE(contains(status, said)) << status.message();
    }
    for (const auto& session : sessions) {
      if (session == nullptr) continue;
      std::vector<float> more(10);
      EXPECT_TRUE(contains(all_reduce(*session, &more), said)) << "what comes later fails with the same reason";
      EXPECT_TRUE(contains(session->engine().status(), said)) << session->engine().status().message();
    }
  }
}

TEST_F(SessionInMemory, ClosingEndsWhatIsUnderWay) {
  Sessions sessions = open(2);
  ASSERT_EQ(sessions.size(), 2U);
  std::vector<float> values(300000);
  const auto first = submit(*sessions[1], in_place(&values, ElementType::kFloat32));
  auto second = submit(*sessions[1], in_place(&values, ElementType::kFloat32));
  EXPECT_FALSE(ends_within(first, milliseconds(20)));
  const Time begin = monotonic_now();
  sessions[1].reset();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
  ASSERT_TRUE(ends_within(first, Duration(0)) && ends_within(second, Duration(0)));
  const Status status = second.get();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "the process group was shut down")) << status.message();
}

TEST_F(SessionInMemory, NobodyLingersForTheOthers) {
  Sessions sessions = open(2);
  ASSERT_EQ(sessions.size(), 2U);
  const Time begin = monotonic_now();
  sessions[0].reset();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 1.5) << "there is no switch that rank 1 could need";
}

TEST_F(SessionInMemory, WhatIsCompleteStaysCompleteWhereOneLeaves) {
  for (int round = 0; round < 20; ++round) {
    MapStore store;
    each_rank(3, [&](int rank) {
      auto session = Session::open(preset_config(), {rank, 3, "group g"}, store, monotonic_now() + seconds(20));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      std::vector<float> values(50000, static_cast<float>(rank));
      const Status status = all_reduce(*session.value(), &values);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(values, std::vector<float>(values.size(), 3.0F));
    });
  }
}

TEST_F(SessionInMemory, DifferentCallsFailOnAllAndAreCompared) {
  const Sessions sessions = open(3);
  ASSERT_EQ(sessions.size(), 3U);
  each_rank(3, [&](int rank) {
    const size_t count = rank == 1 ? 200 : 100;
    std::vector<float> values(count);
    Session& session = *sessions[static_cast<size_t>(rank)];
    const Status status = all_reduce(session, &values);
    EXPECT_EQ(status.code(), Code::kMismatch);
    const std::string mine = "all_reduce(SUM, float32, " + std::to_string(count) + " elements)";
    EXPECT_TRUE(contains(status, "this rank called " + mine)) << status.message();
    EXPECT_EQ(session.compare_calls(mine),
              "ranks 0, 2 called all_reduce(SUM, float32, 100 elements); rank 1 called all_reduce(SUM, float32, 200 "
              "elements)");
  });
}

// ---- on_switch_failure=fallback ----

TEST_F(SessionInMemory, NeverFallsBack) {
  Config config = preset_config();
  config.fallback = true;
  config.failure_timeout = seconds(120);
  Sessions sessions = open(3, config);
  ASSERT_EQ(sessions.size(), 3U);
  EXPECT_EQ(sessions[1]->abilities().transport, "shm");
  expect_reduced<float>(sessions, ElementType::kFloat32, ReduceOp::kSum, 100000);
  const Time begin = monotonic_now();
  for (int i = 0; i < 2; ++i) sessions[0]->await_others();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0) << "it waited for ranks that have not settled";
  expect_reduced<float>(sessions, ElementType::kFloat32, ReduceOp::kSum, 1000);

  std::vector<float> values(1000);
  const auto pending = submit(*sessions[0], in_place(&values, ElementType::kFloat32));
  sessions[2].reset();
  EXPECT_TRUE(ends_within(pending, seconds(60)));
  EXPECT_EQ(all_reduce(*sessions[0], &values).code(), Code::kUnavailable);
  for (const size_t rank : {0U, 1U}) EXPECT_FALSE(sessions[rank]->without_switch());
}

// ---- processes ----

/// A store that processes share: a file for each key.
class DirectoryStore : public Rendezvous {
 public:
  DirectoryStore()
      : folder_(::testing::TempDir() + "switchml_session_" + std::to_string(::getpid()) + "_" +
                std::to_string(monotonic_now().time_since_epoch().count())) {
    std::filesystem::create_directory(folder_);
  }
  ~DirectoryStore() override { std::filesystem::remove_all(folder_); }

  Status set(const std::string& key, const std::string& value) override {
    const std::filesystem::path written = path_of(key).string() + ".new";
    std::ofstream(written, std::ios::binary) << value;
    std::filesystem::rename(written, path_of(key));  // nobody reads half of it
    return {};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    while (!std::filesystem::exists(path_of(key))) {
      if (monotonic_now() >= deadline) return Status(Code::kTimeout, key);
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::ostringstream text;
    text << std::ifstream(path_of(key), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_of(std::string key) const {
    for (char& c : key) c = c == '/' ? '_' : c;
    return folder_ / key;
  }
  const std::filesystem::path folder_;
};

/// A process that is the last rank of `size`: it does one all-reduce, then it only is there.
pid_t last_rank(int size, Rendezvous& store) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto session = Session::open(preset_config(), {size - 1, size, "group g"}, store, monotonic_now() + seconds(20));
  if (!session.ok()) ::_exit(1);
  std::vector<float> values(1000, 1.0F);
  if (!all_reduce(*session.value(), &values).ok()) ::_exit(2);
  while (true) ::pause();
}

// What its watch does after that says nothing to anybody: give it time.
TEST(SessionOfProcesses, AProcessThatEndsIsToldAndFailsWhatIsUnderWay) {
  DirectoryStore store;
  const pid_t victim = last_rank(3, store);
  ASSERT_GT(victim, 0);
  const Sessions sessions = open_some(2, 3, preset_config(), store);
  std::promise<Status> told[2];
  std::vector<std::future<Status>> pending;
  std::vector<std::vector<float>> values(2, std::vector<float>(1000, 1.0F));
  each_rank(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    ASSERT_NE(sessions[r], nullptr);
    sessions[r]->when_rank_is_lost([&told, r](const Status& status) { told[r].set_value(status); });
    ASSERT_TRUE(all_reduce(*sessions[r], &values[r]).ok());
    EXPECT_EQ(values[r], std::vector<float>(1000, 3.0F));
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    ASSERT_NE(sessions[rank], nullptr);
    EXPECT_EQ(sessions[rank]->abilities().transport, "shm");
    pending.push_back(submit(*sessions[rank], in_place(&values[rank], ElementType::kFloat32)));
  }
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(ends_within(pending[0], Duration(0)));
  ::kill(victim, SIGKILL);
  EXPECT_EQ(::waitpid(victim, nullptr, 0), victim);
  for (size_t rank = 0; rank < 2; ++rank) {
    auto loss = told[rank].get_future();
    ASSERT_TRUE(ends_within(loss, seconds(60))) << "rank " << rank << " has not been told";
    ASSERT_TRUE(ends_within(pending[rank], seconds(60)));
    for (const Status& status : {loss.get(), pending[rank].get(), sessions[rank]->engine().status()}) {
      EXPECT_EQ(status.code(), Code::kUnavailable);
      EXPECT_TRUE(contains(status, "rank 2 (") && contains(status, "is gone")) << status.message();
    }
    Status later;
    sessions[rank]->when_rank_is_lost([&later](const Status& status) { later = status; });
    EXPECT_TRUE(contains(later, "is gone")) << "who asks later is told at once";
    sessions[rank]->when_rank_is_lost(nullptr);
  }
}

}  // namespace
}  // namespace switchml
