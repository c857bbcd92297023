#include "c10d/reduction.h"

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

Reduction on(const std::shared_ptr<GroupCore>& core, const c10d::ReduceOp& op = c10d::ReduceOp::SUM,
             Call call = Call::kAllReduce, Duration limit = seconds(20)) {
  return Reduction(core, call, OpType::ALLREDUCE, op, monotonic_now() + limit);
}

WorkPointer fenced(const std::shared_ptr<GroupCore>& core, const std::string& what, Call call = Call::kAllReduce) {
  Reduction precheck = on(core, c10d::ReduceOp::SUM, call);
  precheck.precheck(what);
  return precheck.issue({});
}

/// What waiting throws; empty if nothing.
std::string failure_of(const WorkPointer& work) {
  return thrown_by([&] { work->wait(); });
}

// ---- names ----

constexpr at::ScalarType kFloats[] = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};
constexpr at::ScalarType kIntegers[] = {at::kInt, at::kChar, at::kByte, at::kShort, at::kLong};

TEST(EngineOperation, OfNumbersIsTheSame) {
  const auto expect_numbers = [](at::ScalarType type) {
    for (const auto op : {c10d::ReduceOp::SUM, c10d::ReduceOp::AVG}) {
      EXPECT_EQ(engine_operation(op, type), ReduceOp::kSum) << c10::toString(type);
    }
    EXPECT_EQ(engine_operation(c10d::ReduceOp::MIN, type), ReduceOp::kMin) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::MAX, type), ReduceOp::kMax) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::PRODUCT, type), ReduceOp::kProduct) << c10::toString(type);
  };
  for (const at::ScalarType type : kFloats) {
    expect_numbers(type);
    EXPECT_EQ(engine_operation(premultiplying(2.0), type), ReduceOp::kSum) << c10::toString(type);
  }
  for (const at::ScalarType type : kIntegers) {
    expect_numbers(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::BAND, type), ReduceOp::kAnd) << c10::toString(type);
    EXPECT_EQ(engine_operation(c10d::ReduceOp::BXOR, type), ReduceOp::kXor) << c10::toString(type);
  }
}

TEST(EngineOperation, OfBoolsIsAnyAllOrDiffer) {
  for (const auto op : {c10d::ReduceOp::SUM, c10d::ReduceOp::MAX, c10d::ReduceOp::BOR}) {
    EXPECT_EQ(engine_operation(op, at::kBool), ReduceOp::kOr) << operation_name(op);
  }
  for (const auto op : {c10d::ReduceOp::PRODUCT, c10d::ReduceOp::MIN, c10d::ReduceOp::BAND}) {
    EXPECT_EQ(engine_operation(op, at::kBool), ReduceOp::kAnd) << operation_name(op);
  }
  EXPECT_EQ(engine_operation(c10d::ReduceOp::BXOR, at::kBool), ReduceOp::kXor);
}

TEST(EngineOperation, LeavesTheRestToGloo) {
  for (const auto op : {c10d::ReduceOp::BAND, c10d::ReduceOp::BOR, c10d::ReduceOp::BXOR}) {
    for (const at::ScalarType type : kFloats) EXPECT_EQ(engine_operation(op, type), std::nullopt) << operation_name(op);
  }
  for (const at::ScalarType type : kIntegers) EXPECT_EQ(engine_operation(premultiplying(2.0), type), std::nullopt);
  EXPECT_EQ(engine_operation(c10d::ReduceOp::AVG, at::kBool), std::nullopt);
  EXPECT_EQ(engine_operation(premultiplying(2.0), at::kBool), std::nullopt);
  EXPECT_EQ(engine_operation(c10d::ReduceOp::SUM, at::kComplexFloat), std::nullopt);
}

TEST(OperationName, IsTheOneOfPython) {
  EXPECT_STREQ(operation_name(c10d::ReduceOp::SUM), "SUM");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::AVG), "AVG");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::PRODUCT), "PRODUCT");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::MIN), "MIN");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::MAX), "MAX");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BAND), "BAND");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BOR), "BOR");
  EXPECT_STREQ(operation_name(c10d::ReduceOp::BXOR), "BXOR");
  EXPECT_STREQ(operation_name(premultiplying(2.0)), "PREMUL_SUM");
}

// ---- a group of one ----

