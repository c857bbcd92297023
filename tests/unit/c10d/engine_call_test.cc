#include "c10d/engine_call.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "c10d/store_rendezvous.h"
#include "fixture.h"

namespace switchml {
namespace {

using c10d::OpType;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

/// The cores of a group's ranks with sessions of their own, without the process group around them.
class Cores {
 public:
  explicit Cores(int size) : cores_(static_cast<size_t>(size)), stores_(static_cast<size_t>(size)) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    on_each_rank(size, [&](int rank) {
      const auto mine = static_cast<size_t>(rank);
      const GroupInfo info{rank, size, "test"};
      cores_[mine] = std::make_shared<GroupCore>(info);
      if (size == 1) return;
      stores_[mine] = std::move(StoreRendezvous::open(store, rank).value());
      auto session = Session::open({}, info, *stores_[mine], monotonic_now() + seconds(20));
      if (!session.ok()) throw std::runtime_error(session.status().to_string());
      cores_[mine]->set_session(std::shared_ptr<Session>(std::move(session.value())));
    });
  }
  ~Cores() {
    on_each([](int, const std::shared_ptr<GroupCore>& core) {
      const std::shared_ptr<Session> session = core->close({Code::kAborted, "the test is over"});
      if (session) session->engine().abort("the test is over");
      core->pool().join();
    });
  }
  const std::shared_ptr<GroupCore>& operator[](int rank) const { return cores_.at(static_cast<size_t>(rank)); }
  void on_each(const std::function<void(int, const std::shared_ptr<GroupCore>&)>& body) const {
    on_each_rank(static_cast<int>(cores_.size()), [&](int rank) { body(rank, (*this)[rank]); });
  }

 private:
  std::vector<std::shared_ptr<GroupCore>> cores_;
  std::vector<std::unique_ptr<StoreRendezvous>> stores_;
};

EngineCall on(const std::shared_ptr<GroupCore>& core, const c10d::ReduceOp& op = c10d::ReduceOp::SUM,
              Call call = Call::kAllReduce, Duration limit = seconds(20)) {
  return EngineCall(core, call, OpType::ALLREDUCE, op, monotonic_now() + limit);
}

WorkPointer prechecked(const std::shared_ptr<GroupCore>& core, const std::string& what, Call call = Call::kAllToAll) {
  EngineCall precheck = on(core, c10d::ReduceOp::SUM, call);
  precheck.precheck(what, at::ones({2}, at::kLong));
  return precheck.issue({});
}

/// What waiting throws; empty if nothing.
std::string failure_of(const WorkPointer& work) {
  return thrown_by([&] { work->wait(); });
}

// ---- a group of one ----

TEST(EngineCallAlone, IsTheInput) {
  const Cores cores(1);
  const at::Tensor tensor = counting(5);
  EngineCall call = on(cores[0]);
  call.in_place(tensor);
  const WorkPointer work = call.issue({tensor});
  EXPECT_TRUE(work->isCompleted());
  EXPECT_EQ(failure_of(work), "");
  EXPECT_TRUE(same(tensor, counting(5)));
  EXPECT_EQ(cores[0]->calls().get(Call::kAllReduce, Way::kLocal), 1U);
  EXPECT_EQ(cores[0]->calls().total(Way::kMemory), 0U);
}

TEST(EngineCallAlone, StillMultipliesByTheFactor) {
  const Cores cores(1);
  const at::Tensor strided = counting(6).view({2, 3}).t();
  EngineCall call = on(cores[0], premultiplying(2.0));
  call.in_place(strided);
  EXPECT_EQ(failure_of(call.issue({strided})), "");
  EXPECT_TRUE(same(strided, counting(6).mul(2).view({2, 3}).t()));
}

TEST(EngineCallAlone, TakesASlice) {
  const Cores cores(1);
  const at::Tensor output = at::zeros({2});
  EngineCall call = on(cores[0], c10d::ReduceOp::AVG);
  call.slice(counting(6), output, 3);
  EXPECT_EQ(failure_of(call.issue({output})), "");
  EXPECT_TRUE(same(output, at::tensor({4.F, 5.F})));
}

// ---- results ----

TEST(EngineCallOfRanks, CompletesWhenAllItsPartsHave) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor small = at::full({3}, static_cast<float>(rank + 1));
    const at::Tensor large = at::full({300000}, static_cast<float>(rank + 10));
    const at::Tensor empty = at::empty({0});
    EngineCall call = on(core);
    for (const at::Tensor& tensor : {small, large, empty}) call.in_place(tensor);
    const WorkPointer work = call.issue({small, large, empty});
    EXPECT_EQ(failure_of(work), "");
    EXPECT_TRUE(same(small, at::full({3}, 3.F)));
    EXPECT_TRUE(same(large, at::full({300000}, 21.F)));
    EXPECT_EQ(work->result().size(), 3U);
    EXPECT_EQ(core->calls().get(Call::kAllReduce, Way::kMemory), 1U) << "one call, whatever its parts";
    EXPECT_EQ(core->sequence(), 1U);
  });
}

