#include "client/fake_controller.h"
#include "reduced.h"
#include "session/session.h"

namespace switchml {
namespace {

constexpr size_t kMany = 20000;

/// A store that one key cannot be read from.
class TornStore : public Rendezvous {
 public:
  TornStore(Rendezvous& below, std::string key) : below_(below), key_(std::move(key)) {}
  Status set(const std::string& key, const std::string& value) override { return below_.set(key, value); }
  Result<std::string> get(const std::string& key, Time deadline) override {
    if (key == key_) return Status(Code::kUnavailable, "the map is torn");
    return below_.get(key, deadline);
  }

 private:
  Rendezvous& below_;
  const std::string key_;
};

/// Ranks on hosts, "aab" say, with a switch that adds integers because a controller has it.
class PairOf {
 public:
  explicit PairOf(const std::string& hosts, Config config = preset_config()) : hosts_(hosts) {
    server = start_switch({}, "0.0.0.0:0");
    const auto address = announced_address("");
    EXPECT_TRUE(address.ok()) << address.status().to_string();
    controller.move_to(with_port(address.value(), port_of(server->local())));
    config.controller = "of this test";
    config_ = config;
  }
  ~PairOf() {
    if (sessions.empty()) return;
    each_rank(size(), [&](int rank) { sessions[static_cast<size_t>(rank)].reset(); });
  }
  PairOf(const PairOf&) = delete;
  PairOf& operator=(const PairOf&) = delete;

  /// Each rank's outcome. Rank 1 sees what is under `altered` changed.
  std::vector<Status> open(const std::string& altered = "", const std::function<void(Blob*)>& change = nullptr) {
    std::vector<Status> outcomes(hosts_.size());
    stores_.resize(hosts_.size());
    torn_.resize(hosts_.size());
    placed_.resize(hosts_.size());
    sessions.resize(hosts_.size());
    each_rank(size(), [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      stores_[r] = std::make_unique<AlteredStore>(store_, rank == 1 ? altered : "", change);
      torn_[r] = std::make_unique<TornStore>(*stores_[r], rank == 1 ? torn_for_rank_1 : "");
      placed_[r] = std::make_unique<PlacedStore>(*torn_[r], rank, hosts_[r]);
      auto session = Session::open(config_, {rank, size(), "group p"}, *placed_[r], monotonic_now() + seconds(20),
                                   borrowed(controller));
      outcomes[r] = session.status();
      if (session.ok()) sessions[r] = std::move(session.value());
    });
    return outcomes;
  }
  bool opens() {
    for (const Status& outcome : open()) {
      EXPECT_TRUE(outcome.ok()) << outcome.to_string();
      if (!outcome.ok()) return false;
    }
    return true;
  }
  int size() const { return static_cast<int>(hosts_.size()); }
  /// How a call of each rank ends, all at the same time; `values`: by rank.
  std::vector<Status> sum(std::vector<std::vector<float>>* values) {
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < values->size(); ++rank) {
      pending.push_back(submit(*sessions[rank], in_place(&(*values)[rank], ElementType::kFloat32)));
    }
    std::vector<Status> ends;
    for (auto& one : pending) ends.push_back(one.get());
    return ends;
  }
  uint64_t uses() const { return server->counters().uses_completed.get(); }

  std::unique_ptr<SwitchServer> server;
  FakeController controller;
  Sessions sessions;
  std::string torn_for_rank_1;  // a key of the store

 private:
  const std::string hosts_;
  Config config_;
  MapStore store_;
  std::vector<std::unique_ptr<AlteredStore>> stores_;
  std::vector<std::unique_ptr<TornStore>> torn_;
  std::vector<std::unique_ptr<PlacedStore>> placed_;
};

void expect_ok(const std::vector<Status>& ends) {
  for (const Status& end : ends) EXPECT_TRUE(end.ok()) << end.to_string();
}

class PairOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Hosts, PairOn, ::testing::Values("aa", "ab", "aabb"));