TEST(ReductionAlone, IsTheInput) {
  const Cores cores(1);
  const at::Tensor tensor = counting(5);
  Reduction call = on(cores[0]);
  call.in_place(tensor);
  const WorkPointer work = call.issue({tensor});
  EXPECT_TRUE(work->isCompleted());
  EXPECT_EQ(failure_of(work), "");
  EXPECT_TRUE(same(tensor, counting(5)));
  EXPECT_EQ(cores[0]->calls().get(Call::kAllReduce, Way::kLocal), 1U);
  EXPECT_EQ(cores[0]->calls().total(Way::kMemory), 0U);
}

TEST(ReductionAlone, StillMultipliesByTheFactor) {
  const Cores cores(1);
  const at::Tensor strided = counting(6).view({2, 3}).t();
  Reduction call = on(cores[0], premultiplying(2.0));
  call.in_place(strided);
  EXPECT_EQ(failure_of(call.issue({strided})), "");
  EXPECT_TRUE(same(strided, counting(6).mul(2).view({2, 3}).t()));
}

TEST(ReductionAlone, TakesASlice) {
  const Cores cores(1);
  const at::Tensor output = at::zeros({2});
  Reduction call = on(cores[0], c10d::ReduceOp::AVG);
  call.slice(counting(6), output, 3);
  EXPECT_EQ(failure_of(call.issue({output})), "");
  EXPECT_TRUE(same(output, at::tensor({4.F, 5.F})));
}

// ---- results ----

TEST(ReductionOfRanks, CompletesWhenAllItsPartsHave) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor small = at::full({3}, static_cast<float>(rank + 1));
    const at::Tensor large = at::full({300000}, static_cast<float>(rank + 10));
    const at::Tensor empty = at::empty({0});
    Reduction call = on(core);
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

TEST(ReductionOfRanks, WritesOnlyToTheRoot) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4).add(rank);
    Reduction call = on(core, c10d::ReduceOp::MAX, Call::kReduce);
    call.root(1);
    call.to_root(tensor, rank == 1);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, rank == 1 ? counting(4).add(1) : counting(4)));
  });
}

TEST(ReductionOfRanks, AveragesIntegersTowardsZero) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = rank == 0 ? at::tensor({-3, 3, 7}, at::kInt) : at::tensor({0, 0, 8}, at::kInt);
    Reduction call = on(core, c10d::ReduceOp::AVG);
    call.in_place(tensor);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, at::tensor({-1, 1, 7}, at::kInt)));
  });
}

TEST(ReductionOfRanks, AveragesReplicasThatAreTooLargeToBeAdded) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor whole = at::tensor({100, -128, 127, 1}, at::kChar), part = at::zeros({2}, at::kChar);
    Reduction call = on(core, c10d::ReduceOp::AVG);
    call.in_place(whole);
    call.slice(whole.clone(), part, static_cast<size_t>(2 * rank), {2, 4});
    EXPECT_EQ(failure_of(call.issue({whole, part})), "");
    EXPECT_TRUE(same(whole, at::tensor({100, -128, 127, 1}, at::kChar)));
    EXPECT_TRUE(same(part, whole.narrow(0, 2 * rank, 2)));
  });
}

TEST(ReductionOfRanks, KeepsTheInputOfAFactorAtTheOtherRanks) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4);
    Reduction call = on(core, premultiplying(3.0), Call::kReduce);
    call.root(0);
    call.to_root(tensor, rank == 0);
    EXPECT_EQ(failure_of(call.issue({tensor})), "");
    EXPECT_TRUE(same(tensor, rank == 0 ? counting(4).mul(6) : counting(4)));
  });
}

TEST(ReductionOfRanks, SlicesIntoItsOwnInput) {
  // Many packets, so that results are written while others are still to be sent. A rank's own half is in place; the
  // other one, and those in between, overlap with what is read without being so.
  constexpr int64_t kHalf = 300000;
  const at::Tensor given = counting(2 * kHalf, at::kInt);
  const Cores cores(2);
  for (const int64_t at : {int64_t{0}, int64_t{1}, kHalf - 7, kHalf}) {
    cores.on_each([&](int rank, const auto& core) {
      const at::Tensor input = given.clone();
      const at::Tensor output = input.narrow(0, at, kHalf);
      Reduction call = on(core, c10d::ReduceOp::SUM, Call::kReduceScatterTensor);
      call.slice(input, output, static_cast<size_t>(kHalf * rank));
      EXPECT_EQ(failure_of(call.issue({output})), "");
      EXPECT_TRUE(at::equal(output, given.narrow(0, kHalf * rank, kHalf).mul(2))) << "output at " << at;
    });
  }
}

