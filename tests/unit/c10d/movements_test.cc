// The collectives that reduce nothing: what the user gets.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "moving.h"

namespace switchml {
namespace {

using EachWay = EachWayOfMoving;
INSTANTIATE_TEST_SUITE_P(Movements, EachWay, ::testing::Values(Way::kSwitch, Way::kMemory),
                         [](const auto& way) { return to_string(way.param); });

// ---- broadcast ----

TEST_P(EachWay, BroadcastMovesEveryTypeAndLayout) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      const Strided here(type);
      here.view.copy_(of_rank(rank, {2, 3}, type));
      TensorList tensors{here.view};
      c10d::BroadcastOptions options;
      options.rootRank = 1;
      group.broadcast(tensors, options)->wait();
      EXPECT_TRUE(same(here.view, of_rank(1, {2, 3}, type)));
      expect_untouched(here);
    });
  }
  EXPECT_EQ(cluster.count(0, Call::kBroadcast, GetParam()), kMoved.size());
}

TEST_P(EachWay, BroadcastOfSeveralTensorsReachesAllOfThem) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList tensors{of_rank(2 * rank, {3}, at::kFloat), of_rank(2 * rank + 1, {3}, at::kFloat)};
    c10d::BroadcastOptions options;
    options.rootTensor = 1;
    group.broadcast(tensors, options)->wait();
    for (const at::Tensor& tensor : tensors) EXPECT_TRUE(same(tensor, of_rank(1, {3}, at::kFloat)));
  });
}

TEST_P(EachWay, BroadcastTakesScalarsAndNothing) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList scalar{at::scalar_tensor(rank == 0, at::kBool)};
    group.broadcast(scalar)->wait();
    EXPECT_TRUE(scalar[0].item<bool>());
    TensorList empty{at::empty({3, 0}, at::kBool)};
    group.broadcast(empty)->wait();
  });
}

TEST(Broadcast, GivesTheTensorsAsTheFuturesValue) {
  const Cluster cluster(1);
  for (const at::ScalarType type : kMoved) {
    TensorList tensors{of_rank(0, {2}, type)};
    const at::Tensor mine = tensors[0];
    const auto work = cluster[0].broadcast(tensors);
    work->wait();
    const auto value = work->getFuture()->value().toTensorVector();
    ASSERT_EQ(value.size(), 1U);
    EXPECT_TRUE(same(value[0], mine)) << c10::toString(type);
  }
}

// ---- all_gather ----

TEST_P(EachWay, AllGatherMovesEveryTypeAndLayout) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      const Strided input(type);
      input.view.copy_(of_rank(rank, {2, 3}, type));
      const Strided output(type);
      std::vector<TensorList> outputs{{output.view, at::zeros({2, 3}, type)}};
      const TensorList mine = outputs[0];
      TensorList inputs{input.view};
      group.allgather(outputs, inputs)->wait();
      for (int from = 0; from < 2; ++from) {
        EXPECT_TRUE(same(mine[static_cast<size_t>(from)], of_rank(from, {2, 3}, type)));
      }
      expect_untouched(output);
    });
  }
}

TEST_P(EachWay, AllGatherTakesNothing) {
  const Cluster cluster(2, way());
  cluster.on_each([](int, MovingGroup& group) {
    std::vector<TensorList> outputs{{at::empty({0}), at::empty({0})}};
    TensorList inputs{at::empty({0})};
    const auto work = group.allgather(outputs, inputs);
    work->wait();
    EXPECT_EQ(work->getFuture()->value().toTensorVector().at(1).numel(), 0);
  });
}

TEST_P(EachWay, AllGatherOfSeveralTensorsGivesEachListAll) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList inputs{of_rank(2 * rank, {3}, at::kShort), of_rank(2 * rank + 1, {3}, at::kShort)};
    const at::Tensor shared = at::zeros({2, 4, 3}, at::kShort);
    std::vector<TensorList> outputs{shared[0].unbind(), shared[1].unbind()};
    const auto work = group.allgather(outputs, inputs);
    work->wait();
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(same(shared[0][i], of_rank(static_cast<int>(i), {3}, at::kShort)));
    }
    EXPECT_TRUE(same(shared[1], shared[0]));
    EXPECT_EQ(work->getFuture()->value().toList().size(), 2U);
  });
}

TEST_P(EachWay, AllGatherCoalescedMovesEachTensor) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : {at::kFloat, at::kBool}) {
    cluster.on_each([&](int rank, MovingGroup& group) {
      TensorList inputs{of_rank(rank, {2}, type), of_rank(rank + 1, {3}, type)};
      std::vector<TensorList> outputs{{at::zeros({2}, type), at::zeros({3}, type)},
                                      {at::zeros({2}, type), at::zeros({3}, type)}};
      const std::vector<TensorList> mine = outputs;
      group.allgather_coalesced(outputs, inputs)->wait();
      for (int from = 0; from < 2; ++from) {
        EXPECT_TRUE(same(mine[static_cast<size_t>(from)][0], of_rank(from, {2}, type)));
        EXPECT_TRUE(same(mine[static_cast<size_t>(from)][1], of_rank(from + 1, {3}, type)));
      }
    });
  }
}

