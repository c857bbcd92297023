// Sessions over RDMA, by cards that are not there (tests/rdma).
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <string>
#include <utility>

#include "agree_each.h"
#include "base/log.h"
#ifdef SWITCHML_FAKE_VERBS
#include "fake_library.h"

namespace switchml {
namespace {

Config over_rdma() { return config_over("rdma"); }

TEST(SessionOverRdma, AddsThroughASwitchInRankZero) {  // [RDMA-1]
  const fake_verbs::Library library;
  add_on_hosts("aaa", over_rdma(), "rdma");
  EXPECT_GT(library.count().bytes, 2U * 3 * 3000000 * sizeof(float)) << "there and back";
}

TEST(SessionOverRdma, AddsThroughEachHost) {
  const fake_verbs::Library library;
  add_on_hosts("abc", over_rdma(), "rdma");
  add_on_hosts("aabbb", over_rdma(), "shm+rdma");
}

// No copy on either way: all that is sent comes from tensors, and all results are written there.
TEST(SessionOverRdma, TensorsOfItsArenaAreSentAndReceivedInPlace) {  // [RDMA-6, RDMA-7]
  const fake_verbs::Library library;
  Config config = over_rdma();
  config.encryption = Encryption::kOff;  // No card encrypts what it reads and writes there.
  config.arena_mib = 64;
  constexpr size_t kCount = 1 << 20;
  for (const std::string hosts : {"ab", "abc"}) {
    MapStore store;
    const fake_verbs::Counts before = library.count();
    const int size = static_cast<int>(hosts.size());
    each_rank(size, [&](int rank) {
      PlacedStore placed(store, rank, hosts[static_cast<size_t>(rank)]);
      auto session = Session::open(config, {rank, size, "group t"}, placed, monotonic_now() + seconds(60));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      const auto arena = session.value()->arena();
      ASSERT_NE(arena, nullptr);
      auto* const tensor = static_cast<float*>(arena->allocate(kCount * sizeof(float)));
      ASSERT_NE(tensor, nullptr);
      for (size_t i = 0; i < kCount; ++i) tensor[i] = static_cast<float>(i % 1000 + static_cast<size_t>(rank));
      Collective sum;
      sum.title = "all_reduce";
      sum.count = sum.operands()->output.end = kCount;
      sum.operands()->input = sum.operands()->output.data = tensor;
      const Status status = submit(*session.value(), std::move(sum), seconds(60)).get();
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(tensor[i], static_cast<float>(size * static_cast<int>(i % 1000) + size * (size - 1) / 2)) << i;
      }
      arena->release(tensor);
    });
    const fake_verbs::Counts after = library.count();
    const uint64_t all = static_cast<uint64_t>(size) * kCount * sizeof(float);
    EXPECT_EQ(after.bytes_from_tensors - before.bytes_from_tensors, all) << hosts;
    EXPECT_EQ(after.bytes_to_tensors - before.bytes_to_tensors, all) << hosts;
  }
}

// ---- chosen ----

fake_verbs::Behaviour real() {
  fake_verbs::Behaviour behaviour;
  behaviour.emulated = false;
  return behaviour;
}

TEST(RdmaIsChosen, WhereEveryHostHasACard) {  // [RATE-9]
  const fake_verbs::Library library(real());
  expect_carrier(agree_on_paths("ab", over_rdma(), false), Carrier::kRdma);
  expect_carrier(agree_on_paths("abc", over_rdma(), true), Carrier::kRdma);
}

TEST(RdmaIsChosen, OfASwitchThatIsNamed) {
  const fake_verbs::Library library(real());
  ServerOptions options;
  options.listen = literal_address("127.0.0.1", 0).value();
  options.card = ServerOptions::CardUse::kMust;
  const auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  Config config = over_rdma();
  config.switch_address = to_string(server.value()->local());
  expect_carrier(agree_on_paths("aa", config, true), Carrier::kRdma);
  EXPECT_EQ(server.value()->counters().sessions_opened.get(), 2U);
  EXPECT_EQ(server.value()->counters().sessions_closed.get(), 1U);
}

TEST(RdmaIsChosen, NotOfASwitchThatOffersNoneAndThatIsSaid) {
  const fake_verbs::Library library(real());
  ServerOptions options;
  options.listen = literal_address("127.0.0.1", 0).value();
  const auto server = SwitchServer::start(options);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  Config config = over_rdma();
  config.switch_address = to_string(server.value()->local());
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  expect_carrier(agree_on_paths("aa", config, false), Carrier::kPackets);
  const std::string log = ::testing::internal::GetCapturedStderr();
  set_log_level(LogLevel::kWarning);
  EXPECT_NE(log.find("no RDMA: switch " + config.switch_address + " does not offer it"), std::string::npos) << log;
}

TEST(RdmaIsChosen, NotByCardsOfSoftwareUnlessTheyAreNamed) {
  const fake_verbs::Library library;
  expect_carrier(agree_on_paths("ab", over_rdma(), false), Carrier::kPackets);
  Config named = over_rdma();
  named.rdma_device = "fake0";
  expect_carrier(agree_on_paths("ab", named, false), Carrier::kRdma);
}

TEST(RdmaIsChosen, NotForIntegersOrFaults) {
  const fake_verbs::Library library(real());
  Config integers = over_rdma();
  integers.precision = Precision::kInteger;
  for (const auto& rank : agree_on_paths("ab", integers, false).ranks) {
    ASSERT_TRUE(rank.ok()) << rank.status().to_string();
    EXPECT_EQ(rank->sessions[0].switch_endpoint.carrier, Carrier::kPackets);
  }
  Config faulty = over_rdma();
  faulty.faults = "seed=1";
  expect_carrier(agree_on_paths("ab", faulty, false), Carrier::kPackets);
}

TEST(RdmaIsChosen, NotWhereCardsDoNotReachTheSwitch) {  // [RATE-10]
  fake_verbs::Behaviour behaviour = real();
  behaviour.cut_off = true;
  const fake_verbs::Library library(behaviour);
  expect_carrier(agree_on_paths("ab", over_rdma(), false), Carrier::kPackets);
  expect_carrier(agree_on_paths("ab", over_rdma(), true), Carrier::kTcp);
}

TEST(RdmaIsChosen, NotWhereAPairCannotBeConnected) {  // [RATE-10]
  const fake_verbs::Library library(real());
  library.fail_once("ibv_modify_qp", EINVAL);
  expect_carrier(agree_on_paths("ab", over_rdma(), false), Carrier::kPackets);
}

// ---- broken ----

// [RDMA-3, RDMA-4, MEET-4]
TEST(SessionOverRdma, GoesOnAfterPairsHaveBroken) {
  const fake_verbs::Library library;
  MapStore store;
  each_rank(2, [&](int rank) {
    auto session = Session::open(over_rdma(), {rank, 2, "group r"}, store, monotonic_now() + seconds(60));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    for (int call = 1; call <= 4; ++call) {
      if (rank == 1) library.break_pairs();
      std::vector<float> values(300000, static_cast<float>(call + rank));
      const Status status = all_reduce(*session.value(), &values, seconds(60));
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(values, std::vector<float>(300000, static_cast<float>(2 * call + 1)));
    }
  });
}

// Requests still pass by UDP, and are answered, while nothing passes by cards.
TEST(SessionOverRdma, OutlastsAnOutageOfFramesAlone) {
  for (const int ms : {20, 300, 700}) {
    const fake_verbs::Library library;
    MapStore store;
    each_rank(2, [&](int rank) {
      auto session = Session::open(over_rdma(), {rank, 2, "group r"}, store, monotonic_now() + seconds(60));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      for (int call = 1; call <= 3; ++call) {
        if (rank == 1 && call == 2) {
          fake_verbs::Behaviour outage;
          outage.cut_off = true;
          library.behave(outage);
          std::this_thread::sleep_for(milliseconds(ms));
          library.behave({});
        }
        std::vector<float> values(300000, static_cast<float>(call + rank));
        const Status status = all_reduce(*session.value(), &values, seconds(60));
        ASSERT_TRUE(status.ok()) << ms << " ms: " << status.to_string();
        ASSERT_EQ(values, std::vector<float>(300000, static_cast<float>(2 * call + 1)));
      }
    });
  }
}

// Nobody aborts or waits for ever.
TEST(SessionOverRdma, EndsWithAnErrorWhereTheCardIsGone) {
  for (const bool told : {true, false}) {
    const fake_verbs::Library library;
    MapStore store;
    Config config = over_rdma();
    config.failure_timeout = seconds(1);
    std::promise<void> first_is_done;
    each_rank(2, [&](int rank) {
      auto session = Session::open(config, {rank, 2, "group r"}, store, monotonic_now() + seconds(60));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      std::vector<float> values(300000, 1.0F);
      ASSERT_TRUE(all_reduce(*session.value(), &values, seconds(60)).ok());
      if (rank == 0) {
        first_is_done.set_value();
      } else {
        first_is_done.get_future().wait_for(seconds(60));
        library.behave({.gone = true});
        if (told) library.tell(IBV_EVENT_DEVICE_FATAL);
      }
      const Status status = all_reduce(*session.value(), &values, seconds(60));
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    });
    library.behave({});
  }
}

// As after a link that was down: the address comes back, and pairs can be connected again.
TEST(SessionOverRdma, OutlastsThatPairsCannotBeConnectedForAWhile) {
  const fake_verbs::Library library;
  MapStore store;
  each_rank(2, [&](int rank) {
    auto session = Session::open(over_rdma(), {rank, 2, "group r"}, store, monotonic_now() + seconds(60));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    for (int call = 1; call <= 3; ++call) {
      if (rank == 1 && call == 2) {
        library.behave({.no_connection = true});
        library.break_pairs();
        std::this_thread::sleep_for(seconds(1));
        library.behave({});
      }
      std::vector<float> values(300000, static_cast<float>(call + rank));
      const Status status = all_reduce(*session.value(), &values, seconds(60));
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(values, std::vector<float>(300000, static_cast<float>(2 * call + 1)));
    }
  });
}

}  // namespace
}  // namespace switchml
#endif