TEST(ReductionOfRanks, SlicesIntoAStridedOutput) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor all = at::zeros({2, 2});
    const at::Tensor output = all.select(1, 1);
    Reduction call = on(core, c10d::ReduceOp::SUM, Call::kReduceScatterTensor);
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
    const WorkPointer work = fenced(core, "PRODUCT, float64, 100 elements");
    EXPECT_EQ(failure_of(work), "");
    EXPECT_TRUE(work->result().empty());
    EXPECT_EQ(core->sequence(), 1U);
    EXPECT_EQ(core->calls().total(Way::kMemory), 0U) << "a precheck is not a call";
  });
}

TEST(Precheck, FailsOnEveryRankThatMakesAnother) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const std::string mine = rank == 0 ? "PRODUCT, float64, 100 elements" : "PRODUCT, float64, 101 elements";
    const std::string text = failure_of(fenced(core, mine));
    EXPECT_TRUE(contains(text, "ranks called different collectives"));
    EXPECT_TRUE(contains(text, "100 elements"));
    EXPECT_TRUE(contains(text, "101 elements"));
  });
}

TEST(Precheck, TellsCallsApart) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const Call call = rank == 0 ? Call::kAllReduce : Call::kAllReduceCoalesced;
    EXPECT_TRUE(contains(failure_of(fenced(core, "SUM, float64, 1 elements", call)), "different collectives"));
  });
}

TEST(Precheck, FailsAgainstARealCallAndABarrier) {
  for (const bool barrier : {true, false}) {
    const Cores cores(2);
    cores.on_each([&](int rank, const auto& core) {
      WorkPointer work;
      if (rank == 0) {
        work = fenced(core, "PRODUCT, float64, 100 elements");
      } else if (barrier) {
        Reduction call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
        call.barrier({});
        work = call.issue({});
      } else {
        const at::Tensor tensor = at::full({61}, std::numeric_limits<int8_t>::max(), at::kChar);
        Reduction call = on(core, c10d::ReduceOp::MIN);
        call.in_place(tensor);
        work = call.issue({tensor});
      }
      EXPECT_TRUE(contains(failure_of(work), rank == 0 ? "PRODUCT, float64, 100 elements" : "mismatch"));
    });
  }
}

// ---- disagreement and failure ----

TEST(ReductionOfRanks, FailsWhereRanksNameDifferentRoots) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4);
    Reduction call = on(core, c10d::ReduceOp::SUM, Call::kReduce);
    call.root(rank);
    call.to_root(tensor, true);
    const std::string text = failure_of(call.issue({tensor}));
    EXPECT_TRUE(contains(text, "to rank 0"));
    EXPECT_TRUE(contains(text, "to rank 1"));
  });
}

TEST(ReductionOfRanks, FailsWhereRanksMeanDifferentSums) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor tensor = counting(4, at::kInt);
    Reduction call = on(core, rank == 0 ? c10d::ReduceOp::SUM : c10d::ReduceOp::AVG);
    call.in_place(tensor);
    const std::string text = failure_of(call.issue({tensor}));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, int32, 4 elements)"));
    EXPECT_TRUE(contains(text, "all_reduce(AVG, int32, 4 elements)"));
  });
}

TEST(ReductionOfRanks, EndsAtItsDeadline) {
  const Cores cores(2);
  const at::Tensor tensor = counting(4);
  Reduction call = on(cores[0], c10d::ReduceOp::SUM, Call::kAllReduce, milliseconds(150));
  call.in_place(tensor);
  const Time start = monotonic_now();
  const std::string text = failure_of(call.issue({tensor}));
  EXPECT_GE(monotonic_now() - start, milliseconds(140));
  EXPECT_LT(monotonic_now() - start, seconds(10));
  EXPECT_TRUE(contains(text, "switchml all_reduce on rank 0 of 2 (group test) [call 1: all_reduce(SUM, float32, 4"));
}

TEST(ReductionOfRanks, FailsWithTheReasonAfterTheEnd) {
  for (const int size : {1, 2}) {
    const Cores cores(size);
    cores.on_each([](int, const auto& core) { core->close({Code::kAborted, "the group is gone"}).reset(); });
    const at::Tensor tensor = counting(4);
    Reduction call = on(cores[0], premultiplying(2.0));
    call.in_place(tensor);
    EXPECT_TRUE(contains(failure_of(call.issue({tensor})), "the group is gone"));
    EXPECT_TRUE(same(tensor, counting(4))) << "a failed call wrote a result";
    EXPECT_TRUE(cores[0]->wait_until_landed(seconds(20)));
  }
}