TEST(EngineCallOfRanks, WritesOnlyToTheRoot) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4).add(rank);
    EngineCall call = on(core, c10d::ReduceOp::MAX, Call::kReduce);
    call.root(1);
    call.to_root(tensor, rank == 1);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, rank == 1 ? counting(4).add(1) : counting(4)));
  });
}

TEST(EngineCallOfRanks, AveragesIntegersTowardsZero) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = rank == 0 ? at::tensor({-3, 3, 7}, at::kInt) : at::tensor({0, 0, 8}, at::kInt);
    EngineCall call = on(core, c10d::ReduceOp::AVG);
    call.in_place(tensor);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, at::tensor({-1, 1, 7}, at::kInt)));
  });
}

TEST(EngineCallOfRanks, AveragesReplicasThatAreTooLargeToBeAdded) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor whole = at::tensor({100, -128, 127, 1}, at::kChar), part = at::zeros({2}, at::kChar);
    EngineCall call = on(core, c10d::ReduceOp::AVG);
    call.in_place(whole);
    call.slice(whole.clone(), part, static_cast<size_t>(2 * rank), {2, 4});
    EXPECT_EQ(failure_of(call.issue({whole, part})), "");
    EXPECT_TRUE(same(whole, at::tensor({100, -128, 127, 1}, at::kChar)));
    EXPECT_TRUE(same(part, whole.narrow(0, 2 * rank, 2)));
  });
}

TEST(EngineCallOfRanks, KeepsTheInputOfAFactorAtTheOtherRanks) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4);
    EngineCall call = on(core, premultiplying(3.0), Call::kReduce);
    call.root(0);
    call.to_root(tensor, rank == 0);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, rank == 0 ? counting(4).mul(6) : counting(4)));
  });
}

TEST(EngineCallOfRanks, SlicesIntoItsOwnInput) {
  // Many packets, so that results are written while others are still to be sent. A rank's own half is in place; the
  // other one, and those in between, overlap with what is read without being so.
  constexpr int64_t kHalf = 300000;
  const at::Tensor given = counting(2 * kHalf, at::kInt);
  const Cores cores(2);
  for (const int64_t at : {int64_t{0}, int64_t{1}, kHalf - 7, kHalf}) {
    cores.on_each([&](int rank, const auto& core) {
      const at::Tensor input = given.clone();
      const at::Tensor output = input.narrow(0, at, kHalf);
      EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kReduceScatterTensor);
      call.slice(input, output, static_cast<size_t>(kHalf * rank));
      EXPECT_EQ(failure_of(call.issue({output})), "");
      EXPECT_TRUE(at::equal(output, given.narrow(0, kHalf * rank, kHalf).mul(2))) << "output at " << at;
    });
  }
}

