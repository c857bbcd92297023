#include "c10d/message_call.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fixture.h"

namespace switchml {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

void share_memory(Cluster::Settings& mine) { mine.config.transport = "shm"; }

Work send(Cluster::Group& group, const at::Tensor& tensor, int to, int tag = 0) {
  TensorList list{tensor};
  return group.send(list, to, tag);
}
Work recv(Cluster::Group& group, const at::Tensor& tensor, int from, int tag = 0) {
  TensorList list{tensor};
  return group.recv(list, from, tag);
}

// More than is on its way at once.
at::Tensor many(float value) { return at::full({1 << 20}, value); }

TEST(MemoryMessage, CompletesWhoeverWaitsForIt) {
  const Cluster cluster(2, share_memory);
  const at::Tensor given = many(3);
  const at::Tensor got = many(0);
  const Work received = recv(cluster[1], got, 0);
  const Work sent = send(cluster[0], given, 1);
  EXPECT_TRUE(received->wait());
  EXPECT_TRUE(sent->wait());
  EXPECT_TRUE(received->isCompleted() && received->isSuccess());
  EXPECT_TRUE(same(got, given));
  EXPECT_EQ(received->sourceRank(), 0);
  EXPECT_TRUE(same(received->result().at(0), got));
  EXPECT_TRUE(same(received->getFuture()->value().toTensorVector().at(0), got));
}

TEST(MemoryMessage, CompletesThoughNobodyWaits) {
  const Cluster cluster(2, share_memory);
  const at::Tensor got = many(0);
  const Work received = recv(cluster[1], got, 0);
  const Work sent = send(cluster[0], many(3), 1);
  const Time end = monotonic_now() + seconds(60);
  while (!(received->isCompleted() && sent->isCompleted()) && monotonic_now() < end) std::this_thread::yield();
  EXPECT_TRUE(received->isCompleted() && sent->isCompleted());
  EXPECT_TRUE(same(got, many(3)));
}

TEST(MemoryMessage, IsCompleteAtOnceWhereItIsThere) {
  const Cluster cluster(2, share_memory);
  const at::Tensor got = at::zeros({4});
  EXPECT_TRUE(send(cluster[0], counting(4), 1)->isCompleted());
  TensorList list{got};
  const Work received = cluster[1].recvAnysource(list, 0);
  EXPECT_TRUE(received->isCompleted());
  EXPECT_EQ(received->sourceRank(), 0);
  EXPECT_TRUE(same(got, counting(4)));
}

TEST(MemoryMessage, IsWaitedForByManyThreads) {
  const Cluster cluster(2, share_memory);
  const at::Tensor got = many(0);
  const Work received = recv(cluster[1], got, 0);
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&] {
      received->wait();
      EXPECT_TRUE(same(got, many(7)));
    });
  }
  send(cluster[0], many(7), 1)->wait();
  for (std::thread& thread : waiting) thread.join();
}

TEST(MemoryMessage, RunsTheCallbacksOfItsFuture) {
  const Cluster cluster(2, share_memory);
  const at::Tensor got = at::zeros({4});
  const Work received = recv(cluster[1], got, 0);
  const auto sum = received->getFuture()->then(
      [](c10::ivalue::Future& future) { return c10::IValue(future.value().toTensorVector().at(0).sum()); },
      c10::TensorType::get());
  send(cluster[0], counting(4), 1)->wait();
  sum->wait();
  EXPECT_EQ(sum->value().toTensor().item<float>(), 10);
}

TEST(MemoryMessage, NamesSizesThatDiffer) {
  const Cluster cluster(2, share_memory);
  const Work received = recv(cluster[1], at::zeros({2}), 0, 5);
  send(cluster[0], counting(4), 1, 5)->wait();
  EXPECT_TRUE(
      contains(thrown_by([&] { received->wait(); }),
               "switchml recv on rank 1 of 2 (group test): mismatch: recv of 8 bytes from rank 0 with tag 5 got "
               "a message of 16 bytes from rank 0, which is gone"));
  EXPECT_TRUE(contains(thrown_by([&] { received->getFuture()->waitAndThrow(); }), "16 bytes"));
}

TEST(MemoryMessage, TimesOutWithItsGroup) {
  const Cluster cluster(2, share_memory);
  for (const int rank : {0, 1}) cluster[rank].setTimeout(milliseconds(500));
  const std::string said = thrown_by([&] { recv(cluster[1], counting(2), 0, 5)->wait(); });
  EXPECT_TRUE(contains(said, "timeout: recv of 8 bytes from rank 0 with tag 5 did not complete"));
  EXPECT_TRUE(contains(said, "rank 0 has not sent it"));
  for (const int rank : {0, 1}) {
    TensorList list{counting(2)};
    EXPECT_TRUE(contains(thrown_by([&] { cluster[rank].allreduce(list)->wait(); }), "recv of 8 bytes from rank 0"));
  }
}

TEST(MemoryMessage, GoesOnWhenAWaitForItEnds) {
  const Cluster cluster(2, share_memory);
  const at::Tensor got = at::zeros({4});
  const Work received = recv(cluster[1], got, 0);
  EXPECT_TRUE(contains(thrown_by([&] { received->wait(milliseconds(20)); }), "gave up after 20 ms"));
  send(cluster[0], counting(4), 1)->wait();
  received->wait();
  EXPECT_TRUE(same(got, counting(4)));
}

TEST(MemoryMessage, EndsWithItsGroup) {
  for (const bool aborts : {true, false}) {
    const Cluster cluster(2, share_memory);
    const Work received = recv(cluster[1], counting(2), 0);
    const Work sent = send(cluster[1], many(1), 0);
    std::string said;
    std::thread waiting([&] { said = thrown_by([&] { received->wait(); }); });
    if (aborts) {
      cluster[1].abort();
    } else {
      cluster[1].shutdown();
    }
    waiting.join();
    EXPECT_TRUE(contains(said, aborts ? "was aborted" : "was shut down"));
    EXPECT_TRUE(contains(thrown_by([&] { sent->wait(); }), aborts ? "was aborted" : "was shut down"));
    EXPECT_FALSE(thrown_by([&] { send(cluster[1], counting(2), 0)->wait(); }).empty());
  }
}

TEST(MemoryMessage, RefusesItsOwnRank) {
  const Cluster cluster(2, share_memory);
  EXPECT_TRUE(contains(refusal_of([&] { send(cluster[1], counting(2), 1); }), "switchml send: invalid rank: 1"));
  EXPECT_TRUE(contains(refusal_of([&] { recv(cluster[1], counting(2), 1); }), "switchml recv: invalid rank: 1"));
}

TEST(MemoryMessage, CountsItsBytes) {
  const Cluster cluster(2, share_memory);
  send(cluster[0], counting(4), 1)->wait();
  recv(cluster[1], at::zeros({4}), 0)->wait();
  EXPECT_EQ(cluster[1].statistics().worker.at("bytes_moved_in_memory"), 16U);
  EXPECT_EQ(cluster[0].statistics().worker.at("bytes_moved_in_memory"), 0U);
}

}  // namespace
}  // namespace switchml
