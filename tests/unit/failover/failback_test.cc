#include "failover/failback.h"

#include <gtest/gtest.h>

#include "client/fake_controller.h"
#include "client/switches.h"
#include "store/map_store.h"

namespace switchml {
namespace {

/// A switch, and what its group had before.
struct Switch {
  explicit Switch(bool whole_chunks = false) {
    ServerOptions options;
    options.softswitch.whole_chunks = whole_chunks;
    server = start_switch(options);
    lost.switch_endpoint = server->local();
    lost.switch_name = "s";
    lost.shards = 2;
    lost.slots = 32;
    lost.payload_bytes = 1024;
    lost.workers = 2;
    lost.job = 200;
    lost.epoch = 1;
    config.shards = 2;
  }
  SessionParameters of(int rank) const {
    SessionParameters session = lost;
    session.worker = rank;
    return session;
  }
  uint64_t open_sessions() const {
    return server->counters().sessions_opened.get() - server->counters().sessions_closed.get();
  }

  std::unique_ptr<SwitchServer> server;
  SessionParameters lost;
  Config config = quick_config();
  ControllerEntry controller;
  MapStore store;
};

TEST(Failback, AllJoinWhatRankZeroWasGranted) {
  Switch there;
  std::vector<SessionParameters> found(2);
  each_rank(2, [&](int rank) {
    StoreChannel channel(there.store, rank, for_seconds(10));
    Failback failback(there.config, {rank, 2, "g"}, there.of(rank), channel, there.controller);
    if (rank == 0) {
      ASSERT_TRUE(failback.offer(3, monotonic_now() + seconds(5)).ok());
    }
    auto taken = failback.take(3);
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    EXPECT_EQ(taken->transports.size(), 2U);
    found[static_cast<size_t>(rank)] = taken->session;
  });
  EXPECT_EQ(found[0].epoch, found[1].epoch);
  EXPECT_NE(found[0].epoch, 1U);
  EXPECT_EQ(found[0].worker, 0);
  EXPECT_EQ(found[1].worker, 1);
  EXPECT_EQ(found[0].slots, 32);
  for (const SessionParameters& session : found) leave({session}, monotonic_now() + seconds(2));
  EXPECT_EQ(there.open_sessions(), 0U);
}

TEST(Failback, IfOneCannotJoinNobodyGoes) {
  Switch there;
  const Endpoint nowhere = closed_port();
  each_rank(2, [&](int rank) {
    StoreChannel channel(there.store, rank, for_seconds(10));
    SessionParameters lost = there.of(rank);
    if (rank == 1) lost.switch_endpoint = nowhere;
    Failback failback(there.config, {rank, 2, "g"}, lost, channel, there.controller);
    if (rank == 0) {
      ASSERT_TRUE(failback.offer(1, monotonic_now() + seconds(5)).ok());
    }
    auto taken = failback.take(1);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.status().message().find("rank 1: ") == 0, rank == 0) << taken.status().message();
  });
}

TEST(Failback, AnotherKindOfSwitchIsNotOffered) {  // [MOVE-2]
  Switch there(true);
  StoreChannel channel(there.store, 0, for_seconds(1));
  Failback failback(there.config, {0, 2, "g"}, there.of(0), channel, there.controller);
  const Status status = failback.offer(1, monotonic_now() + seconds(5));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("whole payloads only"), std::string::npos) << status.message();
  EXPECT_EQ(there.store.get("switchml/back/1/offer/0", monotonic_now()).status().code(), Code::kTimeout);
  EXPECT_EQ(there.server->counters().sessions_opened.get(), 1U);
  EXPECT_EQ(there.open_sessions(), 0U) << "what was granted is given back";
}

TEST(Failback, AnOfferThatNobodyCanReadIsGivenBack) {
  Switch there;
  there.store.broken = true;
  StoreChannel channel(there.store, 0, for_seconds(1));
  Failback failback(there.config, {0, 2, "g"}, there.of(0), channel, there.controller);
  EXPECT_FALSE(failback.offer(1, monotonic_now() + seconds(5)).ok());
  EXPECT_EQ(there.server->counters().sessions_opened.get(), 1U);
  EXPECT_EQ(there.open_sessions(), 0U);
}

TEST(Failback, AControllerSaysWhereTheSwitchIsNow) {
  Switch there;
  FakeController controller;
  controller.move_to(there.server->local());
  there.lost.switch_endpoint = closed_port();
  there.lost.controlled = true;
  there.controller = {borrowed(controller), "c:1", {{"127.0.0.1"}, {"127.0.0.2"}}};
  each_rank(2, [&](int rank) {
    StoreChannel channel(there.store, rank, for_seconds(10));
    Failback failback(there.config, {rank, 2, "g"}, there.of(rank), channel, there.controller);
    if (rank == 0) {
      ASSERT_TRUE(failback.offer(1, monotonic_now() + seconds(5)).ok());
    }
    auto taken = failback.take(1);
    ASSERT_TRUE(taken.ok()) << taken.status().to_string();
    EXPECT_EQ(taken->session.switch_endpoint, controller.place());
    EXPECT_EQ(taken->session.switch_name, to_string(controller.place()) + " (of controller c:1)");
    EXPECT_TRUE(taken->session.controlled);
    leave({taken->session}, monotonic_now() + seconds(2));
  });
  EXPECT_EQ(controller.located, there.controller.ranks);
  EXPECT_EQ(controller.opened, there.controller.ranks);
  EXPECT_EQ(there.open_sessions(), 0U);
}

TEST(Failback, AControllerThatRefusesIsAskedAgainLater) {
  Switch there;
  FakeController controller;
  controller.refusal = Status(Code::kUnavailable, "controller c:1 refuses: the switch cannot be used");
  there.lost.controlled = true;
  there.controller = {borrowed(controller), "c:1", {{"127.0.0.1"}, {"127.0.0.2"}}};
  StoreChannel channel(there.store, 0, for_seconds(1));
  Failback failback(there.config, {0, 2, "g"}, there.of(0), channel, there.controller);
  EXPECT_EQ(failback.offer(1, monotonic_now() + seconds(5)).message(), controller.refusal.message());
  EXPECT_EQ(there.server->counters().sessions_opened.get(), 0U);
}

TEST(Failback, NothingIsOfferedWhereNobodyListens) {
  Switch there;
  there.lost.switch_endpoint = closed_port();
  StoreChannel channel(there.store, 0, for_seconds(1));
  Failback failback(there.config, {0, 2, "g"}, there.of(0), channel, there.controller);
  EXPECT_EQ(failback.offer(1, monotonic_now() + milliseconds(300)).code(), Code::kUnavailable);
  EXPECT_EQ(failback.take(1).status().message(), "nobody comes");
}

}  // namespace
}  // namespace switchml