TEST(EngineCallOfRanks, SlicesIntoAStridedOutput) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor all = at::zeros({2, 2});
    const at::Tensor output = all.select(1, 1);
    EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kReduceScatterTensor);
    call.slice(counting(4), output, static_cast<size_t>(2 * rank));
    EXPECT_EQ(failure_of(call.issue({output})), "");
    EXPECT_TRUE(same(output, rank == 0 ? at::tensor({2.F, 4.F}) : at::tensor({6.F, 8.F})));
    EXPECT_TRUE(same(all.select(1, 0), at::zeros({2})));
  });
}

// ---- prechecks ----

TEST(Precheck, PassesWhenAllRanksMakeTheSame) {
  const Cores cores(3);
  cores.on_each([](int, const auto& core) {
    core->next_sequence();  // of the call that it accompanies
    const WorkPointer work = prechecked(core, "float64");
    EXPECT_EQ(failure_of(work), "");
    EXPECT_TRUE(work->result().empty());
    EXPECT_EQ(core->sequence(), 1U);
    EXPECT_EQ(core->calls().total(Way::kMemory), 0U) << "a precheck is not a call";
  });
}

TEST(Precheck, FailsOnEveryRankThatMakesAnother) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const std::string mine = rank == 0 ? "float64" : "float32";
    const std::string text = failure_of(prechecked(core, mine));
    EXPECT_TRUE(contains(text, "ranks called different collectives"));
    EXPECT_TRUE(contains(text, "float64"));
    EXPECT_TRUE(contains(text, "float32"));
  });
}

TEST(Precheck, TellsCallsApart) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const Call call = rank == 0 ? Call::kAllToAll : Call::kAllToAllSingle;
    EXPECT_TRUE(contains(failure_of(prechecked(core, "float64", call)), "different collectives"));
  });
}

TEST(Precheck, FailsAgainstARealCallAndABarrier) {
  for (const bool barrier : {true, false}) {
    const Cores cores(2);
    cores.on_each([&](int rank, const auto& core) {
      WorkPointer work;
      if (rank == 0) {
        work = prechecked(core, "float64");
      } else if (barrier) {
        EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
        call.barrier({});
        work = call.issue({});
      } else {
        const at::Tensor tensor = at::full({61}, std::numeric_limits<int8_t>::max(), at::kChar);
        EngineCall call = on(core, c10d::ReduceOp::MIN);
        call.in_place(tensor);
        work = call.issue({tensor});
      }
      EXPECT_TRUE(contains(failure_of(work), rank == 0 ? "all_to_all(float64)" : "mismatch"));
    });
  }
}

// ---- disagreement and failure ----

TEST(EngineCallOfRanks, FailsWhereRanksNameDifferentRoots) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4);
    EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kReduce);
    call.root(rank);
    call.to_root(tensor, true);
    const std::string text = failure_of(call.issue({tensor}));
    EXPECT_TRUE(contains(text, "to rank 0"));
    EXPECT_TRUE(contains(text, "to rank 1"));
  });
}

TEST(EngineCallOfRanks, FailsWhereRanksMeanDifferentSums) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4, at::kInt);
    EngineCall call = on(core, rank == 0 ? c10d::ReduceOp::SUM : c10d::ReduceOp::AVG);
    call.in_place(tensor);
    const std::string text = failure_of(call.issue({tensor}));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, int32, 4 elements)"));
    EXPECT_TRUE(contains(text, "all_reduce(AVG, int32, 4 elements)"));
  });
}

TEST(EngineCallOfRanks, EndsAtItsDeadline) {
  const Cores cores(2);
  const at::Tensor tensor = counting(4);
  EngineCall call = on(cores[0], c10d::ReduceOp::SUM, Call::kAllReduce, milliseconds(150));
  call.in_place(tensor);
  const Time start = monotonic_now();
  const std::string text = failure_of(call.issue({tensor}));
  EXPECT_GE(monotonic_now() - start, milliseconds(140));
  EXPECT_LT(monotonic_now() - start, seconds(10));
  EXPECT_TRUE(contains(text, "switchml all_reduce on rank 0 of 2 (group test) [call 1: all_reduce(SUM, float32, 4"));
}

