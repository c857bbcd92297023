// The members of ProcessGroupSwitchML that lifecycle.cc has.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "fixture.h"

namespace switchml {
namespace {

using Group = ProcessGroupSwitchML;
using GroupPtr = c10::intrusive_ptr<compat::Base>;

float sum_on(compat::Base& group) {
  TensorList tensors{at::ones({100})};
  group.allreduce(tensors)->wait();
  return tensors[0][7].item<float>();
}

void shutdown(const GroupPtr& group) { static_cast<Group&>(*group).shutdown(); }

// ---- other groups ----

TEST(Shrink, RanksGoOnWithoutTheOthers) {
  const Cluster cluster(4);
  cluster.on_each([&](int rank, Group& group) {
    if (rank % 2 == 1) return;
    const GroupPtr rest = group.shrink({1, 3});
    EXPECT_EQ(rest->getRank(), rank / 2);
    EXPECT_EQ(rest->getSize(), 2);
    EXPECT_EQ(sum_on(*rest), 2);
    const GroupPtr again = group.shrink({3, 1});  // the same ranks meet apart from the first time
    EXPECT_EQ(sum_on(*again), 2);
    shutdown(again);
    shutdown(rest);
  });
  cluster.on_each([](int, Group& group) { EXPECT_EQ(sum_on(group), 4) << "the old group must be as it was"; });
}

TEST(Shrink, AGroupThatWasAbortedIsStillTheBeginningOfAnother) {
  const Cluster cluster(3);
  cluster.on_each([&](int rank, Group& group) {
    if (rank == 0) return;
    TensorList waits{at::ones({10})};
    const auto never = group.allreduce(waits);
    const GroupPtr rest = group.shrink({0}, 1);
    EXPECT_TRUE(contains(thrown_by([&] { never->wait(); }), "was aborted"));
    EXPECT_EQ(sum_on(*rest), 2);
    shutdown(rest);
  });
}

// ---- other ranks ----

/// reconfigure() of some ranks of a cluster at once.
void reconfigure(const Cluster& cluster, int64_t uuid, const std::vector<int>& ranks) {
  compat::ReconfigureOptions options;
  options.uuid = uuid;
  std::vector<std::string> handles;
  for (const int rank : ranks) handles.push_back(cluster[rank].get_reconfigure_handle());
  options.handles = handles;
  on_each_rank(static_cast<int>(ranks.size()), [&](int place) {
    Group& group = cluster[ranks[static_cast<size_t>(place)]];
    group.reconfigure(options)->wait();
    EXPECT_EQ(group.getRank(), place);
    EXPECT_EQ(group.getSize(), static_cast<int>(ranks.size()));
    EXPECT_EQ(sum_on(group), static_cast<float>(ranks.size()));
  });
}

TEST(Reconfigure, NeedsAPyTorchWhoseGroupsMayChange) {
  const Cluster cluster(1);
  EXPECT_EQ(cluster[0].supportsReconfigure(), compat::kReconfigures);
  if (compat::kReconfigures) GTEST_SKIP() << "this one's may";
  EXPECT_TRUE(contains(thrown_by([&] { cluster[0].reconfigure({}); }), "it needs PyTorch 2.14"));
}

TEST(Reconfigure, RanksLeaveAndComeBackInAnyOrder) {
  if (!compat::kReconfigures) GTEST_SKIP() << "needs PyTorch 2.14";
  const Cluster cluster(3);
  reconfigure(cluster, 1, {0, 2});
  reconfigure(cluster, 2, {2, 1, 0});
  reconfigure(cluster, 3, {1});
  reconfigure(cluster, 4, {0, 1, 2});
}

TEST(Reconfigure, EndsWhatIsUnderWayAndTheGroupIsWellAgain) {
  if (!compat::kReconfigures) GTEST_SKIP() << "needs PyTorch 2.14";
  const Cluster cluster(3);
  TensorList waits{at::ones({10})};
  const auto never = cluster[1].allreduce(waits);
  reconfigure(cluster, 7, {1, 2});
  EXPECT_NE(thrown_by([&] { never->wait(); }), "") << "rank 0 never made the call";
  EXPECT_EQ(cluster[1].getError(), compat::ErrorType::SUCCESS);
}

TEST(Reconfigure, AbortHooksStayAndAnAbortedGroupMayGoOn) {
  if (!compat::kReconfigures) GTEST_SKIP() << "needs PyTorch 2.14";
  const Cluster cluster(2);
  int hooks = 0;
  cluster[1].registerAbortHook(1, [&] { ++hooks; });
  reconfigure(cluster, 7, {0, 1});
  EXPECT_EQ(hooks, 0);
  cluster[1].abort();
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(cluster[1].getError(), compat::ErrorType::COMM_ERROR);
  reconfigure(cluster, 8, {1, 0});
}

TEST(Reconfigure, AGroupThatAwaitsItsRanksTakesNoCallsBefore) {
  if (!compat::kReconfigures) GTEST_SKIP() << "needs PyTorch 2.14";
  const Cluster cluster(2, [](Cluster::Settings& settings) { settings.awaits_ranks = true; });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(contains(thrown_by([&] { sum_on(cluster[rank]); }), "no ranks before its first reconfigure()"));
  }
  reconfigure(cluster, 1, {1, 0});
}

TEST(Reconfigure, RefusesWhatCannotBe) {
  if (!compat::kReconfigures) GTEST_SKIP() << "needs PyTorch 2.14";
  const Cluster cluster(2);
  compat::ReconfigureOptions options;
  options.uuid = 5;
  const auto refusal = [&](std::vector<std::string> handles) {
    options.handles = std::move(handles);
    return thrown_by([&] { cluster[0].reconfigure(options); });
  };
  const std::string mine = cluster[0].get_reconfigure_handle(), other = cluster[1].get_reconfigure_handle();
  EXPECT_TRUE(contains(refusal({other}), "the 1 handles lack this rank's"));
  EXPECT_TRUE(contains(refusal({}), "the 0 handles lack this rank's"));
  EXPECT_TRUE(contains(refusal({mine, mine}), "or have one twice"));
  cluster.on_each([](int, Group& group) { EXPECT_EQ(sum_on(group), 2) << "nothing has changed"; });
  reconfigure(cluster, 5, {0});
  EXPECT_TRUE(contains(refusal({mine}), "the uuid 5 was already used"));
  options.uuid = 6;
  options.timeout = milliseconds(300);
  EXPECT_TRUE(contains(refusal({mine, other}), "rank 1")) << "who does not come";
  EXPECT_TRUE(contains(thrown_by([&] { sum_on(cluster[0]); }), "its last reconfigure() failed"));
  reconfigure(cluster, 9, {0, 1});
}

TEST(Shrink, OneRankMayBeAll) {
  const Cluster cluster(2);
  const GroupPtr alone = cluster[1].shrink({0});
  EXPECT_EQ(alone->getSize(), 1);
  EXPECT_EQ(sum_on(*alone), 1);
}

TEST(Shrink, SaysWhichRanksCannotGo) {
  const Cluster cluster(2);
  const std::string allowed = "; allowed: some of 0 to 1, each once, without this rank";
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{0}, {2}, {-1}, {1, 1}}) {
    const std::string text = value_error_of([&] { cluster[0].shrink(wrong); });
    EXPECT_TRUE(contains(text, "rank " + std::to_string(wrong.back()) + " cannot be excluded" + allowed));
  }
  EXPECT_TRUE(contains(value_error_of([&] { cluster[0].shrink({}); }), "no rank is excluded" + allowed));
  EXPECT_TRUE(contains(value_error_of([&] { cluster[0].shrink({1}, 2); }), "flags 2; allowed: 0 (SHRINK_DEFAULT)"));
}

