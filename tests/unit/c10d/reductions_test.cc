// The reductions of a process group: what comes out. Through a switch that takes elements as they are, and through one
// that adds integers, beside which hosts do the rest.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fixture.h"

namespace switchml {
namespace {

using Reduced = c10d::ReduceOp;
using ReducingGroup = ProcessGroupSwitchML;

const std::vector<at::ScalarType> kNumbers = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kInt,
                                              at::kChar,  at::kByte, at::kShort,    at::kLong};

/// What rank `rank` contributes: small numbers, all different, exact in every type.
at::Tensor given_by(int rank, at::ScalarType type) {
  return at::remainder(counting(7).mul(rank + 1).add(rank), 11).add(1).to(type);
}

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, const Reduced& op) {
  switch (op.op_) {
    case Reduced::PRODUCT: return at::mul(a, b);
    case Reduced::MIN: return at::minimum(a, b);
    case Reduced::MAX: return at::maximum(a, b);
    case Reduced::BAND: return at::bitwise_and(a, b);
    case Reduced::BOR: return at::bitwise_or(a, b);
    case Reduced::BXOR: return at::bitwise_xor(a, b);
    default: return at::add(a, b);
  }
}

/// The result over all ranks, computed with the type's own arithmetic.
at::Tensor expected_of(int size, at::ScalarType type, const Reduced& op) {
  at::Tensor total;
  for (int rank = 0; rank < size; ++rank) {
    at::Tensor mine = given_by(rank, type);
    if (op.op_ == Reduced::PREMUL_SUM) mine = mine.mul(2);
    total = total.defined() ? combined(total, mine, op) : mine;
  }
  if (op.op_ != Reduced::AVG) return total;
  if (at::isIntegralType(type, false)) return at::div(total, size, "trunc");
  return at::div(total, size);
}

c10d::AllreduceOptions with(const Reduced& op) {
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return options;
}

c10d::ReduceScatterOptions scattering(const Reduced& op) {
  c10d::ReduceScatterOptions options;
  options.reduceOp = op;
  return options;
}

/// For Cluster: the switch adds integers, as a chip does.
void integers(Cluster::Settings& settings) { settings.config.precision = Precision::kInteger; }

/// As what elements travel to the switch.
enum class Elements { kAsTheyAre, kAsIntegers };

class EachElements : public ::testing::TestWithParam<Elements> {
 protected:
  bool exact() const { return GetParam() == Elements::kAsTheyAre; }
  std::unique_ptr<Cluster> cluster_of(int size) const {
    return exact() ? std::make_unique<Cluster>(size) : std::make_unique<Cluster>(size, integers);
  }
  /// All-reduces every type with `op` and compares values and the way it went.
  void all_reduce_every_type(const Cluster& cluster, const Reduced& op, const std::vector<at::ScalarType>& types) {
    for (const at::ScalarType type : types) {
      SCOPED_TRACE(std::string(operation_name(op)) + " of " + c10::toString(type));
      const uint64_t before = cluster.count(0, Call::kAllReduce, Way::kSwitch);
      cluster.on_each([&](int rank, ReducingGroup& group) { all_reduce(rank, group, op, type); });
      EXPECT_EQ(cluster.count(0, Call::kAllReduce, Way::kSwitch), before + 1);
    }
  }

 private:
  static void all_reduce(int rank, ReducingGroup& group, const Reduced& op, at::ScalarType type) {
    TensorList tensors{given_by(rank, type)};
    const at::Tensor mine = tensors[0];
    const auto work = group.allreduce(tensors, with(op));
    work->wait();
    EXPECT_TRUE(same(mine, expected_of(group.getSize(), type, op)));
    EXPECT_EQ(work->getFuture()->value().toTensorVector().at(0).data_ptr(), mine.data_ptr());
  }
};

std::string name_of(const ::testing::TestParamInfo<Elements>& info) {
  return info.param == Elements::kAsTheyAre ? "Exact" : "Integers";
}

#define SWITCHML_FOR_EACH_ELEMENTS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Elements, Suite, ::testing::Values(Elements::kAsTheyAre, Elements::kAsIntegers), name_of)

// ---- all_reduce ----

class AllReduceOf : public EachElements {};
SWITCHML_FOR_EACH_ELEMENTS(AllReduceOf);

