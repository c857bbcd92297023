// all_to_all and all_to_all_single: what the user gets.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "moving.h"

namespace switchml {
namespace {

using AllToAllEachWay = EachWayOfMoving;
INSTANTIATE_TEST_SUITE_P(Movements, AllToAllEachWay, ::testing::Values(Way::kPeers, Way::kMemory),
                         [](const auto& way) { return to_string(way.param); });

TEST_P(AllToAllEachWay, AllToAllSingleSplitsAlongTheFirstDimension) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      // Rank 0 keeps one row and gives two; rank 1 gives one and keeps none.
      std::vector<int64_t> input_splits = rank == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1, 0};
      std::vector<int64_t> output_splits = rank == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2, 0};
      at::Tensor input = of_rank(rank, {rank == 0 ? 3 : 1, 4}, type);
      at::Tensor output = at::zeros({2, 4}, type);
      const at::Tensor mine = output;
      group.alltoall_base(output, input, output_splits, input_splits)->wait();
      EXPECT_TRUE(same(mine[0], of_rank(0, {4}, type)));
      EXPECT_TRUE(same(mine[1], of_rank(rank == 0 ? 1 : 0, {4}, type)));
    });
  }
}

TEST_P(AllToAllEachWay, AllToAllSingleSplitsEvenlyWithoutSizes) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : {at::kFloat, at::kBool}) {
    cluster.on_each([&](int rank, MovingGroup& group) {
      std::vector<int64_t> none;
      at::Tensor input = of_rank(rank, {4}, type);
      at::Tensor output = at::zeros({4}, type);
      const at::Tensor mine = output;
      group.alltoall_base(output, input, none, none)->wait();
      EXPECT_TRUE(same(mine.narrow(0, 0, 2), of_rank(0, {2}, type)));
      EXPECT_TRUE(same(mine.narrow(0, 2, 2), of_rank(1, {2}, type)));
    });
  }
}

TEST_P(AllToAllEachWay, AllToAllTakesPiecesOfTypesAndSizesOfTheirOwn) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    // Pieces of different types, sizes and layouts, one of them empty.
    const Strided strided(at::kFloat);
    TensorList outputs{strided.view, at::zeros({0}, at::kDouble)};
    TensorList inputs{counting(6).view({3, 2}).t().add(rank), at::zeros({0}, at::kDouble)};
    if (rank == 1) {
      outputs = {at::zeros({0}, at::kDouble), at::zeros({3}, at::kBool)};
      inputs = {at::zeros({0}, at::kDouble), at::tensor({1, 0, 1}, at::kInt).to(at::kBool)};
    }
    const TensorList mine = outputs;
    group.alltoall(outputs, inputs)->wait();
    if (rank == 0) {
      EXPECT_TRUE(same(mine[0], counting(6).view({3, 2}).t()));
      expect_untouched(strided);
    } else {
      EXPECT_TRUE(same(mine[1], at::tensor({1, 0, 1}, at::kInt).to(at::kBool)));
    }
  });
  EXPECT_EQ(cluster.count(0, Call::kAllToAll, GetParam()), 1U);
}

TEST_P(AllToAllEachWay, AllToAllAlignsThePieces) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    // Rank 0 gives bytes, rank 1 doubles: what comes from rank 1 lies behind three bytes.
    const auto piece = [](int from, int to) {
      return from == 0 ? at::full({3}, to + 1, at::kByte) : at::full({2}, to + 10, at::kDouble);
    };
    TensorList inputs{piece(rank, 0), piece(rank, 1)};
    TensorList outputs{at::zeros({3}, at::kByte), at::zeros({2}, at::kDouble)};
    const TensorList mine = outputs;
    group.alltoall(outputs, inputs)->wait();
    for (int from = 0; from < 2; ++from) EXPECT_TRUE(same(mine[static_cast<size_t>(from)], piece(from, rank)));
  });
}

TEST(AllToAll, RefusesAnotherNumberOfPieces) {
  const Cluster cluster(1);
  TensorList two{at::zeros({1}), at::zeros({1})};
  TensorList one{at::zeros({1})};
  EXPECT_TRUE(contains(refusal_of([&] { cluster[0].alltoall(one, two); }),
                       "switchml all_to_all: input tensor list size 2 does not match world size 1"));
  EXPECT_EQ(cluster[0].calls().total(Way::kLocal), 0U);
}

TEST_P(AllToAllEachWay, ThatDoesNotFitFailsOnEveryRankAndNothingElseDoes) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    at::Tensor input = of_rank(rank, {4}, at::kFloat);
    at::Tensor output = at::zeros({3});
    std::vector<int64_t> sends{2, 2}, expects{rank == 0 ? 1 : 2, rank == 0 ? 2 : 1};
    EXPECT_TRUE(contains(refusal_of([&] { group.alltoall_base(output, input, expects, sends)->wait(); }),
                         "rank 0 sends 8 bytes of float32 to rank 0, which expects 4 bytes of float32"));
    TensorList tensors{of_rank(rank, {5}, at::kFloat)};
    const at::Tensor mine = tensors[0];
    group.broadcast(tensors)->wait();
    EXPECT_TRUE(same(mine, of_rank(0, {5}, at::kFloat)));
  });
}

TEST_P(AllToAllEachWay, AllToAllTakesPiecesOfAnyLayout) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor one = of_rank(rank, {1, 2}, at::kFloat).select(1, 1);  // an element with a stride of 2
    TensorList inputs{one, at::_neg_view(of_rank(rank, {3}, at::kFloat))};
    TensorList outputs{at::zeros({rank == 0 ? 1 : 3}), at::zeros({rank == 0 ? 1 : 3})};
    const TensorList mine = outputs;
    group.alltoall(outputs, inputs)->wait();
    for (int from = 0; from < 2; ++from) {
      const at::Tensor sent = rank == 0 ? of_rank(from, {1}, at::kFloat) : of_rank(from, {3}, at::kFloat).neg();
      EXPECT_TRUE(same(mine[static_cast<size_t>(from)], sent));
    }
  });
}

}  // namespace
}  // namespace switchml
