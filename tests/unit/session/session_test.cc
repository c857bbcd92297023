#include "session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "client/switch_entry.h"
#include "fixture.h"
#include "socket/address.h"
#include "socket/sockaddr.h"
#include "watch/peer_watch.h"

namespace switchml {
namespace {

/// Returns how many packets all ranks had to repeat.
uint64_t sum_on_all_ranks(int size, const Config& config) {
  MapStore store;
  std::atomic<uint64_t> repeats{0};
  each_rank(size, [&](int rank) {
    auto session = Session::open(config, {rank, size, "group g"}, store, monotonic_now() + seconds(20));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    EXPECT_EQ(session.value()->parameters().worker, rank);
    for (int round = 1; round <= 3; ++round) {
      std::vector<float> values(100000, static_cast<float>(rank + round));
      const Status status = all_reduce(*session.value(), &values);
      ASSERT_TRUE(status.ok()) << status.to_string();
      const auto expected = static_cast<float>(size * (size - 1) / 2 + round * size);
      EXPECT_EQ(values, std::vector<float>(values.size(), expected));
    }
    for (int shard = 0; shard < config.shards; ++shard) {
      repeats += session.value()->engine().counters(shard).retransmissions.get();
    }
  });
  return repeats;
}

TEST(Session, SumsThroughAnEmbeddedSwitch) { sum_on_all_ranks(3, quick_config()); }

TEST(Session, SumsWithSeveralShards) {
  Config config = quick_config();
  config.shards = 2;
  sum_on_all_ranks(2, config);
}

TEST(Session, OneRankAloneWorks) { sum_on_all_ranks(1, quick_config()); }

TEST(Session, SumsUnderFaults) {
  Config config = quick_config(seconds(20));
  config.payload_bytes = 1024;
  config.faults = "seed=2,send_loss=0.02,receive_loss=0.02,duplicate=0.02,delay=0.02";
  EXPECT_GT(sum_on_all_ranks(2, config), 0U) << "no fault was injected";
}

TEST(Session, LeavesNothingBehindOnAStandaloneSwitch) {
  const auto server = start_switch();
  ASSERT_NE(server, nullptr);
  Config config = quick_config();
  config.switch_address = to_string(server->local());
  sum_on_all_ranks(4, config);
  const SwitchCounters counters = server->counters();
  EXPECT_EQ(counters.sessions_opened.get(), 1U);
  EXPECT_EQ(counters.sessions_closed.get(), 1U);
  EXPECT_GT(counters.uses_completed.get(), 0U);
}

/// How long the host of the switch takes to leave, while the other rank leaves 200 ms later.
Duration lingering() {
  MapStore store;
  std::promise<void> zero_leaves;
  auto left = zero_leaves.get_future();
  Duration took{};
  each_rank(2, [&](int rank) {
    auto session = Session::open(quick_config(), {rank, 2, "group g"}, store, monotonic_now() + seconds(20));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    EXPECT_EQ(session.value()->embedded() != nullptr, rank == 0);
    if (rank == 0) {
      const Time begin = monotonic_now();
      zero_leaves.set_value();
      session.value().reset();
      took = monotonic_now() - begin;
    } else {
      left.wait();
      std::this_thread::sleep_for(milliseconds(200));
    }
  });
  return took;
}

// A busy machine keeps rank 1 for longer in a try or two.
TEST(Session, TheHostOfTheSwitchLingersForTheOthersButNotForEver) {
  Duration took = kLingerTime;
  for (int tries = 0; tries < 10 && took > kLingerTime - milliseconds(100); ++tries) {
    took = lingering();
    EXPECT_GT(took, milliseconds(150)) << "rank 1 was still there";
  }
  EXPECT_LT(took, kLingerTime - milliseconds(100)) << "rank 1 had left";
}

TEST(Session, CallsAreComparedOnAllRanks) {
  for (const Config& config : {quick_config(), preset_config()}) {
    MapStore store;
    each_rank(3, [&](int rank) {
      auto session = Session::open(config, {rank, 3, "group g"}, store, monotonic_now() + seconds(20));
      ASSERT_TRUE(session.ok()) << session.status().to_string();
      EXPECT_EQ(session.value()->compare_calls(rank == 2 ? "barrier" : "all_reduce(SUM, float32, 100 elements)"),
                "ranks 0, 1 called all_reduce(SUM, float32, 100 elements); rank 2 called barrier");
    });
  }
}

TEST(Session, ASilentRankIsNamedAndNotWaitedFor) {
  MapStore store;
  std::promise<void> compared;
  auto may_end = compared.get_future();
  each_rank(2, [&](int rank) {
    auto session = Session::open(quick_config(), {rank, 2, "group g"}, store, monotonic_now() + seconds(20));
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    if (rank == 1) return may_end.wait();
    const Time begin = monotonic_now();
    EXPECT_EQ(session.value()->compare_calls("barrier"), "rank 0 called barrier; rank 1 did not say");
    EXPECT_LT(to_seconds(monotonic_now() - begin), 60.0);
    compared.set_value();
  });
}

TEST(Session, ImpossibleGroupsAreRefusedAtOnce) {
  MapStore store;
  for (const GroupInfo& group :
       {GroupInfo{2, 2, "g"}, GroupInfo{-1, 2, "g"}, GroupInfo{0, 0, "g"}, GroupInfo{1000, 1025, "g"}}) {
    auto session = Session::open(quick_config(), group, store, monotonic_now() + seconds(20));
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(session.status().code(), Code::kInvalidArgument);
    EXPECT_NE(session.status().message().find(std::to_string(group.size)), std::string::npos);
  }
}

TEST(Session, TheCallersDeadlineCounts) {
  MapStore store;
  const Time begin = monotonic_now();
  auto session = Session::open(quick_config(seconds(30)), {0, 2, "group g"}, store, begin + milliseconds(300));
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.status().code(), Code::kTimeout);
  EXPECT_NE(session.status().message().find("rank 1 of group g"), std::string::npos) << session.status().message();
  EXPECT_LT(to_seconds(monotonic_now() - begin), 15.0);
}

// ---- ranks that die while a group opens ----

/// What ranks know of the one that dies, whose thread ends after theirs: as with a process, nothing of it is undone.
struct Death {
  std::atomic<bool> is_dead{false};
  std::atomic<int> living{0};
};

/// The store of a rank whose process ends in place of its nth word.
class DeadlyStore : public Rendezvous {
 public:
  struct End : std::runtime_error {
    End() : std::runtime_error("killed") {}
  };
  DeadlyStore(Rendezvous& below, int word, Death& death) : below_(below), left_(word), death_(death) {}
  Status set(const std::string& key, const std::string& value) override {
    if (--left_ == 0) {
      death_.is_dead = true;
      while (death_.living > 0) std::this_thread::sleep_for(milliseconds(1));
    }
    return alive().set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override { return alive().get(key, deadline); }

 private:
  Rendezvous& alive() const {
    if (left_ <= 0) throw End();
    return below_;
  }
  Rendezvous& below_;
  int left_;
  Death& death_;
};

/// Whether it had so many words to say; if so, no other rank waits for the rest, which something else than this group
/// knows not to come.
bool dies_with_its_word(int word, int victim, const std::string& hosts, const Config& config) {
  MapStore store;
  Death death;
  const int size = static_cast<int>(hosts.size());
  death.living = size - 1;
  const Status gone(Code::kUnavailable, "rank " + std::to_string(victim) + " is gone");
  const auto ended = [&] { return death.is_dead ? gone : Status(); };
  each_rank(size, [&](int rank) {
    PlacedStore placed(store, rank, hosts[static_cast<size_t>(rank)]);
    const GroupInfo group{rank, size, "group g"};
    if (rank == victim) {
      DeadlyStore own(placed, word, death);
      try {
        EXPECT_TRUE(Session::open(config, group, own, kNever).ok());
      } catch (const DeadlyStore::End&) {
        EXPECT_TRUE(death.is_dead);
      }
      return;
    }
    const auto session = Session::open(config, group, placed, kNever, nullptr, ended);
    --death.living;
    EXPECT_EQ(session.ok(), !death.is_dead);
    EXPECT_TRUE(session.ok() || contains(session.status(), gone.message())) << session.status().message();
  });
  return death.is_dead;
}

/// The store of a rank that is interrupted when it waits for the start of all.
class InterruptedStore : public AlteredStore {
 public:
  InterruptedStore(Rendezvous& below, std::function<void(Blob*)> change, std::function<void()> before)
      : AlteredStore(below, rank_key("plan", 0), std::move(change)), before_(std::move(before)) {}
  Result<std::string> get(const std::string& key, Time deadline) override {
    if (key != rank_key("open", 0)) return AlteredStore::get(key, deadline);
    before_();
    throw std::runtime_error("Ctrl-C");
  }