TEST_P(AllReduceOf, SumsEveryType) { all_reduce_every_type(*cluster_of(3), Reduced::SUM, kNumbers); }
TEST_P(AllReduceOf, AveragesEveryType) { all_reduce_every_type(*cluster_of(3), Reduced::AVG, kNumbers); }
TEST_P(AllReduceOf, MultipliesFloatsByAFactor) {
  all_reduce_every_type(*cluster_of(2), premultiplying(2.0), {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
}
TEST_P(AllReduceOf, RefusesMeansThatItsTypesDoNotHave) {
  const auto cluster = cluster_of(1);
  const auto expect_refusal = [&](const Reduced& op, at::ScalarType type) {
    TensorList tensors{at::ones({2}, type)};
    const std::string wanted = "Cannot use ReduceOp." + std::string(operation_name(op)) + " with dtype ";
    EXPECT_TRUE(contains(refusal_of([&] { (*cluster)[0].allreduce(tensors, with(op)); }), wanted));
    EXPECT_TRUE(contains(
        refusal_of([&] { (*cluster)[0]._reduce_scatter_base(tensors[0], tensors[0], scattering(op)); }), wanted));
  };
  for (const at::ScalarType type : {at::kInt, at::kChar, at::kByte, at::kShort, at::kLong, at::kBool}) {
    expect_refusal(premultiplying(0.5), type);
  }
  expect_refusal(Reduced::AVG, at::kBool);
}
TEST_P(AllReduceOf, FindsMinimumAndMaximum) {
  const auto cluster = cluster_of(2);
  const std::vector<at::ScalarType> types = {at::kFloat, at::kHalf,  at::kBFloat16, at::kInt,
                                             at::kByte,  at::kShort, at::kLong,     at::kDouble};
  all_reduce_every_type(*cluster, Reduced::MIN, types);
  all_reduce_every_type(*cluster, Reduced::MAX, types);
}
TEST_P(AllReduceOf, MultipliesAndCombinesBits) {
  const auto cluster = cluster_of(2);
  all_reduce_every_type(*cluster, Reduced::PRODUCT, {at::kFloat, at::kDouble, at::kInt, at::kLong});
  for (const auto op : {Reduced::BAND, Reduced::BOR, Reduced::BXOR}) {
    all_reduce_every_type(*cluster, op, {at::kInt, at::kByte, at::kLong});
  }
}

TEST_P(AllReduceOf, AddsComplexNumbersWhateverTheirLayout) {
  const auto cluster = cluster_of(2);
  cluster->on_each([](int rank, ReducingGroup& group) {
    for (const at::ScalarType type : {at::kComplexFloat, at::kComplexDouble}) {
      const at::Tensor all = at::complex(counting(6).add(rank), counting(6)).to(type);
      TensorList odd{rank == 0 ? all.slice(0, 0, 6, 2).conj() : all.slice(0, 0, 6, 2).conj().clone().resolve_conj()};
      group.allreduce(odd)->wait();
      EXPECT_TRUE(same(odd[0].resolve_conj(),
                       at::complex(counting(6).mul(2).add(1), counting(6).mul(-2)).to(type).slice(0, 0, 6, 2)));
      TensorList none{all};
      EXPECT_TRUE(contains(refusal_of([&] { group.allreduce(none, with(Reduced::PRODUCT)); }),
                           "Cannot use ReduceOp.PRODUCT with dtype "));
    }
  });
}

TEST_P(AllReduceOf, ViewsLeavesTheirNeighboursAlone) {
  const auto cluster = cluster_of(2);
  cluster->on_each([](int rank, ReducingGroup& group) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {  // of integers: the switch, hosts
      const at::Tensor all = at::full({4, 6}, rank + 1, type);
      TensorList columns{all.slice(1, 1, 6, 2)};
      ASSERT_FALSE(columns[0].is_contiguous());
      group.allreduce(columns)->wait();
      EXPECT_TRUE(same(all.slice(1, 1, 6, 2), at::full({4, 3}, 3, type)));
      EXPECT_TRUE(same(all.slice(1, 0, 6, 2), at::full({4, 3}, rank + 1, type)));
    }
    const at::Tensor row = at::full({10}, static_cast<float>(rank + 1));
    TensorList middle{row.narrow(0, 3, 4)};
    group.allreduce(middle)->wait();
    EXPECT_TRUE(same(row.narrow(0, 3, 4), at::full({4}, 3.F)));
    EXPECT_TRUE(same(row.narrow(0, 7, 3), at::full({3}, static_cast<float>(rank + 1))));
  });
}

TEST(AllReduce, TakesScalarsAndNothing) {
  const Cluster cluster(2);
  cluster.on_each([](int rank, ReducingGroup& group) {
    TensorList scalar{at::scalar_tensor(rank + 1, at::kInt)};
    group.allreduce(scalar)->wait();
    EXPECT_EQ(scalar[0].item<int>(), 3);
    TensorList empty{at::empty({0, 3})};
    group.allreduce(empty)->wait();
    EXPECT_EQ(empty[0].numel(), 0);
  });
  EXPECT_EQ(cluster.count(0, Call::kAllReduce, Way::kSwitch), 2U);
}

TEST_P(AllReduceOf, OfSeveralTensorsGivesEachTheReductionOfAll) {
  const auto cluster = cluster_of(2);
  for (const Reduced& op : {Reduced(Reduced::SUM), Reduced(Reduced::AVG), Reduced(Reduced::MAX)}) {
    cluster->on_each([&](int rank, ReducingGroup& group) {
      TensorList tensors{counting(3).add(rank), counting(3).add(10 * rank)};
      group.allreduce(tensors, with(op))->wait();
      const at::Tensor sum = counting(3).mul(4).add(11);
      const at::Tensor wanted = op.op_ == Reduced::SUM   ? sum
                                : op.op_ == Reduced::AVG ? sum.div(2)
                                                         : counting(3).add(10);
      for (const at::Tensor& tensor : tensors) EXPECT_TRUE(same(tensor, wanted));
    });
  }
}

TEST(AllReduce, RefusesTensorsOfOtherDevices) {
  const Cluster cluster(1);
  TensorList tensors{at::empty({2}, at::device(at::kMeta))};
  EXPECT_TRUE(
      contains(refusal_of([&] { cluster[0].allreduce(tensors); }), "switchml all_reduce: unsupported device type"));
  EXPECT_TRUE(contains(refusal_of([&] { cluster[0].reduce(tensors); }), "switchml reduce: unsupported device type"));
}

TEST_P(AllReduceOf, FailsOnEveryRankWhereTheyDisagree) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const auto cluster = cluster_of(2);
    cluster->on_each([&](int rank, ReducingGroup& group) {
      TensorList tensors{counting(10 + rank, type)};
      const std::string text = thrown_by([&] { group.allreduce(tensors)->wait(); });
      EXPECT_TRUE(contains(text, "10 elements"));
      EXPECT_TRUE(contains(text, "11 elements"));
    });
  }
}