TEST(EngineCallOfRanks, FailsWithTheReasonAfterTheEnd) {
  for (const int size : {1, 2}) {
    const Cores cores(size);
    cores.on_each([](int, const auto& core) { core->close({Code::kAborted, "the group is gone"}).reset(); });
    const at::Tensor tensor = counting(4);
    EngineCall call = on(cores[0], premultiplying(2.0));
    call.in_place(tensor);
    EXPECT_TRUE(contains(failure_of(call.issue({tensor})), "the group is gone"));
    EXPECT_TRUE(same(tensor, counting(4))) << "a failed call wrote a result";
    EXPECT_TRUE(cores[0]->wait_until_landed(seconds(20)));
  }
}

TEST(EngineCallOfRanks, LetsGoOfItsTensorsBeforeItSignals) {
  const Cores cores(2);
  cores.on_each([](int, const auto& core) {
    const at::Tensor tensor = counting(1000);
    EngineCall call = on(core);
    call.in_place(tensor);
    const WorkPointer work = call.issue({});
    EXPECT_EQ(failure_of(work), "");
    EXPECT_EQ(tensor.use_count(), 2U) << "this one, and the list of inputs in `call`";
  });
}

// ---- calls that their callers wait for at once ----

/// The sum of `tensor`, which the caller waits for.
WorkPointer waited_sum(const std::shared_ptr<GroupCore>& core, const at::Tensor& tensor, Duration limit = seconds(20)) {
  EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kAllReduce, limit);
  call.waited_for();
  call.in_place(tensor);
  return call.issue({tensor});
}

TEST(WaitedCall, IsCompleteWhenItReturns) {
  const Cores cores(3);
  cores.on_each([](int rank, const auto& core) {
    int complete = 0;
    for (int64_t round = 0; round < 100; ++round) {
      const at::Tensor tensor = at::full({1 + round * round * 20}, rank, at::kInt);
      const WorkPointer work = waited_sum(core, tensor);
      complete += work->isCompleted() ? 1 : 0;
      EXPECT_EQ(failure_of(work), "");
      EXPECT_TRUE(same(tensor, at::full(tensor.sizes(), 3, at::kInt)));
      EXPECT_EQ(work->result().size(), 1U);
    }
    EXPECT_GT(complete, 0) << "one that takes half a second is not";
  });
}

TEST(WaitedCall, LetsGoOfItsTensors) {
  const Cores cores(2);
  cores.on_each([](int, const auto& core) {
    const at::Tensor tensor = counting(1000);
    EngineCall call = on(core);
    call.waited_for();
    call.in_place(tensor);
    EXPECT_EQ(failure_of(call.issue({})), "");
    EXPECT_EQ(tensor.use_count(), 2U) << "this one, and the list of inputs in `call`";
  });
}

TEST(WaitedCall, KeepsItsPlaceAmongOthers) {
  const Cores cores(3);
  cores.on_each([](int rank, const auto& core) {
    for (int round = 0; round < 50; ++round) {
      const at::Tensor first = at::full({1 + 1000 * (round % 7)}, rank, at::kInt);
      const at::Tensor second = at::full({10}, 10 * rank, at::kInt);
      EngineCall call = on(core);
      call.in_place(first);
      const WorkPointer earlier = call.issue({first});
      if (round % 3 == rank) std::this_thread::yield();
      EXPECT_EQ(failure_of(waited_sum(core, second)), "");
      EXPECT_TRUE(same(second, at::full({10}, 30, at::kInt)));
      EXPECT_EQ(failure_of(earlier), "");
      EXPECT_TRUE(same(first, at::full(first.sizes(), 3, at::kInt)));
    }
  });
}

TEST(WaitedCall, MayBeCalledByManyThreads) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    on_each_rank(4, [&](int) {
      for (int round = 0; round < 100; ++round) {
        const at::Tensor tensor = at::full({100}, rank + 1, at::kInt);
        EXPECT_EQ(failure_of(waited_sum(core, tensor)), "");
        EXPECT_TRUE(same(tensor, at::full({100}, 3, at::kInt)));
      }
    });
  });
}