 private:
  const std::function<void()> before_;
};

TEST(Session, WhoIsInterruptedWhenAllStartHasParted) {
  MapStore store;
  each_rank(2, [&](int rank) {
    if (rank == 0) {
      (void)Session::open(quick_config(), {rank, 2, "group g"}, store, kNever).ok();
      return;
    }
    InterruptedStore own(
        store, [](Blob*) {}, [] {});
    EXPECT_THROW((void)Session::open(quick_config(), {rank, 2, "group g"}, own, kNever).ok(), std::runtime_error);
  });
  EXPECT_TRUE(store.get(rank_key("parted", 1), monotonic_now()).ok());
}

// Something else knows of the death: the watch of the opening, or another group's.
TEST(Session, RankZeroOpensNoneBeforeItWouldSeeTheDeathOfEveryRank) {
  MapStore store;
  const auto silent = PeerWatch::listen(literal_address("127.0.0.1", 0).value());
  ASSERT_TRUE(silent.ok());
  std::atomic<bool> is_dead{false}, is_known{false};
  each_rank(2, [&](int rank) {
    if (rank == 0) {
      const auto ended = [&] { return is_dead ? Status(Code::kUnavailable, "rank 1 is gone") : Status(); };
      const auto session = Session::open(quick_config(), {rank, 2, "group g"}, store, kNever, nullptr, ended);
      EXPECT_TRUE(!session.ok() && contains(session.status(), "rank 1 is gone"));
      is_known = true;
      return;
    }
    const auto goes_elsewhere = [&](Blob* plan) { plan->set("watch", to_string(local_endpoint(silent->get()))); };
    InterruptedStore own(store, goes_elsewhere, [&] {
      is_dead = true;
      while (!is_known) std::this_thread::sleep_for(milliseconds(1));
    });
    EXPECT_THROW((void)Session::open(quick_config(), {rank, 2, "group g"}, own, kNever).ok(), std::runtime_error);
  });
}

TEST(Session, NobodyWaitsForARankThatIsKnownToBeDeadWhateverItSaidBefore) {
  const struct {
    std::string hosts;
    Config config;
    int least;  // words that a rank says
  } cases[] = {{"aaa", preset_config(), 3}, {"aaa", quick_config(), 4}, {"aab", preset_config(), 4}};
  each_rank(6, [&cases](int i) {  // most of the time somebody sleeps
    const auto& c = cases[i / 2];
    const int victim = i % 2 == 0 ? 0 : 2;
    int word = 1;
    while (dies_with_its_word(word, victim, c.hosts, c.config)) ++word;
    EXPECT_GT(word, c.least) << c.hosts << ", rank " << victim;
  });
}

}  // namespace
}  // namespace switchml
