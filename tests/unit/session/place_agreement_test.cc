#include "session/place_agreement.h"

#include <gtest/gtest.h>

#include "agree_each.h"
#include "fake_controller.h"
#include "session/shared_memory.h"
#include "shm/board.h"
#include "transport/sockaddr.h"

namespace switchml {
namespace {

TEST(PlaceAgreement, AWrongAddressIsNamedOnAll) {
  MapStore store;
  Config config = quick_config(seconds(1));
  config.switch_address = to_string(closed_port());
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "switch " + config.switch_address + " does not answer")) << status.message();
  EXPECT_TRUE(contains(status, "switchml-switchd")) << status.message();
}

TEST(PlaceAgreement, AnImpossibleAddressIsRefusedOnAll) {
  MapStore store;
  Config config = quick_config();
  config.switch_address = "10.0.0.1:notaport";
  const Status status = common_failure(agree_all(
      2, [&](int) { return config; }, store));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_SWITCH=\"10.0.0.1:notaport\"")) << status.message();
}

TEST(PlaceAgreement, SettingsThatDifferAreNamedOnAll) {
  struct Case {
    std::function<void(Config*)> change;
    const char* part;
  };
  const Case cases[] = {
      {[](Config* c) { c->shards = 2; }, "rank 1 has SWITCHML_SHARDS \"2\" but rank 0 has \"1\""},
      {[](Config* c) { c->payload_bytes = 256; }, "rank 1 has SWITCHML_PAYLOAD \"256\" but rank 0 has none"},
      {[](Config* c) { c->slots = 8; }, "rank 1 has SWITCHML_SLOTS \"8\""},
      {[](Config* c) { c->switch_address = "1.2.3.4:5"; },
       "rank 1 has SWITCHML_SWITCH \"1.2.3.4:5\" but rank 0 has none (the default)"},
      {[](Config* c) { c->transport = "auto"; }, "rank 1 has SWITCHML_TRANSPORT \"auto\" but rank 0 has \"udp\""},
      {[](Config* c) { c->transport = "shm"; }, "rank 1 has SWITCHML_TRANSPORT \"shm\" but rank 0 has \"udp\""},
      {[](Config* c) { c->integers = true; }, "rank 1 has SWITCHML_PRECISION \"integer\" but rank 0 has \"auto\""},
  };
  for (const Case& c : cases) {
    MapStore store;
    const Status status = common_failure(agree_all(
        2,
        [&c](int rank) {
          Config config = quick_config();
          if (rank == 1) c.change(&config);
          return config;
        },
        store));
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_TRUE(contains(status, c.part)) << status.message();
  }
}

TEST(PlaceAgreement, OtherVersionsAreNamed) {
  Status status = common_failure(agree_altered(2, quick_config(), other_hello("protocol", "9")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has protocol version \"9\" but rank 0 has \"2\"")) << status.message();
  status = common_failure(agree_altered(2, quick_config(), other_hello("package", "99.0")));
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_TRUE(contains(status, "rank 1 has switchml version \"99.0\"")) << status.message();
}

TEST(PlaceAgreement, ALoopbackSwitchCannotServeSeveralHosts) {
  Config config = quick_config();
  config.switch_address = "127.0.0.1:5";
  const Status status = common_failure(agree_altered(2, config, other_hello("host", "another host")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "loopback")) << status.message();
}

// ---- memory ----

Config memory_config(const std::string& transport, Duration timeout = seconds(10)) {
  Config config = preset_config(timeout);
  config.transport = transport;
  return config;
}

/// All ranks have the same memory, and rank 0 has left a listener for the others' watches.
void expect_memory(const Outcome& outcome, int size) {
  ASSERT_EQ(outcome.ranks.size(), static_cast<size_t>(size));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    ASSERT_NE(rank->memory, nullptr);
  }
  const Agreed& zero = *outcome.ranks[0].operator->();
  zero.memory->data()[5] = 77;
  for (int i = 0; i < size; ++i) {
    const Agreed& rank = *outcome.ranks[static_cast<size_t>(i)].operator->();
    EXPECT_EQ(rank.memory->data()[5], 77) << "rank " << i;
    EXPECT_EQ(rank.memory->size(), shm::shape_for(size).bytes());
    EXPECT_EQ(rank.memory->fd(), -1) << "rank " << i << " keeps a descriptor that nobody needs";
    EXPECT_TRUE(rank.transports.empty());
    EXPECT_EQ(rank.embedded, nullptr);
    EXPECT_EQ(rank.parameters.worker, i);
    EXPECT_EQ(rank.parameters.workers, size);
    EXPECT_EQ(rank.parameters.shards, 1);
    EXPECT_EQ(rank.parameters.slots, shm::shape_for(size).slots);
    EXPECT_EQ(rank.parameters.payload_bytes, shm::shape_for(size).chunk_bytes);
    EXPECT_EQ(rank.parameters.switch_name, "memory of this host");
    EXPECT_EQ(rank.watch_listener.valid(), i == 0);
    EXPECT_EQ(rank.watch_key, zero.watch_key);
    if (i > 0) {
      EXPECT_EQ(to_string(rank.watch_address), to_string(local_endpoint(zero.watch_listener.get())));
      EXPECT_NE(rank.memory->data(), zero.memory->data()) << "a mapping of its own";
    }
  }
}

