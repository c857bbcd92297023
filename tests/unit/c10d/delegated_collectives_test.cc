// The collectives that reduce nothing: what the user gets, and what Gloo is asked for.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "fixture.h"

namespace switchml {
namespace {

using MovingGroup = ProcessGroupSwitchML;

/// Types that Gloo moves as bytes only, beside one that it knows.
const std::vector<at::ScalarType> kMoved = {at::kFloat, at::kBool, at::kBFloat16, at::kShort, at::kComplexFloat};

at::Tensor of_rank(int rank, std::vector<int64_t> shape, at::ScalarType type) {
  return at::full(shape, rank + 1, at::kFloat).fmod(type == at::kBool ? 2 : 100).to(type);
}

/// A tensor whose every second column is free to be written: never contiguous.
struct Strided {
  explicit Strided(at::ScalarType type) : all(at::zeros({2, 6}, type)), view(all.slice(1, 0, 6, 2)) {}
  at::Tensor all;
  at::Tensor view;
};

void expect_untouched(const Strided& strided) {
  const at::Tensor between = strided.all.slice(1, 1, 6, 2);
  EXPECT_TRUE(same(between, at::zeros_like(between))) << "written between the elements";
}

bool is_bytes(const at::Tensor& tensor) { return tensor.scalar_type() == at::kByte && tensor.is_contiguous(); }

/// A switch that adds integers moves nothing.
void with_integers(Cluster::Settings& settings) { settings.config.precision = Precision::kInteger; }

/// By Gloo, and in memory.
class EachWay : public ::testing::TestWithParam<Way> {
 protected:
  static bool by_gloo() { return GetParam() == Way::kGloo; }
  static std::function<void(Cluster::Settings&)> way() {
    if (by_gloo()) return with_integers;
    return [](Cluster::Settings& settings) { settings.config.transport = "shm"; };
  }
};
INSTANTIATE_TEST_SUITE_P(Movements, EachWay, ::testing::Values(Way::kGloo, Way::kMemory),
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
    if (by_gloo()) {
      EXPECT_EQ(cluster.gloo->last(0).root, 1);
    }
  }
  EXPECT_EQ(cluster.count(0, Call::kBroadcast, GetParam()), kMoved.size());
}

TEST(Broadcast, GivesGlooTheTensorItselfOrItsBytes) {
  const Cluster cluster(2, with_integers);
  cluster.on_each([&](int rank, MovingGroup& group) {
    TensorList known{counting(3)};
    group.broadcast(known)->wait();
    EXPECT_EQ(cluster.gloo->last(rank).inputs[0][0].data_ptr(), known[0].data_ptr());
    TensorList foreign{counting(3, at::kBFloat16)};
    group.broadcast(foreign)->wait();
    const at::Tensor bytes = cluster.gloo->last(rank).inputs[0][0];
    EXPECT_TRUE(is_bytes(bytes));
    EXPECT_EQ(bytes.numel(), 6);
    EXPECT_EQ(bytes.data_ptr(), foreign[0].data_ptr()) << "a copy where an alias would do";
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

TEST(AllGather, StandsInForEmptyTensors) {
  const Cluster cluster(2, with_integers);
  cluster.on_each([](int, MovingGroup& group) {
    std::vector<TensorList> outputs{{at::empty({0}), at::empty({0})}};
    TensorList inputs{at::empty({0})};
    const auto work = group.allgather(outputs, inputs);
    work->wait();
    EXPECT_EQ(work->getFuture()->value().toTensorVector().at(1).numel(), 0);
    EXPECT_EQ(outputs[0][0].numel(), 0);
  });
  const GlooCall call = cluster.gloo->last(0);
  EXPECT_EQ(call.outputs[0].size(), 2U);
  for (const TensorList& list : {call.outputs[0], call.inputs[0]}) {
    for (const at::Tensor& tensor : list) EXPECT_EQ(tensor.numel(), 1) << "an old Gloo divides by the size";
  }
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
    if (by_gloo()) {
      EXPECT_EQ(cluster.gloo->last(0).inputs[0][0].scalar_type(), type == at::kBool ? at::kByte : type);
    }
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
  EXPECT_EQ(cluster.count(0, Call::kAllGatherIntoTensorCoalesced, Way::kGloo), 0U);
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

// ---- all_to_all ----

TEST_P(EachWay, AllToAllSingleSplitsAlongTheFirstDimension) {
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

TEST_P(EachWay, AllToAllSingleSplitsEvenlyWithoutSizes) {
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

TEST_P(EachWay, AllToAllPacksThePiecesIntoOneExchangeOfBytes) {
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
  if (!by_gloo()) return;
  const GlooCall call = cluster.gloo->last(0);
  EXPECT_EQ(call.name, "alltoall_base");
  EXPECT_TRUE(is_bytes(call.inputs[0][0]));
  EXPECT_EQ(call.input_splits, (std::vector<int64_t>{24, 0}));
  EXPECT_EQ(cluster.gloo->last(1).input_splits, (std::vector<int64_t>{0, 3}));
}

TEST_P(EachWay, AllToAllAlignsThePieces) {
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
  EXPECT_EQ(cluster.count(0, Call::kAllToAll, Way::kGloo), 0U);
}

TEST(AllToAll, ThatDoesNotFitFailsInMemoryOnEveryRankAndNothingElseDoes) {
  const Cluster cluster(2, [](Cluster::Settings& mine) { mine.config.transport = "shm"; });
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

TEST_P(EachWay, AllToAllTakesPiecesOfAnyLayout) {
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

// ---- point to point ----

TEST_P(EachWay, MessagesMoveEveryType) {
  const Cluster cluster(2, way());
  for (const at::ScalarType type : kMoved) {
    SCOPED_TRACE(c10::toString(type));
    cluster.on_each([&](int rank, MovingGroup& group) {
      TensorList tensors{of_rank(rank, {5}, type)};
      const at::Tensor mine = tensors[0];
      (rank == 0 ? group.send(tensors, 1, 7) : group.recv(tensors, 0, 7))->wait();
      EXPECT_TRUE(same(mine, of_rank(0, {5}, type)));
    });
  }
  EXPECT_EQ(cluster.count(0, Call::kSend, GetParam()), kMoved.size());
  EXPECT_EQ(cluster.count(1, Call::kRecv, GetParam()), kMoved.size());
  if (by_gloo()) {
    EXPECT_EQ(cluster.gloo->last(0).tag, 7);
  }
}

TEST_P(EachWay, MessagesComeFromAnyRank) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList tensors{of_rank(rank, {5}, at::kBFloat16)};
    const at::Tensor mine = tensors[0];
    (rank == 1 ? group.send(tensors, 0, 3) : group.recvAnysource(tensors, 3))->wait();
    EXPECT_TRUE(same(mine, of_rank(1, {5}, at::kBFloat16)));
  });
  EXPECT_EQ(cluster.count(0, Call::kRecvAnySource, GetParam()), 1U);
}

TEST_P(EachWay, MessagesSendFromAStridedTensor) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor strided = counting(6, at::kShort).view({2, 3}).t();
    TensorList tensors{rank == 0 ? strided : at::zeros({3, 2}, at::kShort)};
    const at::Tensor mine = tensors[0];
    (rank == 0 ? group.send(tensors, 1, 0) : group.recv(tensors, 0, 0))->wait();
    EXPECT_TRUE(same(mine, strided));
  });
}

TEST_P(EachWay, MessagesMayCrossACollective) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList tensors{of_rank(rank, {1}, at::kFloat)};
    const at::Tensor mine = tensors[0];
    c10::intrusive_ptr<c10d::Work> received;
    if (rank == 1) received = group.recv(tensors, 0, 0);
    EXPECT_TRUE(group.barrier()->wait()) << "a barrier does not wait for messages";
    if (rank == 0) received = group.send(tensors, 1, 0);
    received->wait();
    EXPECT_TRUE(same(mine, of_rank(0, {1}, at::kFloat)));
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
  EXPECT_TRUE(cluster.gloo->calls(0).empty());
}

TEST(Movements, PassOnWhatGlooThrows) {
  const Cluster cluster(2);
  cluster.on_each([](int, MovingGroup& group) {
    TensorList tensors{at::zeros({2}, at::kComplexDouble)};
    c10d::AllreduceOptions product;
    product.reduceOp = c10d::ReduceOp::PRODUCT;
    EXPECT_TRUE(contains(thrown_by([&] { group.allreduce(tensors, product)->wait(); }),
                         "fake gloo: allreduce of ComplexDouble"));
  });
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