TEST_P(AllReduceOf, FailsOnEveryRankWhereTheirOperationsPart) {  // of integers their ways, too
  const auto cluster = cluster_of(2);
  cluster->on_each([](int rank, ReducingGroup& group) {
    TensorList tensors{counting(10, at::kInt)};
    const std::string text =
        thrown_by([&] { group.allreduce(tensors, with(rank == 0 ? Reduced::SUM : Reduced::PRODUCT))->wait(); });
    EXPECT_TRUE(contains(text, "SUM, int32, 10 elements"));
    EXPECT_TRUE(contains(text, "PRODUCT, int32, 10 elements"));
  });
}

TEST_P(AllReduceOf, CoalescedReducesEachTensor) {
  const auto cluster = cluster_of(2);
  cluster->on_each([](int rank, ReducingGroup& group) {
    for (const at::ScalarType type : {at::kInt, at::kDouble}) {
      TensorList tensors{at::full({2}, rank + 1, type), at::full({3}, rank + 10, type)};
      const TensorList mine = tensors;
      group.allreduce_coalesced(tensors)->wait();
      EXPECT_TRUE(same(mine[0], at::full({2}, 3, type)));
      EXPECT_TRUE(same(mine[1], at::full({3}, 21, type)));
    }
  });
}

// ---- reduce ----