TEST(WaitedCall, EndsAtItsDeadline) {
  const Cores cores(2);
  const Time start = monotonic_now();
  const std::string text = failure_of(waited_sum(cores[0], counting(4), milliseconds(150)));
  EXPECT_GE(monotonic_now() - start, milliseconds(140));
  EXPECT_TRUE(contains(text, "switchml all_reduce on rank 0 of 2 (group test) [call 1: all_reduce(SUM, float32, 4"));
}

TEST(WaitedCall, SaysWhatTheRanksHaveCalled) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const std::string text = failure_of(waited_sum(core, counting(4 + rank)));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, float32, 4 elements)"));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, float32, 5 elements)"));
  });
}

TEST(WaitedCall, MayBeCalledInACallback) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor first = at::full({100000}, rank + 1, at::kInt);
    const at::Tensor second = at::full({10}, rank + 1, at::kInt);
    EngineCall call = on(core);
    call.in_place(first);
    const WorkPointer work = call.issue({first});
    work->getFuture()->addCallback([&](c10::ivalue::Future&) {
      EXPECT_EQ(failure_of(waited_sum(core, second)), "");
      EXPECT_TRUE(same(second, at::full({10}, 3, at::kInt)));
    });
    EXPECT_EQ(failure_of(work), "");
    EXPECT_TRUE(core->wait_until_landed(seconds(20)));
    core->pool().join();
  });
}

TEST(WaitedCall, ThatIsABarrierCompletesBehindWhatWasUnderWay) {
  const Cores cores(2);
  const auto earlier = c10::make_intrusive<SwitchWork>(0, OpType::BROADCAST, CallRecord("earlier"));
  WorkPointer held;
  cores.on_each([&](int rank, const auto& core) {
    EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
    call.waited_for();
    call.barrier(rank == 0 ? std::vector{Outstanding::WeakWork(earlier)} : std::vector<Outstanding::WeakWork>());
    const WorkPointer work = call.issue({});
    if (rank == 0) held = work;
  });
  EXPECT_FALSE(held->isCompleted());
  earlier->succeed();
  EXPECT_EQ(failure_of(held), "");
}

// ---- barriers ----

WorkPointer barrier_after(const std::shared_ptr<GroupCore>& core, std::vector<Outstanding::WeakWork> before) {
  EngineCall call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
  call.barrier(std::move(before));
  return call.issue({});
}

TEST(BarrierCall, WaitsForEveryRank) {
  const Cores cores(2);
  const WorkPointer first = barrier_after(cores[0], {});
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(first->isCompleted());
  const WorkPointer second = barrier_after(cores[1], {});
  EXPECT_EQ(failure_of(first), "");
  EXPECT_EQ(failure_of(second), "");
}

TEST(BarrierCall, WaitsForWhatThisRankHasUnderWay) {
  const Cores cores(2);
  const auto earlier = c10::make_intrusive<SwitchWork>(0, OpType::BROADCAST, CallRecord("earlier"));
  const WorkPointer held = barrier_after(cores[0], {Outstanding::WeakWork(earlier)});
  const WorkPointer free = barrier_after(cores[1], {});
  EXPECT_EQ(failure_of(free), "") << "the other rank has nothing to wait for";
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(held->isCompleted());
  earlier->succeed();
  EXPECT_EQ(failure_of(held), "");
}

TEST(BarrierCall, PassesBehindWorksThatFailedOrAreGone) {
  const Cores cores(2);
  const auto failed = c10::make_intrusive<SwitchWork>(0, OpType::BROADCAST, CallRecord("failed"));
  failed->fail(std::make_exception_ptr(std::runtime_error("broken")));
  auto gone = c10::make_intrusive<SwitchWork>(0, OpType::BROADCAST, CallRecord("gone"));
  const Outstanding::WeakWork weak(gone);
  gone.reset();
  cores.on_each([&](int, const auto& core) {
    EXPECT_EQ(failure_of(barrier_after(core, {Outstanding::WeakWork(failed), weak})), "");
  });
}

}  // namespace
}  // namespace switchml
