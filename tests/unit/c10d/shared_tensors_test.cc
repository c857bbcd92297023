#include "c10d/shared_tensors.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace switchml {

namespace {

using Group = ProcessGroupSwitchML;

Cluster in_memory(int size) {
  return Cluster(size, [](Cluster::Settings& settings) {
    settings.config.transport = "shm";
    settings.config.arena_mib = 64;
  });
}

TEST(SharedTensors, AreAllocatedByTheGroup) {
  const Cluster cluster = in_memory(2);
  cluster.on_each([](int, Group& group) {
    EXPECT_TRUE(group.supportsTensorAlloc(-1));
    const at::Tensor tensor = group.allocateTensor(1000, at::kDouble);
    EXPECT_EQ(tensor.numel(), 1000);
    EXPECT_EQ(tensor.scalar_type(), at::kDouble);
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(group.statistics().arena_bytes, 8192U);
    EXPECT_EQ(group.statistics().arena_limit_bytes, 64U << 20);
    EXPECT_EQ(group.allocateTensor(0, at::kDouble).numel(), 0);
    EXPECT_EQ(group.allocateTensor(1 << 24, at::kDouble).numel(), 1 << 24) << "in ordinary memory";
  });
  cluster.on_each([](int, Group& group) { EXPECT_EQ(group.statistics().arena_bytes, 0U); });
}

TEST(SharedTensors, AreRealToDdpWhereTheyAreComplex) {
  const Cluster cluster = in_memory(2);
  cluster.on_each([](int, Group& group) {
    const at::Tensor bucket = group.allocateTensor(1000, at::kComplexFloat);
    EXPECT_EQ(bucket.scalar_type(), at::kFloat);
    EXPECT_EQ(bucket.sizes(), at::IntArrayRef({2000}));
    EXPECT_TRUE(bucket.is_contiguous());
    EXPECT_EQ(group.statistics().arena_bytes, 8192U);
    EXPECT_EQ(group.allocateTensor(0, at::kComplexDouble).numel(), 0);
    EXPECT_EQ(group.allocate(1000, at::kComplexFloat).scalar_type(), at::kComplexFloat);
  });
}

TEST(SharedTensors, AreReducedWhereTheyAre) {
  const Cluster cluster = in_memory(3);
  cluster.on_each([](int rank, Group& group) {
    constexpr int64_t kCount = 200000;
    at::Tensor tensor = group.allocateTensor(kCount, at::kFloat);
    tensor.fill_(rank + 1);
    TensorList tensors{tensor};
    group.allreduce(tensors)->wait();
    EXPECT_TRUE(same(tensor, at::full({kCount}, 6.F)));
    EXPECT_EQ(group.statistics().worker.at("bytes_written_in_place"), kCount * sizeof(float));
    at::Tensor part = tensor.slice(0, 1001, 150000);  // no whole lines
    part.fill_(rank);
    tensors = {part};
    group.allreduce(tensors)->wait();
    EXPECT_TRUE(same(part, at::full({150000 - 1001}, 3.F)));
    EXPECT_EQ(tensor[1000].item<float>(), 6.F);
    EXPECT_EQ(tensor[150000].item<float>(), 6.F);
  });
}

TEST(SharedTensors, CanBeResized) {
  const Cluster cluster = in_memory(2);
  at::Tensor tensor = cluster[0].allocateTensor(1000, at::kFloat).fill_(3);
  tensor.resize_({5000});
  EXPECT_EQ(tensor[999].item<float>(), 3.F);
  EXPECT_EQ(cluster[0].statistics().arena_bytes, 20480U);
  tensor = at::Tensor();
  EXPECT_EQ(cluster[0].statistics().arena_bytes, 0U);
}

TEST(SharedTensors, OutliveTheirGroup) {
  std::vector<at::Tensor> kept(2);
  {
    const Cluster cluster = in_memory(2);
    cluster.on_each([&](int rank, Group& group) {
      kept[static_cast<size_t>(rank)] = group.allocateTensor(10, at::kFloat).fill_(rank);
    });
    cluster.shutdown();
    cluster.on_each([](int, Group& group) {
      EXPECT_FALSE(group.supportsTensorAlloc(-1));
      EXPECT_EQ(group.allocateTensor(5, at::kFloat).numel(), 5);
    });
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(same(kept[static_cast<size_t>(rank)], at::full({10}, static_cast<float>(rank))));
  }
}

TEST(SharedTensors, AreOrdinaryWhereNoMemoryIsShared) {
  for (const int size : {1, 2}) {
    const Cluster cluster(size);  // through a switch
    EXPECT_FALSE(cluster[0].supportsTensorAlloc(-1));
    EXPECT_EQ(cluster[0].allocateTensor(5, at::kFloat).numel(), 5);
    EXPECT_TRUE(contains(refusal_of([&] { cluster[0].getMemAllocator(); }), "its ranks share no memory"));
  }
}

TEST(SharedTensors, HaveAnAllocatorOfPyTorch) {
  const Cluster cluster = in_memory(2);
  const auto allocator = cluster[0].getMemAllocator();
  {
    const c10::DataPtr memory = allocator->allocate(5000);
    EXPECT_EQ(cluster[0].statistics().arena_bytes, 8192U);
    EXPECT_TRUE(memory.device().is_cpu());
    EXPECT_NE(allocator->allocate(size_t{1} << 27).get(), nullptr) << "in ordinary memory";
  }
  EXPECT_EQ(cluster[0].statistics().arena_bytes, 0U);
}

}  // namespace
}  // namespace switchml