TEST_P(PairOn, AFewElementsOfUnlikeSizesAreAddedExactly) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  const uint64_t before = pair.uses();
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < pair.size(); ++rank) values.push_back({0.693F, 3.2e9F, 1e-30F});
  expect_ok(pair.sum(&values));
  for (const auto& mine : values) {
    const auto n = static_cast<double>(pair.size());
    EXPECT_EQ(mine, (std::vector<float>{static_cast<float>(n * 0.693F), static_cast<float>(n * 3.2e9F),
                                        static_cast<float>(n * 1e-30F)}));
  }
  EXPECT_EQ(pair.uses(), before) << "the switch has nothing to do with it";
}

TEST_P(PairOn, EveryTypeAndOperationAndManyElements) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  EXPECT_EQ(pair.sessions[0]->abilities().precision, "mixed");
  for (const size_t count : {size_t{1}, kFewElements, kFewElements + 1, kMany}) {
    const uint64_t before = pair.uses();
    expect_reduced<double>(pair.sessions, ElementType::kFloat64, ReduceOp::kSum, count);
    EXPECT_EQ(pair.uses(), before);
    expect_reduced<float>(pair.sessions, ElementType::kFloat32, ReduceOp::kSum, count);
    expect_reduced<int32_t>(pair.sessions, ElementType::kInt32, ReduceOp::kMax, count);
    EXPECT_EQ(pair.uses() > before, count > kFewElements) << count;
  }
}

TEST_P(PairOn, RanksMeetWhicheverEngineTheyChose) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  std::vector<std::vector<float>> values(static_cast<size_t>(pair.size()), std::vector<float>(kMany));
  values[0].resize(4);
  for (const Status& end : pair.sum(&values)) EXPECT_EQ(end.code(), Code::kMismatch) << end.to_string();
  std::vector<std::vector<float>> later(static_cast<size_t>(pair.size()), std::vector<float>(kMany));
  for (const Status& end : pair.sum(&later)) EXPECT_EQ(end.code(), Code::kMismatch) << "both engines are done with";
}

TEST_P(PairOn, CallsOfBothEnginesHaveOneOrder) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  std::vector<std::vector<float>> first, second;
  for (int rank = 0; rank < pair.size(); ++rank) {
    first.emplace_back(rank == 0 ? size_t{4} : kMany, 1.0F);
    second.emplace_back(rank == 0 ? kMany : size_t{4}, 1.0F);
  }
  std::vector<std::future<Status>> pending;
  for (auto* round : {&first, &second}) {
    for (size_t rank = 0; rank < round->size(); ++rank) {
      pending.push_back(submit(*pair.sessions[rank], in_place(&(*round)[rank], ElementType::kFloat32)));
    }
  }
  size_t mismatches = 0;
  for (auto& one : pending) mismatches += one.get().code() == Code::kMismatch ? 1 : 0;
  EXPECT_EQ(mismatches, pending.size());
}

TEST_P(PairOn, ManyCallsOfBothUnderWayTogether) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  constexpr int kCalls = 40;
  const auto ranks = static_cast<size_t>(pair.size());
  std::vector<std::vector<std::vector<float>>> values(kCalls);
  std::vector<std::future<Status>> pending;
  for (int call = 0; call < kCalls; ++call) {
    const size_t count = call % 3 == 0 ? kMany : static_cast<size_t>(call * 100 + 1);
    for (size_t rank = 0; rank < ranks; ++rank) {
      values[static_cast<size_t>(call)].emplace_back(count, static_cast<float>(call + static_cast<int>(rank)));
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<float>* mine = &values[static_cast<size_t>(call)][rank];
      pending.push_back(submit(*pair.sessions[rank], in_place(mine, ElementType::kFloat32)));
    }
  }
  for (auto& one : pending) {
    const Status end = one.get();
    ASSERT_TRUE(end.ok()) << end.to_string();
  }
  for (int call = 0; call < kCalls; ++call) {
    const auto n = pair.size();
    const auto expected = static_cast<float>(n * call + n * (n - 1) / 2);
    for (const auto& mine : values[static_cast<size_t>(call)]) {
      EXPECT_EQ(mine, std::vector<float>(mine.size(), expected)) << call;
    }
  }
}