class ReduceOf : public EachElements {};
SWITCHML_FOR_EACH_ELEMENTS(ReduceOf);

TEST_P(ReduceOf, WritesToTheRootOnly) {
  const auto cluster = cluster_of(3);
  for (const Reduced& op : {Reduced(Reduced::SUM), Reduced(Reduced::AVG), premultiplying(2.0)}) {
    for (const at::ScalarType type : {at::kFloat, at::kInt, at::kDouble}) {
      if (!engine_operation(op, type)) continue;
      SCOPED_TRACE(std::string(operation_name(op)) + " of " + c10::toString(type));
      cluster->on_each([&](int rank, ReducingGroup& group) {
        TensorList tensors{given_by(rank, type)};
        const at::Tensor mine = tensors[0];
        c10d::ReduceOptions options;
        options.rootRank = 1;
        options.reduceOp = op;
        group.reduce(tensors, options)->wait();
        EXPECT_TRUE(same(mine, rank == 1 ? expected_of(3, type, op) : given_by(rank, type)));
      });
    }
  }
}

// ---- reduce_scatter ----

class ReduceScatterOf : public EachElements {};
SWITCHML_FOR_EACH_ELEMENTS(ReduceScatterOf);

TEST_P(ReduceScatterOf, ListsGivesEachRankItsOwnPiece) {
  const auto cluster = cluster_of(2);
  // The last: more than a megabyte, which goes piece by piece.
  for (const int64_t unit : {int64_t{0}, int64_t{3}, int64_t{200000}}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      cluster->on_each([&](int rank, ReducingGroup& group) {
        std::vector<TensorList> inputs{{at::full({unit}, rank + 1, type), at::full({2, unit}, rank + 5, type)}};
        TensorList outputs{rank == 0 ? at::zeros({unit}, type) : at::zeros({2, unit}, type)};
        const at::Tensor mine = outputs[0];
        group.reduce_scatter(outputs, inputs)->wait();
        EXPECT_TRUE(same(mine, rank == 0 ? at::full({unit}, 3, type) : at::full({2, unit}, 11, type)));
        EXPECT_TRUE(same(inputs[0][0], at::full({unit}, rank + 1, type))) << "an input changed";
      });
    }
  }
}

TEST_P(ReduceScatterOf, ATensorGivesEachRankItsShare) {
  const auto cluster = cluster_of(2);
  for (const Reduced& op : {Reduced(Reduced::SUM), Reduced(Reduced::AVG), Reduced(Reduced::MAX)}) {
    for (const at::ScalarType type : {at::kInt, at::kFloat, at::kDouble}) {
      SCOPED_TRACE(std::string(operation_name(op)) + " of " + c10::toString(type));
      cluster->on_each([&](int rank, ReducingGroup& group) {
        at::Tensor input = given_by(rank, type).narrow(0, 0, 6);
        at::Tensor output = at::zeros({3}, type);
        group._reduce_scatter_base(output, input, scattering(op))->wait();
        EXPECT_TRUE(same(output, expected_of(2, type, op).narrow(0, 3 * rank, 3)));
      });
    }
  }
}

TEST(ReduceScatterTensor, WorksIntoItsInput) {
  const Cluster cluster(2);
  cluster.on_each([](int rank, ReducingGroup& group) {
    at::Tensor input = counting(6);
    at::Tensor output = input.narrow(0, 3 * rank, 3);
    group._reduce_scatter_base(output, input)->wait();
    EXPECT_TRUE(same(output, counting(6).mul(2).narrow(0, 3 * rank, 3)));
  });
}

TEST_P(ReduceScatterOf, CoalescedTensorsDoesEachPair) {
  const auto cluster = cluster_of(2);
  cluster->on_each([](int rank, ReducingGroup& group) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      TensorList inputs{counting(4, type), counting(2, type).mul(10)};
      TensorList outputs{at::zeros({2}, type), at::zeros({1}, type)};
      const TensorList mine = outputs;
      group.reduce_scatter_tensor_coalesced(outputs, inputs)->wait();
      EXPECT_TRUE(same(mine[0], counting(4, type).mul(2).narrow(0, 2 * rank, 2)));
      EXPECT_TRUE(same(mine[1], counting(2, type).mul(20).narrow(0, rank, 1)));
    }
  });
}