/// All ranks use a switch that is embedded in rank 0.
void expect_embedded_switch(const Outcome& outcome) {
  for (size_t i = 0; i < outcome.ranks.size(); ++i) {
    const auto& rank = outcome.ranks[i];
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr) << "rank " << i;
    EXPECT_EQ(rank->transports.size(), 1U) << "rank " << i;
    EXPECT_EQ(rank->embedded != nullptr, i == 0);
    EXPECT_NE(rank->parameters.switch_name.find("embedded in rank 0"), std::string::npos);
  }
}

TEST(AgreementOnMemory, RanksOfOneHostShareIt) {
  for (const char* transport : {"auto", "shm"}) {
    for (const int size : {1, 2, 3, 4}) {
      MapStore store;
      SCOPED_TRACE(transport + std::string(", ranks: ") + std::to_string(size));
      const auto outcome = agree_all(
          size, [&](int) { return memory_config(transport); }, store);
      expect_memory(outcome, size);
    }
  }
}

TEST(AgreementOnMemory, GroupsDoNotShareWithEachOther) {
  MapStore stores[2];
  const auto config_of = [](int) { return memory_config("auto"); };
  const auto a = agree_all(2, config_of, stores[0]);
  const auto b = agree_all(2, config_of, stores[1]);
  expect_memory(a, 2);
  ASSERT_TRUE(b.ranks[0].ok());
  EXPECT_EQ(b.ranks[0]->memory->data()[5], 0);
  EXPECT_NE(a.ranks[0]->watch_key, b.ranks[0]->watch_key);
}

TEST(AgreementOnMemory, ASwitchThatIsNamedIsTaken) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  Config config = memory_config("auto");
  config.switch_address = to_string(server->local());
  MapStore store;
  const auto outcome = agree_all(
      2, [&](int) { return config; }, store);
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr);
    EXPECT_EQ(rank->transports.size(), 1U);
    EXPECT_EQ(rank->parameters.switch_endpoint, server->local());
  }
}

TEST(AgreementOnMemory, AControllerThatIsNamedIsAsked) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  FakeController controller;
  controller.move_to(server->local());
  Config config = memory_config("auto");
  config.controller = "c:1";
  MapStore store;
  const auto outcome = agree_all(
      2, [&](int) { return config; }, store, {}, borrowed(controller));
  for (const auto& rank : outcome.ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr);
    EXPECT_EQ(rank->parameters.switch_endpoint, server->local());
  }
}

TEST(AgreementOnMemory, FaultsOfAnyRankNeedPackets) {
  for (const int faulty : {0, 2}) {
    MapStore store;
    const auto outcome = agree_all(
        3,
        [&](int rank) {
          Config config = memory_config("auto");
          if (rank == faulty) config.faults = "seed=1,duplicate=0.1";
          return config;
        },
        store);
    SCOPED_TRACE(faulty);
    expect_embedded_switch(outcome);
  }
}

// Ranks that reach each other over loopback all the same, so that the switch works.
TEST(AgreementOnMemory, RanksOnSeveralHostsUseASwitch) {
  Config config = memory_config("auto");
  config.interface = "lo";
  const auto outcome = agree_altered(2, config, other_hello("host", "another host"));
  for (size_t i = 0; i < outcome.ranks.size(); ++i) {
    const auto& rank = outcome.ranks[i];
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->memory, nullptr) << "rank " << i;
    EXPECT_NE(rank->embedded, nullptr) << "rank " << i << "'s host has a part";
    EXPECT_EQ(rank->transports.size(), 2U);
    ASSERT_EQ(rank->others.size(), 1U);
    EXPECT_NE(rank->parameters.switch_name.find("embedded in rank 0"), std::string::npos);
    EXPECT_NE(rank->others[0].switch_name.find("embedded in rank 1"), std::string::npos);
    EXPECT_EQ(rank->others[0].worker, static_cast<int>(i));
  }
  config.integers = true;
  expect_embedded_switch(agree_altered(2, config, other_hello("host", "another host")));
}

TEST(AgreementOnMemory, RanksOnSeveralHostsCannotBeToldToShare) {
  const Status status = common_failure(agree_altered(2, memory_config("shm"), other_hello("host", "another host")));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "SWITCHML_TRANSPORT=\"shm\"")) << status.message();
  EXPECT_TRUE(contains(status, "rank 1 is on another host")) << status.message();
  EXPECT_TRUE(contains(status, "use auto or udp")) << status.message();
}