TEST_P(PairOn, ARankThatGivesUpEndsCallsOfBoth) {
  PairOf pair(GetParam());
  ASSERT_TRUE(pair.opens());
  std::vector<float> few(4), many(kMany);
  auto short_call = submit(*pair.sessions[1], in_place(&few, ElementType::kFloat32));
  auto long_call = submit(*pair.sessions[1], in_place(&many, ElementType::kFloat32));
  pair.sessions[0]->give_up("its test wants that");
  for (auto* call : {&short_call, &long_call}) {
    const Status end = call->get();
    EXPECT_TRUE(contains(end, "its test wants that")) << end.to_string();
  }
}

TEST(SessionPair, HasAHostOfItsOwnForEachPart) {
  PairOf pair("ab");
  ASSERT_TRUE(pair.opens());
  for (const auto& session : pair.sessions) {
    ASSERT_NE(session->embedded(), nullptr);
    EXPECT_EQ(session->switch_names(), to_string(pair.controller.place()) + " (of controller of this test)");
  }
}

TEST_P(PairOn, WhatIntegersCanGoesToTheSwitchWhereTheyAreAskedFor) {
  Config config = preset_config();
  config.precision = Precision::kInteger;
  PairOf pair(GetParam(), config);
  ASSERT_TRUE(pair.opens());
  EXPECT_EQ(pair.sessions[0]->abilities().precision, "integer");
  for (const size_t count : {size_t{1}, kMany}) {
    const uint64_t before = pair.uses();
    expect_reduced<double>(pair.sessions, ElementType::kFloat64, ReduceOp::kSum, count);
    EXPECT_EQ(pair.uses(), before);
    expect_reduced<float>(pair.sessions, ElementType::kFloat32, ReduceOp::kSum, count);
    EXPECT_GT(pair.uses(), before) << count;
  }
}

TEST(SessionPair, HostsThatCannotAddFailTheOpeningOfAllRanks) {
  PairOf pair("ab");
  const auto outcomes =
      pair.open("exact/switchml/aggregators/0", [](Blob* blob) { blob->set("switch/0/address", "nowhere"); });
  for (const Status& outcome : outcomes) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_TRUE(contains(outcome, "the ranks' hosts cannot do what an integer switch cannot: ")) << outcome.to_string();
  }
}

TEST(SessionPair, ARankWhoseFirstSessionFailsEndsTheSecondOpening) {
  PairOf pair("ab");
  pair.torn_for_rank_1 = "switchml/open/0";
  const auto outcomes = pair.open();
  EXPECT_TRUE(contains(outcomes[1], "cannot be read: the map is torn")) << outcomes[1].to_string();
  EXPECT_TRUE(contains(outcomes[0], "rank 1: the store of group p cannot be read")) << outcomes[0].to_string();
}

TEST(SessionPair, ASwitchThatIsLostTakesNothingWithIt) {
  Config config = preset_config(seconds(20));
  config.fallback = true;
  config.failure_timeout = seconds(1);
  PairOf pair("ab", config);
  ASSERT_TRUE(pair.opens());
  std::vector<std::vector<float>> values(2, std::vector<float>(kMany, 1.0F));
  expect_ok(pair.sum(&values));
  pair.server.reset();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<float>> many(2, std::vector<float>(kMany, 1.5F));
    std::vector<std::vector<float>> few(2, std::vector<float>(3, 0.5F));
    expect_ok(pair.sum(&many));
    expect_ok(pair.sum(&few));
    EXPECT_EQ(many[1], std::vector<float>(kMany, 3.0F));
    EXPECT_EQ(few[0], std::vector<float>(3, 1.0F));
  }
  for (const auto& session : pair.sessions) EXPECT_TRUE(session->without_switch());
  each_rank(2, [&](int rank) { pair.sessions[static_cast<size_t>(rank)]->await_others(); });
}

}  // namespace
}  // namespace switchml