class ReduceScatterChecks : public ::testing::Test {
 protected:
  std::string failure_of_lists(TensorList outputs, std::vector<TensorList> inputs) {
    return refusal_of([&] { cluster_[0].reduce_scatter(outputs, inputs); });
  }
  std::string failure_of_tensors(at::Tensor output, at::Tensor input) {
    return refusal_of([&] { cluster_[0]._reduce_scatter_base(output, input); });
  }
  std::string failure_of_pairs(TensorList outputs, TensorList inputs) {
    return refusal_of([&] { cluster_[0].reduce_scatter_tensor_coalesced(outputs, inputs); });
  }
  Cluster cluster_{1};
};

TEST_F(ReduceScatterChecks, OneListWithOneInputForEachRank) {
  EXPECT_TRUE(contains(failure_of_lists({counting(1)}, {{counting(1), counting(1)}}),
                       "invalid input tensor list size, must be world size: the list has 2 tensors; allowed: 1"));
  EXPECT_TRUE(contains(failure_of_lists({}, {}), "reduce_scatter only supports 1 output, not 0"));
}

TEST_F(ReduceScatterChecks, OneTypeAndTheSizeOfTheOwnPiece) {
  EXPECT_TRUE(contains(failure_of_lists({counting(1)}, {{counting(1, at::kInt)}}),
                       "the output's type is float32, the input's int32; allowed: the same type"));
  EXPECT_TRUE(contains(failure_of_lists({counting(2)}, {{counting(3)}}),
                       "the output has 2 elements; allowed: as many as input 0, 3"));
}

TEST_F(ReduceScatterChecks, AnInputOfOnePartForEachRank) {
  EXPECT_TRUE(contains(failure_of_tensors(counting(2), counting(3)),
                       "the input has 3 elements and the output 2; allowed: an input of 1 times the output"));
  EXPECT_TRUE(contains(failure_of_tensors(counting(2), counting(2, at::kInt)),
                       "the output's type is float32, the input's int32; allowed: the same type"));
  EXPECT_TRUE(contains(failure_of_tensors(counting(2, at::kBool), counting(2, at::kDouble)),
                       "the output's type is bool, the input's float64"));
}

TEST_F(ReduceScatterChecks, OneOutputForEachInput) {
  EXPECT_TRUE(contains(failure_of_pairs({counting(1)}, {}),
                       "1 outputs and 0 inputs; allowed: at least one, and one output for each input"));
  EXPECT_TRUE(contains(failure_of_pairs({}, {}), "0 outputs and 0 inputs; allowed: at least one"));
  EXPECT_TRUE(contains(failure_of_pairs({counting(1), counting(1)}, {counting(1), counting(2)}), "the input has 2 el"));
}

TEST_F(ReduceScatterChecks, CountNoCallThatIsRefused) {
  EXPECT_NE(failure_of_tensors(counting(2), counting(3)), "nothing was thrown");
  EXPECT_EQ(cluster_[0].calls().total(Way::kLocal), 0U);
  EXPECT_EQ(cluster_[0].getSequenceNumberForGroup(), 0U);
}

// ---- barrier ----

TEST(Barrier, WaitsForTheCallsBeforeIt) {
  const Cluster cluster(2);
  cluster.on_each([](int rank, ReducingGroup& group) {
    TensorList large{at::full({400000}, static_cast<float>(rank + 1))};
    TensorList moved{at::full({10}, static_cast<float>(rank))};
    const at::Tensor sum = large[0];
    const auto reduced = group.allreduce(large);
    const auto broadcast = group.broadcast(moved);
    group.barrier()->wait();
    EXPECT_TRUE(reduced->isCompleted());
    EXPECT_TRUE(broadcast->isCompleted());
    EXPECT_TRUE(same(sum, at::full({400000}, 3.F)));
  });
  EXPECT_EQ(cluster.count(0, Call::kBarrier, Way::kSwitch), 1U);
}

TEST(Barrier, OfOneIsLocal) {
  const Cluster cluster(1);
  EXPECT_TRUE(cluster[0].barrier()->wait());
  EXPECT_EQ(cluster.count(0, Call::kBarrier, Way::kLocal), 1U);
}

}  // namespace
}  // namespace switchml
