// Sessions of ranks that share memory, by session.cc.
#include <gtest/gtest.h>

#include "client/switch_entry.h"
#include "reduced.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "watch/peer_watch.h"

namespace switchml {
namespace {

class SessionInMemory : public ::testing::Test {
 protected:
  /// The sessions of a group; none where one rank has none, which fails the test.
  Sessions open(int size, const Config& config = preset_config()) {
    Sessions sessions(static_cast<size_t>(size));
    each_rank(size, [&](int rank) {
      auto session = Session::open(config, {rank, size, "group g"}, store_, monotonic_now() + seconds(20));
      EXPECT_TRUE(session.ok()) << session.status().to_string();
      if (session.ok()) sessions[static_cast<size_t>(rank)] = std::move(session.value());
    });
    for (const auto& session : sessions) {
      if (session == nullptr) return {};
    }
    return sessions;
  }
  MapStore store_;
};

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

// Rank 1 finds nobody where rank 0 should watch, and that it has not left their memory.
TEST_F(SessionInMemory, ADeathOfRankZeroIsSeenByWhoComesTooLateForItsWatch) {
  const auto nobody = [] {
    const auto listener = PeerWatch::listen(literal_address("127.0.0.1", 0).value());
    return to_string(local_endpoint(listener->get()));
  }();
  Sessions sessions(2);
  Status seen;  // Where a busy machine shows it before the group has opened.
  each_rank(2, [&](int rank) {
    AlteredStore own(store_, rank == 1 ? rank_key("place", 0) : "", [&](Blob* place) { place->set("watch", nobody); });
    auto session = Session::open(preset_config(), {rank, 2, "group g"}, own, monotonic_now() + seconds(20));
    if (session.ok()) sessions[static_cast<size_t>(rank)] = std::move(session.value());
    if (!session.ok() && rank == 1) seen = session.status();
  });
  const Time end = monotonic_now() + seconds(60);
  while (seen.ok() && monotonic_now() < end) {
    std::this_thread::sleep_for(milliseconds(5));
    seen = sessions[1]->engine().status();
  }
  EXPECT_EQ(seen.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(seen, "rank 0 is gone: its process has ended without leaving the group")) << seen.message();
}

// Lingering takes kLingerTime, and a busy machine makes a try or two as long.
TEST_F(SessionInMemory, NobodyLingersForTheOthers) {
  bool is_gone_at_once = false;
  for (int tries = 0; tries < 10 && !is_gone_at_once; ++tries) {
    Sessions sessions = open(2);
    ASSERT_EQ(sessions.size(), 2U);
    const Time begin = monotonic_now();
    sessions[0].reset();
    is_gone_at_once = monotonic_now() - begin < kLingerTime / 2;
  }
  EXPECT_TRUE(is_gone_at_once) << "there is no switch that rank 1 could need";
}

// With on_switch_failure=fallback.
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

}  // namespace
}  // namespace switchml