TEST(Merge, RanksOfTwoGroupsMakeOne) {
  const Cluster first(2);
  const Cluster second(1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  on_each_rank(3, [&](int rank) {
    Group& old = rank < 2 ? first[rank] : second[0];
    const GroupPtr whole = old.merge(store, {}, rank, 3);
    EXPECT_EQ(whole->getRank(), rank);
    EXPECT_EQ(sum_on(*whole), 3);
    shutdown(whole);
  });
}

// ---- abort hooks ----

TEST(AbortHook, RunsBeforeTheGroupIsAborted) {
  const Cluster cluster(2);
  std::atomic<int> runs{0};
  cluster[0].registerAbortHook(1, [&] { runs += 1; });
  cluster[0].registerAbortHook(2, [&] { runs += 100; });
  cluster[0].unregisterAbortHook(2);
  cluster[0].abort();
  EXPECT_EQ(runs, 1);
  cluster[0].abort();
  EXPECT_EQ(runs, 1);
}

TEST(AbortHook, RunsBeforeAnErrorIsTold) {
  const Cluster cluster(2);
  std::atomic<int> runs{0};
  cluster.on_each([&](int rank, Group& group) {
    std::atomic<bool> ran{false};
    group.registerAbortHook(0, [&] {
      ran = true;
      ++runs;
    });
    TensorList tensors{at::ones({10 + rank})};
    EXPECT_NE(thrown_by([&] { group.allreduce(tensors)->wait(); }), "");
    EXPECT_TRUE(ran);
  });
  EXPECT_EQ(runs, 2);
}

TEST(AbortHook, IsNotForAGroupThatEndsWell) {
  Cluster cluster(2);
  std::atomic<int> runs{0};
  cluster.on_each([&](int, Group& group) {
    group.registerAbortHook(0, [&] { ++runs; });
    EXPECT_EQ(sum_on(group), 2);
  });
  cluster.drop();
  EXPECT_EQ(runs, 0);
}

// ---- more time ----

TEST(EphemeralTimeout, KeepsACallAliveThatWouldEnd) {
  const Cluster cluster(2, [](Group::Settings& settings) { settings.timeout = seconds(600); });
  cluster.on_each([&](int rank, Group& group) {
    group.setTimeout(milliseconds(1));
    group.addEphemeralTimeout(seconds(300));
    if (rank == 1) std::this_thread::sleep_for(milliseconds(500));
    EXPECT_EQ(sum_on(group), 2);
  });
  // It has ended with that call.
  cluster.on_each([&](int rank, Group& group) {
    if (rank == 1) return;
    TensorList tensors{at::ones({10})};
    EXPECT_TRUE(contains(thrown_by([&] { group.allreduce(tensors)->wait(); }), "timeout"));
  });
}

// ---- calls taken together ----

TEST(CoalescedCalls, AreWaitedForAsOne) {
  if (!compat::kCoalesces) GTEST_SKIP() << "needs PyTorch 2.1";
  const Cluster cluster(2);
  cluster.on_each([](int, Group& group) {
    EXPECT_TRUE(group.supportsCoalescing());
    TensorList a{at::ones({5})};
    TensorList b{at::full({7}, 2.0)};
    group.startCoalescing();
    group.allreduce(a);
    group.allreduce(b);
    group.endCoalescing()->wait();
    EXPECT_TRUE(same(a[0], at::full({5}, 2.0)));
    EXPECT_TRUE(same(b[0], at::full({7}, 4.0)));
  });
}

// ---- gather_single ----

TEST(GatherSingle, TheRootHasAllParts) {
  const Cluster cluster(3);
  cluster.on_each([](int rank, Group& group) {
    at::Tensor input = at::full({2, 2}, static_cast<float>(rank));
    at::Tensor output = rank == 1 ? at::empty({3, 2, 2}) : at::Tensor();
    c10d::GatherOptions opts;
    opts.rootRank = 1;
    group.gather_single(output, input, opts)->wait();
    if (rank != 1) return;
    for (int other = 0; other < 3; ++other) {
      EXPECT_TRUE(same(output[other], at::full({2, 2}, static_cast<float>(other))));
    }
  });
}

TEST(GatherSingle, SaysWhatIsWrongWithTheOutput) {
  const Cluster cluster(2);
  at::Tensor input = at::ones({3});
  at::Tensor small = at::empty({5});
  at::Tensor strided = at::empty({6, 2}).select(1, 0);
  at::Tensor other = at::empty({6}, at::kLong);
  const auto said = [&](at::Tensor& output) { return refusal_of([&] { cluster[0].gather_single(output, input); }); };
  EXPECT_TRUE(contains(said(small), "allowed: an output of 2 times the input"));
  EXPECT_TRUE(contains(said(strided), "the output is not contiguous"));
  EXPECT_TRUE(contains(said(other), "the output is of Long and the input of Float"));
}

}  // namespace
}  // namespace switchml