// ---- all_gather_into_tensor ----

TEST_P(EachWay, AllGatherIntoTensorMovesEveryType) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      at::Tensor input = of_rank(rank, {3}, type);
      at::Tensor output = at::zeros({6}, type);
      const at::Tensor mine = output;
      group._allgather_base(output, input)->wait();
      for (int from = 0; from < 2; ++from) {
        EXPECT_TRUE(same(mine.narrow(0, 3 * from, 3), of_rank(from, {3}, type)));
      }
    });
  }
  EXPECT_EQ(cluster.count(1, Call::kAllGatherIntoTensor, GetParam()), kMoved.size());
}

TEST_P(EachWay, AllGatherIntoTensorMovesStridedTensorsAndNothing) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    const Strided output(at::kFloat);  // 2 x 3: a row for each rank
    at::Tensor input = counting(6).view({2, 3}).t().select(1, rank);
    at::Tensor to = output.view;
    ASSERT_FALSE(input.is_contiguous() && to.is_contiguous());
    group._allgather_base(to, input)->wait();
    EXPECT_TRUE(same(output.view, counting(6).view({2, 3})));
    expect_untouched(output);
    at::Tensor empty = at::empty({0});
    at::Tensor all_of_it = at::empty({0});
    group._allgather_base(all_of_it, empty)->wait();
  });
}

TEST(AllGatherIntoTensor, RefusesAnOutputOfAnotherSize) {
  const Cluster cluster(1);
  at::Tensor output = at::zeros({5});
  at::Tensor input = at::zeros({3});
  EXPECT_TRUE(contains(refusal_of([&] { cluster[0]._allgather_base(output, input); }),
                       "the output has 5 elements and the input 3; allowed: an output of 1 times the input"));
}

TEST_P(EachWay, AllGatherIntoTensorCoalescedMovesEachPair) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList inputs{of_rank(rank, {2}, at::kFloat), of_rank(rank, {1}, at::kBool)};
    TensorList outputs{at::zeros({4}), at::zeros({2}, at::kBool)};
    const TensorList mine = outputs;
    group.allgather_into_tensor_coalesced(outputs, inputs)->wait();
    EXPECT_TRUE(same(mine[0], at::tensor({1.F, 1.F, 2.F, 2.F})));
    EXPECT_TRUE(mine[1][0].item<bool>());
    EXPECT_FALSE(mine[1][1].item<bool>());
  });
}

TEST(AllGatherIntoTensorCoalesced, RefusesListsOfDifferentLengths) {
  const Cluster cluster(1);
  TensorList outputs{at::zeros({1}), at::zeros({1})};
  TensorList inputs{at::zeros({1})};
  EXPECT_TRUE(contains(refusal_of([&] { cluster[0].allgather_into_tensor_coalesced(outputs, inputs); }),
                       "2 outputs and 1 inputs; allowed: at least one, and one output for each input"));
  EXPECT_EQ(cluster.count(0, Call::kAllGatherIntoTensorCoalesced, Way::kLocal), 0U);
}

// ---- gather, scatter ----

TEST_P(EachWay, GatherMovesEveryTypeToTheRoot) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      TensorList inputs{of_rank(rank, {2, 2}, type)};
      std::vector<TensorList> outputs;
      if (rank == 1) outputs = {{at::zeros({2, 2}, type), at::zeros({2, 2}, type)}};
      const std::vector<TensorList> mine = outputs;
      c10d::GatherOptions options;
      options.rootRank = 1;
      group.gather(outputs, inputs, options)->wait();
      if (rank == 0) return;
      for (int from = 0; from < 2; ++from) {
        EXPECT_TRUE(same(mine[0][static_cast<size_t>(from)], of_rank(from, {2, 2}, type)));
      }
    });
  }
}

TEST_P(EachWay, ScatterMovesEveryTypeFromTheRoot) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      const Strided output(type);
      TensorList outputs{output.view};
      std::vector<TensorList> inputs;
      if (rank == 0) inputs = {{of_rank(10, {2, 3}, type), of_rank(11, {2, 3}, type)}};
      group.scatter(outputs, inputs)->wait();
      EXPECT_TRUE(same(output.view, of_rank(10 + rank, {2, 3}, type)));
      expect_untouched(output);
    });
  }
}