/// What a rank reads of rank 0's offer so that it cannot fetch it, and what it says then.
struct Unfetchable {
  const char* key;
  const char* value;
  const char* why;
};
const Unfetchable kUnfetchable[] = {
    {"memory_key", "1", "refuses to share memory"},
    {"memory_key", "none", "another size than this rank expects"},
    {"memory_bytes", "4096", "another size than this rank expects"},
    {"memory", "switchml-nobody", "cannot be asked for memory"},
};

TEST(AgreementOnMemory, WhereOneRankCannotAllUseASwitch) {
  for (const Unfetchable& c : kUnfetchable) {
    for (const int reader : {1, 2}) {
      SCOPED_TRACE(c.key + std::string("=") + c.value);
      expect_embedded_switch(agree_altered(3, memory_config("auto"), {reader, rank_key("switch", 0), [&c](Blob* offer) {
                                                                        offer->set(c.key, c.value);
                                                                      }}));
    }
  }
}

TEST(AgreementOnMemory, WhereOneRankCannotButMustAllSayWhich) {
  for (const Unfetchable& c : kUnfetchable) {
    const Status status = common_failure(agree_altered(
        3, memory_config("shm"), {2, rank_key("switch", 0), [&c](Blob* offer) { offer->set(c.key, c.value); }}));
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_TRUE(contains(status, "rank 2: ")) << status.message();
    EXPECT_TRUE(contains(status, c.why)) << status.message();
  }
}

TEST(AgreementOnMemory, RanksMustWantTheSame) {
  const char* const transports[] = {"auto", "shm", "udp"};
  for (const std::string zero : transports) {
    for (const std::string one : transports) {
      if (zero == one) continue;
      MapStore store;
      const Status status = common_failure(agree_all(
          2, [&](int rank) { return memory_config(rank == 0 ? zero : one); }, store));
      EXPECT_EQ(status.code(), Code::kMismatch);
      EXPECT_TRUE(contains(status, "rank 1 has SWITCHML_TRANSPORT \"" + one + "\" but rank 0 has \"" + zero + "\""))
          << status.message();
    }
  }
}

// Rank 0 does not hear that rank 1 could not fetch it.
TEST(AgreementOnMemory, ARankThatHasNoneDoesNotGoOnWithIt) {
  MapStore store;
  const Outcome outcome = agree_each(2, {}, [&](int rank) {
    const std::string key = rank == 0 ? rank_key("memory", 1) : rank_key("switch", 0);
    AlteredStore altered(store, key,
                         [rank](Blob* blob) { rank == 0 ? blob->set("why", "") : blob->set("memory_key", "1"); });
    return agree(memory_config("auto"), {rank, 2, "group g"}, altered, monotonic_now() + seconds(20));
  });
  const auto& one = outcome.ranks[1];
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.status().code(), Code::kMismatch);
  EXPECT_TRUE(contains(one.status(), "this one has none")) << one.status().message();
}

// Rank 0 has made its offer and ends, with or without somebody who still hands the memory out.
TEST(AgreementOnMemory, ARankZeroThatDiesOverItIsNamedByTheDeadline) {
  for (const bool hands_out : {true, false}) {
    MapStore store;
    Blob blob;
    auto offer = offer_memory(shm::shape_for(3), &blob);
    ASSERT_TRUE(offer.ok()) << offer.status().to_string();
    if (!hands_out) offer->handout.reset();
    ASSERT_TRUE(store.set(rank_key("switch", 0), blob.encode()).ok());
    const Time begin = monotonic_now();
    const auto outcome = agree_all(
        3, [](int) { return memory_config("auto"); }, store, {0}, nullptr, milliseconds(500));
    EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
    ASSERT_EQ(outcome.ranks.size(), 2U);
    for (const auto& rank : outcome.ranks) {
      ASSERT_FALSE(rank.ok());
      EXPECT_EQ(rank.status().code(), Code::kTimeout);
      EXPECT_TRUE(contains(rank.status(), "rank 0 of group g did not say whether all ranks share memory"))
          << rank.status().message();
    }
  }
}

// The hello of a rank that then dies.
TEST(AgreementOnMemory, ARankThatDiesOverItIsNamedOnAll) {
  MapStore scratch;
  agree_all(
      2, [](int) { return memory_config("auto"); }, scratch, {0}, nullptr, milliseconds(100));
  const std::string hello = scratch.get(rank_key("hello", 1), monotonic_now()).value();
  MapStore store;
  Blob blob = Blob::parse(hello).value();
  blob.set("size", uint64_t{3});
  ASSERT_TRUE(store.set(rank_key("hello", 1), blob.encode()).ok());
  const Time begin = monotonic_now();
  const Status status = common_failure(agree_all(
      3, [](int) { return memory_config("auto"); }, store, {1}, nullptr, seconds(5)));
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_TRUE(contains(status, "rank 1 of group g did not come")) << status.message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
}

}  // namespace
}  // namespace switchml
