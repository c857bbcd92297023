#include "c10d/process_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/interruption.h"
#include "fixture.h"
#include "socket/address.h"
#include "switchd/server.h"

namespace switchml {

// There is no interpreter in this executable.
void without_interpreter_lock(const std::function<void()>& f) { f(); }

namespace {

using Group = ProcessGroupSwitchML;

/// All-reduces a tensor of ones on every rank; their sum has to be the number of ranks.
void expect_sums(const Cluster& cluster) {
  cluster.on_each([&](int, Group& group) {
    TensorList tensors{at::ones({100})};
    group.allreduce(tensors)->wait();
    EXPECT_TRUE(same(tensors[0], at::full({100}, static_cast<float>(cluster.size()))));
  });
}

bool comes_true(const std::function<bool()>& condition) {
  const Time end = monotonic_now() + seconds(60);
  while (!condition() && monotonic_now() < end) std::this_thread::sleep_for(milliseconds(1));
  return condition();
}

/// What waiting for an all-reduce of this rank throws.
std::string failure_of_all_reduce(Group& group) {
  return thrown_by([&] {
    TensorList tensors{at::ones({10})};
    group.allreduce(tensors)->wait();
  });
}

std::string failure_of_exchange(Group& group) {
  return thrown_by([&] {
    at::Tensor given = at::ones({10}), taken = at::zeros({10});
    std::vector<int64_t> none;
    group.alltoall_base(taken, given, none, none)->wait();
  });
}

// ---- creation ----

TEST(ProcessGroup, RefusesARankOutsideTheGroup) {
  const Cluster none(0);
  for (const auto& [rank, size] : {std::pair{2, 2}, std::pair{-1, 1}, std::pair{0, 0}}) {
    const std::string text = value_error_of([&, r = rank, n = size] { Group::create(none.settings(r, n)); });
    EXPECT_TRUE(
        contains(text, "rank " + std::to_string(rank) + " of " + std::to_string(size) + "; allowed: 0 <= rank < size"));
  }
}

TEST(ProcessGroup, FailsToStartWithoutTheOthersAndNamesThem) {
  const Cluster none(0);
  Group::Settings alone = none.settings(0, 2);
  alone.timeout = milliseconds(200);
  const Time start = monotonic_now();
  const std::string text = thrown_by([&] { Group::create(alone); });
  EXPECT_LT(monotonic_now() - start, seconds(10));
  EXPECT_TRUE(contains(text, "switchml: rank 0 of 2 (group test) could not start"));
  EXPECT_TRUE(contains(text, "rank 1"));
}

/// A store that nobody can reach.
class UnreachableStore final : public c10d::HashStore {
 public:
  int64_t add(const std::string&, int64_t) override { throw std::runtime_error("connection refused"); }
};

TEST(ProcessGroup, FailsToStartWithoutItsStore) {
  const Cluster none(0);
  Group::Settings lost = none.settings(0, 2);
  lost.store = c10::make_intrusive<UnreachableStore>();
  const std::string text = thrown_by([&] { Group::create(lost); });
  EXPECT_TRUE(contains(text, "could not start"));
  EXPECT_TRUE(contains(text, "connection refused"));
}

TEST(ProcessGroup, KnowsItsNameAndPlace) {
  const Cluster cluster(2);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(cluster[rank].getBackendName(), "switchml");
    EXPECT_EQ(cluster[rank].getRank(), rank);
    EXPECT_EQ(cluster[rank].getSize(), 2);
    EXPECT_EQ(cluster[rank].group().name, "test");
    EXPECT_TRUE(cluster[rank].supportsSplitting());
  }
}

TEST(ProcessGroup, OpensAgainOnTheSameStore) {
  Cluster first(2);
  expect_sums(first);
  first.drop();
  const Cluster second(2, [&](Group::Settings& settings) { settings.store = first.store; });
  expect_sums(second);
}

// ---- interruptions ----

thread_local bool interrupted_here = false;

/// While it lives, waits of this thread are interrupted.
struct Interrupted {
  Interrupted() {
    interrupted_here = true;
    set_interruption_check([] {
      if (interrupted_here) throw std::runtime_error("Ctrl-C");
    });
  }
  ~Interrupted() { interrupted_here = false; }
};

TEST(ProcessGroup, AnInterruptedWaitEndsTheGroupOnAllRanks) {
  using Wait = std::function<void(Group&)>;
  const std::map<std::string, Wait> waits = {
      {"all_reduce",
       [](Group& group) {
         TensorList t{at::ones({10})};
         group.allreduce(t)->wait();
       }},
      {"broadcast",
       [](Group& group) {
         TensorList t{at::ones({10})};
         group.broadcast(t)->wait();
       }},
      {"barrier", [](Group& group) { group.barrier()->wait(); }},
  };
  for (const auto& [name, wait] : waits) {
    const Cluster cluster(2);
    {
      const Interrupted here;
      EXPECT_EQ(thrown_by([&, &call = wait] { call(cluster[0]); }), "Ctrl-C") << name;
    }
    for (int rank = 0; rank < 2; ++rank) {
      std::string text;  // until rank 1 has heard of it, its call may have all that it needs
      while (text.empty()) text = thrown_by([&, &call = wait] { call(cluster[rank]); });
      EXPECT_TRUE(contains(text, "rank 0 (")) << name;
      EXPECT_TRUE(contains(text, "gave up: a signal ended its wait for " + name));
    }
  }
}

TEST(ProcessGroup, AnInterruptedMonitoredBarrierEndsTheGroup) {
  const Cluster cluster(2);
  {
    const Interrupted here;
    EXPECT_EQ(thrown_by([&] { cluster[0].monitoredBarrier({}); }), "Ctrl-C");
  }
  EXPECT_TRUE(contains(thrown_by([&] { cluster[1].monitoredBarrier({}); }), "a signal ended the wait of rank 0"));
  EXPECT_TRUE(contains(failure_of_all_reduce(cluster[1]), "gave up: a signal ended its wait for monitored_barrier"));
}

TEST(ProcessGroup, AnInterruptedOpeningFailsOnAllRanks) {
  const Cluster none(0);
  on_each_rank(2, [&](int rank) {
    const auto create = [&] { Group::create(none.settings(rank, 3)); };
    if (rank == 0) {
      const Interrupted here;
      EXPECT_EQ(thrown_by(create), "Ctrl-C");
    } else {
      EXPECT_TRUE(contains(thrown_by(create), "rank 0: its process ended the wait: Ctrl-C"));
    }
  });
}

// ---- sequence numbers, timeouts ----

TEST(ProcessGroup, CountsCollectivesButNotMessages) {
  const Cluster cluster(2);
  expect_sums(cluster);
  cluster.on_each([](int rank, Group& group) {
    EXPECT_EQ(group.getSequenceNumberForGroup(), 1U);
    EXPECT_EQ(failure_of_exchange(group), "");
    group.monitoredBarrier({});
    EXPECT_EQ(group.getSequenceNumberForGroup(), 3U);
    TensorList message{at::ones({1})};
    (rank == 0 ? group.send(message, 1, 0) : group.recv(message, 0, 0))->wait();
    EXPECT_EQ(group.getSequenceNumberForGroup(), 3U);
    group.setSequenceNumberForGroup();
    EXPECT_EQ(group.getSequenceNumberForGroup(), 0U);
  });
}

TEST(ProcessGroup, FailsACallThatTheOthersDoNotMakeInTime) {
  const Cluster cluster(2, [](Group::Settings& settings) { settings.timeout = std::chrono::minutes(2); });
  cluster[0].setTimeout(milliseconds(250));
  EXPECT_EQ(cluster[0].getBackendOptions()->timeout, milliseconds(250));
  EXPECT_EQ(cluster[1].getBackendOptions()->timeout, std::chrono::minutes(2));
  const Time start = monotonic_now();
  EXPECT_TRUE(contains(failure_of_all_reduce(cluster[0]), "switchml all_reduce on rank 0 of 2 (group test)"));
  EXPECT_GE(monotonic_now() - start, milliseconds(240));
  EXPECT_LT(monotonic_now() - start, seconds(60));
}

TEST(ProcessGroup, CopiesItsOptions) {
  const Group::Options options(milliseconds(250));
  const auto copy = options.clone();
  EXPECT_NE(dynamic_cast<const Group::Options*>(copy.get()), nullptr);
  EXPECT_EQ(copy->timeout, milliseconds(250));
  EXPECT_EQ(copy->backend, "switchml");
}

// ---- what ended it, how long calls took ----

TEST(ProcessGroup, TellsOfATimeout) {
  const Cluster cluster(2);
  expect_sums(cluster);
  EXPECT_EQ(cluster[0].getError(), compat::ErrorType::SUCCESS);
  cluster[0].setTimeout(milliseconds(100));
  EXPECT_NE(failure_of_all_reduce(cluster[0]), "");
  EXPECT_EQ(cluster[0].getError(), compat::ErrorType::TIMEOUT);
  cluster[0].shutdown();
  EXPECT_EQ(cluster[0].getError(), compat::ErrorType::TIMEOUT);
}

TEST(ProcessGroup, TellsOfARankThatGaveUp) {
  const Cluster cluster(2);
  {
    const Interrupted here;
    EXPECT_EQ(failure_of_all_reduce(cluster[0]), "Ctrl-C");
  }
  while (failure_of_all_reduce(cluster[1]).empty()) continue;  // until it has heard of it
  EXPECT_EQ(cluster[1].getError(), compat::ErrorType::REMOTE_ERROR);
}

TEST(ProcessGroup, TellsOfItsEnd) {
  const Cluster cluster(2);
  cluster[0].abort();
  EXPECT_EQ(cluster[0].getError(), compat::ErrorType::COMM_ERROR);
  cluster[1].shutdown();
  EXPECT_EQ(cluster[1].getError(), compat::ErrorType::COMM_ERROR);
}

TEST(ProcessGroup, TimesCallsOnceItIsTold) {
  const Cluster cluster(2);
  cluster.on_each([](int, Group& group) {
    const auto durations = [&] {
      TensorList reduced{at::ones({10})};
      TensorList sent{at::ones({10})};
      std::string told;
      for (const auto& work : {group.allreduce(reduced), group.broadcast(sent), group.barrier()}) {
        work->wait();
        auto& ours = dynamic_cast<SwitchWork&>(*work);
        told += thrown_by([&] { EXPECT_GT(ours.getDuration(), 0.F); }).empty() ? "timed " : "not ";
      }
      return told;
    };
    EXPECT_EQ(durations(), "not not not ");
    group.enableCollectivesTiming();
    EXPECT_EQ(durations(), "timed timed timed ");
  });
}

TEST(ProcessGroup, PrefersTheTimeoutOfTheCall) {
  const Cluster cluster(2);
  TensorList tensors{at::ones({10})};
  c10d::AllreduceOptions options;
  options.timeout = milliseconds(100);
  const Time start = monotonic_now();
  EXPECT_NE(thrown_by([&] { cluster[0].allreduce(tensors, options)->wait(); }), "");
  EXPECT_GE(monotonic_now() - start, milliseconds(90));
  EXPECT_LT(monotonic_now() - start, seconds(10));
}

// ---- abort, shutdown ----

TEST(ProcessGroup, AbortFailsWhatIsUnderWay) {
  const Cluster cluster(2);
  TensorList tensors{at::ones({10})};
  const auto work = cluster[0].allreduce(tensors);
  EXPECT_FALSE(work->isCompleted());
  cluster[0].abort();
  EXPECT_TRUE(contains(thrown_by([&] { work->wait(); }), "the process group was aborted"));
  EXPECT_TRUE(contains(failure_of_all_reduce(cluster[0]), "the process group was aborted")) << "a later call";
}

TEST(ProcessGroup, AbortEndsAMonitoredBarrier) {
  const Cluster cluster(2);
  std::thread aborter([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cluster[0].abort();
  });
  EXPECT_TRUE(contains(thrown_by([&] { cluster[0].monitoredBarrier({}); }), "the process group was aborted"));
  aborter.join();
}

TEST(ProcessGroup, EveryCallFailsAfterShutdown) {
  const Cluster cluster(2);
  expect_sums(cluster);
  cluster.shutdown();
  cluster.shutdown();
  const std::string reason = "the process group was shut down";
  EXPECT_TRUE(contains(failure_of_all_reduce(cluster[0]), reason));
  EXPECT_TRUE(contains(failure_of_exchange(cluster[0]), reason));
  EXPECT_TRUE(contains(thrown_by([&] { cluster[0].barrier()->wait(); }), reason));
  EXPECT_TRUE(contains(thrown_by([&] { cluster[0].monitoredBarrier({}); }), reason));
}

TEST(ProcessGroup, ShutdownOfOneFailsItsCalls) {
  const Cluster cluster(2);
  TensorList tensors{at::ones({10})};
  const auto work = cluster[1].allreduce(tensors);
  cluster[1].shutdown();
  EXPECT_TRUE(contains(thrown_by([&] { work->wait(); }), "the process group was shut down"));
}

/// Completes an all-reduce whose callback on rank 0 runs `callback` while `beside` runs on another thread of rank 0,
/// from the moment on when the callback has begun.
void with_callback(const Cluster& cluster, const std::function<void()>& callback, const std::function<void()>& beside) {
  std::promise<void> begun;
  std::vector<TensorList> tensors{{at::ones({10})}, {at::ones({10})}};
  const auto work = cluster[0].allreduce(tensors[0]);
  work->getFuture()->addCallback([&](c10::ivalue::Future&) {
    begun.set_value();
    callback();
  });
  cluster[1].allreduce(tensors[1])->wait();
  begun.get_future().wait();
  beside();
}

TEST(ProcessGroup, ShutdownInACallbackWaitsForNoneThatWaitsForTheCallback) {
  const Cluster cluster(2);
  const auto shut_down = [&] { cluster[0].shutdown(); };
  const auto when_it_is_under_way = [&] {
    while (!contains(failure_of_all_reduce(cluster[0]), "shut down")) std::this_thread::yield();
    shut_down();
  };
  with_callback(cluster, when_it_is_under_way, shut_down);
}

TEST(ProcessGroup, ShutdownWaitsForThatOfACallback) {
  const Cluster cluster(2);
  std::atomic<bool> ended{false};
  const auto shut_down = [&] {
    cluster[0].shutdown();
    ended = true;
  };
  const auto when_it_is_under_way = [&] {
    while (!contains(failure_of_all_reduce(cluster[0]), "shut down")) std::this_thread::yield();
    cluster[0].shutdown();
    EXPECT_TRUE(comes_true([&] { return ended.load(); }));
  };
  with_callback(cluster, shut_down, when_it_is_under_way);
}

TEST(ProcessGroup, ShutdownLetsTheLastCallsEnd) {
  const Cluster cluster(2);
  std::vector<c10::intrusive_ptr<c10d::Work>> works(2);
  std::vector<TensorList> tensors{{at::ones({200000})}, {at::ones({200000})}};
  cluster.on_each([&](int rank, Group& group) {
    const auto mine = static_cast<size_t>(rank);
    works[mine] = group.allreduce(tensors[mine]);
    group.shutdown();
    works[mine]->wait();
    EXPECT_TRUE(same(tensors[mine][0], at::full({200000}, 2.F)));
  });
}

TEST(ProcessGroup, ShutdownAllEndsEveryGroup) {
  const Cluster one(1);
  const Cluster other(1);
  Group::shutdown_all();
  EXPECT_TRUE(contains(failure_of_all_reduce(one[0]), "shut down"));
  EXPECT_TRUE(contains(failure_of_all_reduce(other[0]), "shut down"));
}

TEST(ProcessGroup, WorksOnWithoutTheInterpreter) {
  std::atomic<int> hooks{0};
  const Cluster cluster(2);
  expect_sums(cluster);
  cluster[0].registerAbortHook(1, [&] { ++hooks; });
  Group::outlive_interpreter();
  expect_sums(cluster);
  cluster[0].abort();
  EXPECT_EQ(hooks.load(), 0) << "a hook may be of Python";
}

TEST(ProcessGroup, EndsWithTheInterpreterThatItNeeds) {
  const Cluster cluster(1, [](Cluster::Settings& settings) { settings.needs_interpreter = true; });
  Group::outlive_interpreter();
  EXPECT_TRUE(contains(failure_of_all_reduce(cluster[0]), "shut down"));
}

TEST(ProcessGroup, GoesWithItsLastReference) {
  Cluster cluster(2);
  expect_sums(cluster);
  std::vector<c10::weak_intrusive_ptr<Group>> weak;
  for (int rank = 0; rank < 2; ++rank) {
    weak.emplace_back(c10::intrusive_ptr<Group>::reclaim_copy(&cluster[rank]));
  }
  cluster.drop();
  for (const auto& group : weak) EXPECT_TRUE(group.expired());
}

// ---- split ----

TEST(ProcessGroup, SplitsIntoAGroupOfSomeRanks) {
  const Cluster cluster(3);
  const auto part = c10::make_intrusive<c10d::PrefixStore>("part", cluster.store);
  const auto options = c10::make_intrusive<Group::Options>(milliseconds(7000));
  cluster.on_each([&](int rank, Group& group) {
    const auto split = group.split(part, {2, 0}, options);
    EXPECT_EQ(split.get() == nullptr, rank == 1);
    if (!split) return;
    auto& mine = dynamic_cast<Group&>(*split);
    EXPECT_EQ(mine.getRank(), rank == 2 ? 0 : 1);
    EXPECT_EQ(mine.getSize(), 2);
    EXPECT_EQ(mine.group().name, "test:split_2_0");
    EXPECT_EQ(mine.getBackendOptions()->timeout, milliseconds(7000));
    TensorList tensors{at::full({4}, static_cast<float>(rank + 1))};
    mine.allreduce(tensors)->wait();
    EXPECT_TRUE(same(tensors[0], at::full({4}, 4.F)));
  });
  expect_sums(cluster);
}

TEST(ProcessGroup, SplitKeepsTheTimeoutWithoutOptions) {
  const Cluster cluster(1, [](Group::Settings& settings) { settings.timeout = milliseconds(4000); });
  const auto store = c10::make_intrusive<c10d::PrefixStore>("part", cluster.store);
  const auto split = cluster[0].split(store, {0}, {});
  EXPECT_EQ(dynamic_cast<Group&>(*split).getBackendOptions()->timeout, milliseconds(4000));
}

// ---- the monitored barrier ----

TEST(ProcessGroup, MonitoredBarrierPassesWhenAllCome) {
  const Cluster cluster(3);
  cluster.on_each([](int, Group& group) { group.monitoredBarrier({}); });
  EXPECT_EQ(cluster.count(2, Call::kMonitoredBarrier, Way::kStore), 1U);
}

TEST(ProcessGroup, MonitoredBarrierNamesWhoIsMissing) {
  const Cluster cluster(3);
  c10d::BarrierOptions options;
  options.timeout = milliseconds(150);
  const std::string text = thrown_by([&] { cluster[0].monitoredBarrier(options, true); });
  EXPECT_TRUE(contains(text, "switchml monitored_barrier on rank 0 of 3"));
  EXPECT_TRUE(contains(text, "1"));
  EXPECT_TRUE(contains(text, "2"));
}

TEST(ProcessGroup, MonitoredBarrierOfOneIsLocal) {
  const Cluster cluster(1);
  cluster[0].monitoredBarrier({});
  EXPECT_EQ(cluster.count(0, Call::kMonitoredBarrier, Way::kLocal), 1U);
}

// ---- statistics ----

std::set<std::string> names(const std::map<std::string, uint64_t>& counters) {
  std::set<std::string> result;
  for (const auto& [name, unused] : counters) result.insert(name);
  return result;
}

TEST(ProcessGroup, ReportsItsSessionAndWhatTheSwitchSummed) {
  const Cluster cluster(2);
  expect_sums(cluster);
  const Statistics host = cluster[0].statistics();
  const Statistics guest = cluster[1].statistics();
  for (const Statistics* statistics : {&host, &guest}) {
    EXPECT_EQ(statistics->worker.at("elements_summed_by_switch"), 100U);
    EXPECT_GT(statistics->worker.at("packets_sent"), 0U);
    EXPECT_GT(statistics->payload_bytes, 0U);
    EXPECT_GT(statistics->slots, 0);
    EXPECT_EQ(statistics->shards, 1);
    EXPECT_GT(statistics->memory_bytes, 0U);
    EXPECT_NE(statistics->kernels, "");
  }
  EXPECT_NE(host.switch_address, "");
  EXPECT_EQ(host.switch_address, guest.switch_address);
  EXPECT_GT(host.embedded.at("memory_bytes"), 0U);
  EXPECT_TRUE(guest.embedded.empty()) << "rank 0 hosts the switch";
}

TEST(ProcessGroup, KeepsTheLastStatisticsAfterShutdown) {
  const Cluster cluster(2);
  expect_sums(cluster);
  const Statistics before = cluster[1].statistics();
  cluster.shutdown();
  const Statistics after = cluster[1].statistics();
  EXPECT_EQ(after.worker.at("elements_summed_by_switch"), before.worker.at("elements_summed_by_switch"));
  EXPECT_EQ(after.switch_address, before.switch_address);
  EXPECT_EQ(after.memory_bytes, before.memory_bytes);
  EXPECT_EQ(names(after.worker), names(before.worker));
}

TEST(ProcessGroup, HasTheSameCountersAlone) {
  const Cluster pair(2);
  const Cluster alone(1);
  expect_sums(alone);
  const Statistics statistics = alone[0].statistics();
  EXPECT_EQ(names(statistics.worker), names(pair[0].statistics().worker));
  for (const auto& [name, value] : statistics.worker) EXPECT_EQ(value, 0U) << name;
  EXPECT_EQ(statistics.switch_address, "");
  EXPECT_EQ(alone.count(0, Call::kAllReduce, Way::kLocal), 1U);
}

TEST(ProcessGroup, TellsHowFloatsAreSummed) {
  const auto precision = [](int size, const std::string& transport, bool integers) {
    const Cluster cluster(size, [&](Group::Settings& settings) {
      settings.config.transport = transport;
      if (integers) settings.config.precision = Precision::kInteger;
    });
    expect_sums(cluster);
    return cluster[0].statistics().precision;
  };
  EXPECT_EQ(precision(2, "shm", false), "exact");
  EXPECT_EQ(precision(2, "udp", false), "exact");
  EXPECT_EQ(precision(2, "udp", true), "integer");
  EXPECT_EQ(precision(2, "auto", true), "integer");
  EXPECT_EQ(precision(1, "auto", false), "");
}

TEST(ProcessGroup, TellsAHookOfTheCallsThatHaveSucceeded) {
  const Cluster cluster(2);
  cluster.on_each([](int, Group& group) {
    EXPECT_TRUE(group.supportsAbortHooks() && group.supportsCompletionHooks() && group.isInitialized());
    std::promise<uint64_t> over;
    group.registerCompletionHook(3,
                                 [&](const compat::CompletionHookArgs& args) { over.set_value(args.completionKey); });
    TensorList tensors{at::ones({5})};
    const auto work = group.allreduce(tensors);
    std::future<uint64_t> key = over.get_future();
    ASSERT_EQ(key.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(key.get(), compat::completion_key(*work));
    group.unregisterCompletionHook(3);
    group.allreduce(tensors)->wait();
  });
}

TEST(ProcessGroup, DoesNotCountFencesAsUsersElements) {
  for (const bool integers : {false, true}) {
    const Cluster cluster(2, [&](Group::Settings& settings) {
      if (integers) settings.config.precision = Precision::kInteger;
    });
    cluster.on_each([](int, Group& group) {
      TensorList tensors{at::ones({5})};
      group.broadcast(tensors)->wait();
    });
    EXPECT_EQ(cluster[0].statistics().worker.at("elements_summed_by_switch"), 0U);
    EXPECT_EQ(cluster.count(0, Call::kBroadcast, Way::kSwitch), 1U);
  }
}

}  // namespace
}  // namespace switchml