TEST(AllGather, ToTensorsThatShareMemoryWritesInTheOrderOfTheList) {
  const Cluster cluster(2, [](Cluster::Settings& mine) { mine.config.transport = "shm"; });
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor whole = at::zeros({3});
    std::vector<TensorList> outputs{{whole.narrow(0, 0, 2), whole.narrow(0, 1, 2)}};
    TensorList inputs{of_rank(rank, {2}, at::kFloat)};
    group.allgather(outputs, inputs)->wait();
    EXPECT_TRUE(same(whole, at::tensor({1.F, 2.F, 2.F})));
  });
}

TEST(AllGather, ReadsAnInputThatOverlapsWithAnOutputFirst) {
  const Cluster cluster(2, [](Cluster::Settings& mine) { mine.config.transport = "shm"; });
  constexpr int64_t kCount = 500000;
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor memory = at::zeros({2 * kCount + 1});
    at::Tensor input = memory.narrow(0, kCount / 2, kCount);
    input.fill_(rank + 1);
    at::Tensor output = memory.narrow(0, 1, 2 * kCount);
    group._allgather_base(output, input)->wait();
    EXPECT_TRUE(same(memory.narrow(0, 1, kCount), at::full({kCount}, 1.F)));
    EXPECT_TRUE(same(memory.narrow(0, 1 + kCount, kCount), at::full({kCount}, 2.F)));
  });
}

TEST(AllGatherCoalesced, ToTensorsThatShareMemoryWritesListAfterList) {
  const Cluster cluster(2, [](Cluster::Settings& mine) { mine.config.transport = "shm"; });
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor whole = at::zeros({2});
    // Rank 0's second tensor, then rank 1's first one, go to the same place.
    std::vector<TensorList> outputs{{whole.narrow(0, 0, 1), whole.narrow(0, 1, 1)},
                                    {whole.narrow(0, 1, 1), at::zeros({1})}};
    TensorList inputs{of_rank(rank, {1}, at::kFloat), of_rank(rank + 10, {1}, at::kFloat)};
    group.allgather_coalesced(outputs, inputs)->wait();
    EXPECT_TRUE(same(whole, at::tensor({1.F, 2.F})));
  });
}

TEST(Scatter, ReadsAPieceThatTheOutputOverlapsFirst) {
  const Cluster cluster(2, [](Cluster::Settings& mine) { mine.config.transport = "shm"; });
  constexpr int64_t kCount = 1000000;
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor memory = at::arange(kCount + 5, at::kInt);
    const at::Tensor piece = memory.narrow(0, 0, kCount);
    TensorList outputs{rank == 0 ? memory.narrow(0, 5, kCount) : at::zeros({kCount}, at::kInt)};
    std::vector<TensorList> inputs;
    if (rank == 0) inputs = {{piece, piece}};
    const at::Tensor mine = outputs[0];
    group.scatter(outputs, inputs)->wait();
    EXPECT_TRUE(same(mine, at::arange(kCount, at::kInt)));
  });
}

// ---- all of them ----

TEST(Movements, RefuseTensorsOfOtherDevices) {
  const Cluster cluster(1);
  MovingGroup& group = cluster[0];
  at::Tensor there = at::empty({2}, at::device(at::kMeta));
  TensorList list{there};
  std::vector<TensorList> lists{list};
  std::vector<int64_t> none;
  const auto refuses = [](const char* call, const std::function<void()>& f) {
    EXPECT_TRUE(contains(refusal_of(f), std::string("switchml ") + call + ": unsupported device type meta"));
  };
  refuses("broadcast", [&] { group.broadcast(list); });
  refuses("all_gather", [&] { group.allgather(lists, list); });
  refuses("all_gather_into_tensor", [&] { group._allgather_base(there, there); });
  refuses("all_gather_coalesced", [&] { group.allgather_coalesced(lists, list); });
  refuses("all_gather_into_tensor_coalesced", [&] { group.allgather_into_tensor_coalesced(list, list); });
  refuses("gather", [&] { group.gather(lists, list); });
  refuses("scatter", [&] { group.scatter(list, lists); });
  refuses("all_to_all_single", [&] { group.alltoall_base(there, there, none, none); });
  refuses("all_to_all", [&] { group.alltoall(list, list); });
  refuses("send", [&] { group.send(list, 0, 0); });
  refuses("recv", [&] { group.recv(list, 0, 0); });
  refuses("recv_any_source", [&] { group.recvAnysource(list, 0); });
}

TEST(Movements, FailWhenTheGroupEndsWithoutTheOthers) {
  const Cluster cluster(2);
  TensorList tensors{counting(3, at::kBool)};
  const auto work = cluster[0].broadcast(tensors);
  EXPECT_FALSE(work->isCompleted());
  cluster.shutdown();
  EXPECT_NE(thrown_by([&] { work->wait(milliseconds(20000)); }), "");
}

}  // namespace
}  // namespace switchml
