// all_reduce of sparse tensors, against that of the same tensors made dense.
#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {
namespace {

using SparseGroup = ProcessGroupSwitchML;
constexpr int kSparseRanks = 3;

/// Of 4 x 5 rows of 2 elements: rank 0 has some places twice, rank 1 none, and rank 2 some of rank 0's.
at::Tensor entries_of(int rank, at::ScalarType type) {
  const at::Tensor places =
      at::tensor({0, 3, 3, 1, 0, 4, 4, 2}, at::kLong).view({2, 4}).narrow(1, 0, rank == 1 ? 0 : 4 - rank);
  const at::Tensor values = counting(2 * places.size(1)).view({places.size(1), 2}).add(rank).to(type);
  return at::sparse_coo_tensor(places, values, {4, 5, 2});
}

at::Tensor dense_sum(at::ScalarType type) {
  at::Tensor sum = at::zeros({4, 5, 2}, type);
  for (int rank = 0; rank < kSparseRanks; ++rank) sum.add_(entries_of(rank, type).to_dense());
  return sum;
}

c10d::AllreduceOptions reducing_by(const c10d::ReduceOp& op) {
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return options;
}

TEST(SparseAllReduce, AddsEveryTypeWhereverEntriesAre) {
  for (const bool integers : {false, true}) {
    const Cluster cluster(kSparseRanks, [&](Cluster::Settings& settings) {
      if (integers) settings.config.precision = Precision::kInteger;
    });
    for (const at::ScalarType type :
         {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kInt, at::kLong, at::kByte, at::kComplexFloat}) {
      SCOPED_TRACE(c10::toString(type));
      cluster.on_each([&](int rank, SparseGroup& group) {
        TensorList tensors{entries_of(rank, type)};
        group.allreduce(tensors)->wait();
        EXPECT_TRUE(tensors[0].is_coalesced());
        EXPECT_EQ(tensors[0]._nnz(), 3);
        EXPECT_TRUE(same(tensors[0].to_dense(), dense_sum(type)));
      });
    }
    EXPECT_GT(cluster.count(0, Call::kAllReduce, Way::kSwitch), 0U);
  }
}

TEST(SparseAllReduce, TakesMeansFactorsListsAndNothing) {
  const Cluster cluster(kSparseRanks);
  cluster.on_each([](int rank, SparseGroup& group) {
    TensorList mean{entries_of(rank, at::kDouble)};
    group.allreduce(mean, reducing_by(c10d::ReduceOp::AVG))->wait();
    EXPECT_TRUE(same(mean[0].to_dense(), dense_sum(at::kDouble).div(kSparseRanks)));
    TensorList several{entries_of(rank, at::kFloat), entries_of(rank, at::kFloat)};
    group.allreduce_sparse(several, reducing_by(premultiplying(2)))->wait();
    for (const at::Tensor& tensor : several) EXPECT_TRUE(same(tensor.to_dense(), dense_sum(at::kFloat).mul(4)));
    TensorList empty{entries_of(1, at::kFloat)};
    group.allreduce(empty)->wait();
    EXPECT_EQ(empty[0]._nnz(), 0);
  });
  EXPECT_EQ(cluster.count(0, Call::kAllReduceSparse, Way::kSwitch), 1U);
  const Cluster alone(1);
  TensorList mine{entries_of(0, at::kFloat)};
  alone[0].allreduce(mine)->wait();
  EXPECT_TRUE(same(mine[0].to_dense(), entries_of(0, at::kFloat).to_dense()));
  EXPECT_EQ(alone.count(0, Call::kAllReduce, Way::kLocal), 1U);
}

// Their pieces and what is called after them keep one order on all ranks, whenever each piece is there.
TEST(SparseAllReduce, KeepsItsPlaceAmongOtherCalls) {
  const Cluster cluster(kSparseRanks);
  cluster.on_each([](int rank, SparseGroup& group) {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    std::vector<TensorList> sparse, dense;
    for (int i = 0; i < 20; ++i) {
      sparse.push_back({entries_of((rank + i) % kSparseRanks, at::kFloat)});
      dense.push_back({at::full({100 + i}, rank + i)});
    }
    for (size_t i = 0; i < sparse.size(); ++i) {
      works.push_back(group.allreduce(sparse[i]));
      if (i % 3 == 0) works.push_back(group.allreduce(dense[i]));
    }
    works.push_back(group.barrier());
    for (const auto& work : works) work->wait();
    for (const TensorList& list : sparse) EXPECT_TRUE(same(list[0].to_dense(), dense_sum(at::kFloat)));
    for (int i = 0; i < 20; i += 3) {
      EXPECT_TRUE(same(dense[static_cast<size_t>(i)][0], at::full({100 + i}, kSparseRanks * i + 3)));
    }
  });
}

TEST(SparseAllReduce, RanksThatDisagreeAreTold) {
  const Cluster cluster(2);
  cluster.on_each([](int rank, SparseGroup& group) {
    TensorList tensors{at::eye(3 + rank).to_sparse()};
    const auto later = group.allreduce(tensors);
    TensorList dense{counting(3)};
    const auto last = group.allreduce(dense);
    const std::string text = thrown_by([&] { later->wait(); });
    EXPECT_TRUE(contains(text, "SUM, sparse float32, 9 elements of [3, 3] with 2 sparse dimensions"));
    EXPECT_TRUE(contains(text, "SUM, sparse float32, 16 elements of [4, 4] with 2 sparse dimensions"));
    EXPECT_NE(thrown_by([&] { last->wait(); }), "");
  });
}

TEST(SparseAllReduce, RefusesWhatIsNoSum) {
  const Cluster cluster(1);
  TensorList tensors{entries_of(0, at::kFloat)};
  EXPECT_TRUE(contains(refusal_of([&] { cluster[0].allreduce(tensors, reducing_by(c10d::ReduceOp::MAX)); }),
                       "allreduce of sparse tensors only works with ReduceOp.SUM"));
}

}  // namespace
}  // namespace switchml