TEST(ReductionOfRanks, LetsGoOfItsTensorsBeforeItSignals) {
  const Cores cores(2);
  cores.on_each([](int, const auto& core) {
    const at::Tensor tensor = counting(1000);
    Reduction call = on(core);
    call.in_place(tensor);
    const WorkPointer work = call.issue({});
    EXPECT_EQ(failure_of(work), "");
    EXPECT_EQ(tensor.use_count(), 2U) << "this one, and the list of inputs in `call`";
  });
}

// ---- calls that their callers wait for at once ----

/// The sum of `tensor`, which the caller waits for.
WorkPointer waited_sum(const std::shared_ptr<GroupCore>& core, const at::Tensor& tensor, Duration limit = seconds(20)) {
  Reduction call = on(core, c10d::ReduceOp::SUM, Call::kAllReduce, limit);
  call.waited_for();
  call.in_place(tensor);
  return call.issue({tensor});
}

TEST(WaitedReduction, IsCompleteWhenItReturns) {
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

TEST(WaitedReduction, LetsGoOfItsTensors) {
  const Cores cores(2);
  cores.on_each([](int, const auto& core) {
    const at::Tensor tensor = counting(1000);
    Reduction call = on(core);
    call.waited_for();
    call.in_place(tensor);
    EXPECT_EQ(failure_of(call.issue({})), "");
    EXPECT_EQ(tensor.use_count(), 2U) << "this one, and the list of inputs in `call`";
  });
}

TEST(WaitedReduction, KeepsItsPlaceAmongOthers) {
  const Cores cores(3);
  cores.on_each([](int rank, const auto& core) {
    for (int round = 0; round < 50; ++round) {
      const at::Tensor first = at::full({1 + 1000 * (round % 7)}, rank, at::kInt);
      const at::Tensor second = at::full({10}, 10 * rank, at::kInt);
      Reduction call = on(core);
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

TEST(WaitedReduction, MayBeCalledByManyThreads) {
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

TEST(WaitedReduction, EndsAtItsDeadline) {
  const Cores cores(2);
  const Time start = monotonic_now();
  const std::string text = failure_of(waited_sum(cores[0], counting(4), milliseconds(150)));
  EXPECT_GE(monotonic_now() - start, milliseconds(140));
  EXPECT_TRUE(contains(text, "switchml all_reduce on rank 0 of 2 (group test) [call 1: all_reduce(SUM, float32, 4"));
}

TEST(WaitedReduction, SaysWhatTheRanksHaveCalled) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const std::string text = failure_of(waited_sum(core, counting(4 + rank)));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, float32, 4 elements)"));
    EXPECT_TRUE(contains(text, "all_reduce(SUM, float32, 5 elements)"));
  });
}

TEST(WaitedReduction, MayBeCalledInACallback) {
  const Cores cores(2);
  cores.on_each([](int rank, const auto& core) {
    const at::Tensor first = at::full({100000}, rank + 1, at::kInt);
    const at::Tensor second = at::full({10}, rank + 1, at::kInt);
    Reduction call = on(core);
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

TEST(WaitedReduction, ThatIsABarrierCompletesBehindWhatWasUnderWay) {
  const Cores cores(2);
  const auto earlier = c10::make_intrusive<SwitchWork>(0, OpType::BROADCAST, CallRecord("earlier"));
  WorkPointer held;
  cores.on_each([&](int rank, const auto& core) {
    Reduction call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
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
  Reduction call = on(core, c10d::ReduceOp::SUM, Call::kBarrier);
  call.barrier(std::move(before));
  return call.issue({});
}

TEST(BarrierReduction, WaitsForEveryRank) {
  const Cores cores(2);
  const WorkPointer first = barrier_after(cores[0], {});
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(first->isCompleted());
  const WorkPointer second = barrier_after(cores[1], {});
  EXPECT_EQ(failure_of(first), "");
  EXPECT_EQ(failure_of(second), "");
}

TEST(BarrierReduction, WaitsForWhatThisRankHasUnderWay) {
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

TEST(BarrierReduction, PassesBehindWorksThatFailedOrAreGone) {
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
