// send and recv: what the user gets.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "moving.h"

namespace switchml {
namespace {

using MessagesEachWay = EachWayOfMoving;
INSTANTIATE_TEST_SUITE_P(Movements, MessagesEachWay, ::testing::Values(Way::kPeers, Way::kMemory),
                         [](const auto& way) { return to_string(way.param); });

TEST_P(MessagesEachWay, MessagesMoveEveryType) {
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
}

TEST_P(MessagesEachWay, MessagesComeFromAnyRank) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    TensorList tensors{of_rank(rank, {5}, at::kBFloat16)};
    const at::Tensor mine = tensors[0];
    (rank == 1 ? group.send(tensors, 0, 3) : group.recvAnysource(tensors, 3))->wait();
    EXPECT_TRUE(same(mine, of_rank(1, {5}, at::kBFloat16)));
  });
  EXPECT_EQ(cluster.count(0, Call::kRecvAnySource, GetParam()), 1U);
}

TEST_P(MessagesEachWay, MessagesSendFromAStridedTensor) {
  const Cluster cluster(2, way());
  cluster.on_each([](int rank, MovingGroup& group) {
    const at::Tensor strided = counting(6, at::kShort).view({2, 3}).t();
    TensorList tensors{rank == 0 ? strided : at::zeros({3, 2}, at::kShort)};
    const at::Tensor mine = tensors[0];
    (rank == 0 ? group.send(tensors, 1, 0) : group.recv(tensors, 0, 0))->wait();
    EXPECT_TRUE(same(mine, strided));
  });
}

TEST_P(MessagesEachWay, MessagesMayCrossACollective) {
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

}  // namespace
}  // namespace switchml
