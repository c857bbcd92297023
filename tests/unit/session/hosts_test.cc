// Sessions of ranks on several hosts, each of which is one worker of the switch. The hosts are this one, by other
// names.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "open_sessions.h"
#include "reduced.h"

namespace switchml {
namespace {

using Floats = std::vector<float>;

/// With the largest payload that loopback takes, a session has slots for one stream only.
Config with_two_streams() {
  Config config = preset_config();
  config.payload_bytes = 1024;
  return config;
}

Collective barrier_call() {
  Collective barrier;
  barrier.op = ReduceOp::kBarrier;
  barrier.title = "barrier()";
  return barrier;
}

class Cluster : public OpenSessions {
 public:
  explicit Cluster(const std::string& hosts, const Config& config = preset_config()) : OpenSessions(hosts, config) {}
  Session& operator[](size_t rank) { return *sessions[rank]; }
  /// Every rank reduces its own.
  void reduce(std::vector<Floats>* values, uint32_t divisor = 1) {
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < values->size(); ++rank) {
      Collective call = in_place(&(*values)[rank], ElementType::kFloat32);
      call.operands()->divisor = divisor;
      pending.push_back(submit(*sessions[rank], std::move(call)));
    }
    for (auto& one : pending) {
      const Status status = one.get();
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
  }
};

/// The ranks' numbers, and some that are not finite.
std::vector<Floats> uneven_of_all(size_t ranks, size_t count, bool finite = true) {
  std::vector<Floats> all;
  for (size_t rank = 0; rank < ranks; ++rank) {
    Floats values = uneven(static_cast<int>(rank), count);
    std::mt19937 random(static_cast<unsigned>(rank + 1));
    if (!finite && count > 0) values[random() % count] = rank % 2 == 0 ? INFINITY : -INFINITY;
    if (!finite && count > 300) values[random() % 300] = NAN;
    all.push_back(std::move(values));
  }
  return all;
}

TEST(Hosts, HaveTheBitsOfRanksThatSendByThemselves) {  // [HOST-2, HOST-3]
  Config flat = quick_config();
  flat.precision = Precision::kInteger;
  flat.payload_bytes = 1024;
  for (const auto& [hosts, payload] : {std::pair{"aabbb", 1024}, {"abab", 1024}, {"aaab", 1024}, {"aabbb", 1408}}) {
    const size_t ranks = std::string(hosts).size();
    Config preset = preset_config();
    preset.precision = Precision::kInteger;
    preset.payload_bytes = static_cast<size_t>(payload);
    Cluster with(hosts, preset);
    Cluster without(hosts, flat);
    ASSERT_TRUE(with.complete() && without.complete());
    for (size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(with[rank].abilities().transport, "shm+udp");
      EXPECT_EQ(without[rank].abilities().transport, "udp");
      EXPECT_EQ(with[rank].parameters().workers, 2);
    }
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{257}, size_t{1024}, size_t{2048}, size_t{4096}, size_t{32769}, size_t{300001}}) {
      for (const bool finite : {true, false}) {
        std::vector<Floats> some = uneven_of_all(ranks, count, finite);
        std::vector<Floats> same = some;
        with.reduce(&some, 3);
        without.reduce(&same, 3);
        for (size_t rank = 0; rank < ranks && count > 0; ++rank) {
          ASSERT_EQ(std::memcmp(some[rank].data(), same[0].data(), count * sizeof(float)), 0)
              << hosts << ", " << count << " elements, rank " << rank;
        }
      }
    }
  }
}

// A host rounds what its ranks add, and the switch once more: where nothing is to be rounded there is no difference.
TEST(Hosts, InAExactSessionSumsAreExactWhereTheyCanBe) {
  for (const char* hosts : {"aabbb", "abab"}) {
    const size_t ranks = std::string(hosts).size();
    Cluster cluster(hosts, with_two_streams());
    ASSERT_TRUE(cluster.complete());
    EXPECT_TRUE(cluster[0].parameters().exact);
    for (const size_t count : {size_t{1}, size_t{257}, size_t{32769}, size_t{300001}}) {
      std::vector<Floats> values(ranks, Floats(count));
      Floats means(count);
      std::mt19937 random(static_cast<unsigned>(count));
      for (size_t i = 0; i < count; ++i) {  // as no block of integers has them beside each other
        const float unit = std::ldexp(1.0F, static_cast<int>(random() % 60) - 30);
        for (Floats& mine : values) {
          mine[i] = unit * static_cast<float>(static_cast<int>(random() % 2001) - 1000);
          means[i] += mine[i];
        }
        means[i] /= 3;  // rounded once
      }
      cluster.reduce(&values, 3);
      for (size_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(values[rank], means) << hosts << ", " << count;
    }
  }
}

// ---- what moves ----

using Bytes = std::vector<uint8_t>;

/// What a rank has, of which no two ranks have the same.
Bytes bytes_of(size_t rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

template <typename Kind>
Collective movement_of(Kind kind, size_t count) {
  Collective call;
  call.kind = std::move(kind);
  call.type = ElementType::kUInt8;
  call.title = "moved";
  call.count = count;
  return call;
}

Collective broadcast_of(Bytes* tensor, int rank, int root) {
  const bool is_root = rank == root;
  return movement_of(Broadcast{root, is_root ? tensor->data() : nullptr, is_root ? nullptr : tensor->data()},
                     tensor->size());
}

void expect_all_ok(std::vector<std::future<Status>>* pending) {
  for (auto& one : *pending) {
    const Status status = one.get();
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  pending->clear();
}

/// Its results: `all_to` is the rank that wants them, or all where it is -1.
void expect_gathered(Cluster& cluster, size_t count, int all_to) {
  const size_t ranks = cluster.sessions.size();
  std::vector<Bytes> inputs;
  for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(bytes_of(rank, count));
  std::vector<std::vector<Bytes>> got(ranks, std::vector<Bytes>(ranks, Bytes(count)));
  std::vector<std::future<Status>> pending;
  for (size_t rank = 0; rank < ranks; ++rank) {
    Gather call{inputs[rank].data(), {}};
    const bool wants = all_to < 0 || all_to == static_cast<int>(rank);
    for (Bytes& one : got[rank]) {
      if (wants) call.receive_ranges.push_back({one.data(), 0, count});
    }
    if (!wants) got[rank] = inputs;
    pending.push_back(submit(cluster[rank], movement_of(call, count)));
  }
  expect_all_ok(&pending);
  for (size_t rank = 0; rank < ranks; ++rank) EXPECT_TRUE(got[rank] == inputs) << count << " bytes, rank " << rank;
}

void expect_broadcast_and_scattered(Cluster& cluster, size_t count, int root) {
  const size_t ranks = cluster.sessions.size();
  std::vector<Bytes> got, pieces, own(ranks, Bytes(count));
  for (size_t rank = 0; rank < ranks; ++rank) got.push_back(bytes_of(rank, count));
  pieces = got;
  const Bytes wanted = got[static_cast<size_t>(root)];
  std::vector<std::future<Status>> pending;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const bool is_root = static_cast<int>(rank) == root;
    pending.push_back(submit(cluster[rank], broadcast_of(&got[rank], static_cast<int>(rank), root)));
    Scatter call{root, {}, own[rank].data()};
    for (const Bytes& piece : pieces) {
      if (is_root) call.inputs.push_back(piece.data());
    }
    pending.push_back(submit(cluster[rank], movement_of(call, count)));
  }
  expect_all_ok(&pending);
  EXPECT_EQ(got, std::vector<Bytes>(ranks, wanted)) << count << " bytes from rank " << root;
  EXPECT_EQ(own, pieces) << count << " bytes from rank " << root;
}

TEST(Hosts, MoveWhatTheirRanksHave) {  // [MOVED-1, MOVED-9]
  for (const Config& config : {preset_config(), with_two_streams()}) {
    Cluster cluster("abbca", config);
    ASSERT_TRUE(cluster.complete());
    for (const size_t count : {0U, 63U, 70001U}) {
      expect_gathered(cluster, count, -1);
      for (const int root : {0, 1, 3}) {
        expect_gathered(cluster, count, root);
        expect_broadcast_and_scattered(cluster, count, root);
      }
    }
  }
}

// ---- what goes wrong ----

// The one through the board of small tensors, the other through that of large ones.
TEST(Hosts, ALargeTensorAndASmallOneFailOnAllHosts) {  // [HOST-5]
  for (const size_t odd : {1U, 2U}) {
    for (const bool large : {true, false}) {
      Cluster cluster("aabb", with_two_streams());
      ASSERT_TRUE(cluster.complete());
      std::vector<Floats> values(4, Floats(large ? 100 : 100000));
      values[odd].resize(large ? 100000 : 100);
      std::vector<std::future<Status>> pending;
      for (size_t rank = 0; rank < 4; ++rank) {
        pending.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32)));
      }
      for (size_t rank = 0; rank < 4; ++rank) {
        ASSERT_TRUE(ends_within(pending[rank], seconds(10)));
        const Status status = pending[rank].get();
        EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
        const std::string mine = "float32, " + std::to_string(values[rank].size()) + " elements)";
        EXPECT_TRUE(contains(status, "this rank called all_reduce(SUM, " + mine)) << status.message();
      }
    }
  }
}

TEST(Hosts, ASmallTensorOvertakesALargeOne) {  // [HOST-4, HOST-5]
  Cluster cluster("aaaabbbb", with_two_streams());
  ASSERT_TRUE(cluster.complete());
  if (!cluster[0].parameters().lanes_per_shard().has_bulk()) {
    GTEST_SKIP() << "sockets queue too little here for two streams (net.core.rmem_max), and this is not root";
  }
  bool has_overtaken = false;
  for (int attempt = 0; attempt < 5 && !has_overtaken; ++attempt) {  // on a busy machine this thread may come late
    std::vector<Floats> large(8, Floats(1 << 22, 1.0F)), small(8, Floats(100, 1.0F));
    std::vector<std::future<Status>> first, barrier, second;
    for (size_t rank = 0; rank < 8; ++rank) {
      first.push_back(submit(cluster[rank], in_place(&large[rank], ElementType::kFloat32)));
      barrier.push_back(submit(cluster[rank], barrier_call()));
      second.push_back(submit(cluster[rank], in_place(&small[rank], ElementType::kFloat32)));
    }
    for (auto& one : second) EXPECT_TRUE(one.get().ok());
    has_overtaken = !ends_within(first.front(), milliseconds(0));
    for (size_t rank = 0; rank < 8; ++rank) {
      EXPECT_TRUE(barrier[rank].get().ok());
      EXPECT_TRUE(ends_within(first[rank], milliseconds(0))) << "barriers end after what was called before them";
      EXPECT_TRUE(first[rank].get().ok());
    }
    EXPECT_EQ(large.back(), Floats(1 << 22, 8.0F));
  }
  EXPECT_TRUE(has_overtaken);
}

TEST(Hosts, ABarrierDoesNotWaitForASmallTensorBehindIt) {
  Cluster cluster("abbb", with_two_streams());
  ASSERT_TRUE(cluster.complete());
  std::vector<Floats> values(4, Floats(100, 1.0F));
  std::vector<std::future<Status>> barriers, sums;
  barriers.push_back(submit(cluster[0], barrier_call()));
  sums.push_back(submit(cluster[0], in_place(&values[0], ElementType::kFloat32)));
  for (size_t rank = 1; rank < 4; ++rank) barriers.push_back(submit(cluster[rank], barrier_call()));
  for (auto& one : barriers) {
    ASSERT_TRUE(ends_within(one, seconds(60)));
    EXPECT_TRUE(one.get().ok());
  }
  for (size_t rank = 1; rank < 4; ++rank) {
    sums.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32)));
  }
  for (auto& one : sums) EXPECT_TRUE(one.get().ok());
  EXPECT_EQ(values.back(), Floats(100, 4.0F));
}

// Both hosts hold the same two different calls: their sums would match.
TEST(Hosts, TheSameDifferenceOnAllHostsIsFoundToo) {  // [HOST-11]
  Cluster cluster("aabb");
  ASSERT_TRUE(cluster.complete());
  std::vector<Floats> values(4, Floats(100));
  std::vector<std::future<Status>> pending;
  for (size_t rank = 0; rank < 4; ++rank) {
    Collective call = in_place(&values[rank], ElementType::kFloat32);
    call.tag = rank % 2;
    pending.push_back(submit(cluster[rank], std::move(call)));
  }
  for (auto& one : pending) {
    ASSERT_TRUE(ends_within(one, seconds(10)));
    const Status status = one.get();
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  }
}

TEST(Hosts, WhoLeavesEndsWhatAllOthersWaitFor) {
  for (const size_t leaver : {1U, 2U, 4U}) {
    Cluster cluster("aabbb");
    ASSERT_TRUE(cluster.complete());
    std::vector<Floats> values(5, Floats(100000, 1.0F));
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < 5; ++rank) {
      if (rank == leaver) continue;
      pending.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32)));
    }
    for (const auto& one : pending) EXPECT_FALSE(ends_within(one, milliseconds(20)));
    cluster.sessions[leaver].reset();
    for (auto& one : pending) {
      ASSERT_TRUE(ends_within(one, seconds(60))) << "without rank " << leaver;
      const Status status = one.get();
      EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
      EXPECT_TRUE(contains(status, "rank " + std::to_string(leaver) + " (left the session)")) << status.message();
    }
  }
}

// Rank 0 has ended the watch that would tell them.
TEST(Hosts, OtherHostsSeeThatOneHasGivenUp) {
  Config config = preset_config();
  const auto server = start_for_all(&config);
  Cluster cluster("aabb", config);
  ASSERT_TRUE(cluster.complete());
  std::vector<Floats> values(4, Floats(1000, 1.0F));
  std::vector<std::future<Status>> pending;
  cluster.sessions[0].reset();
  for (const size_t rank : {1U, 2U, 3U}) {
    pending.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32)));
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    ASSERT_TRUE(ends_within(pending[i], seconds(10))) << "rank " << i + 1;
    const Status status = pending[i].get();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    EXPECT_TRUE(contains(status, i == 0 ? "rank 0 (left the session)" : "rank 0 or 1 (one host) (left the session)"))
        << status.message();
  }
}

TEST(Hosts, WhatIsCompleteStaysCompleteWhereOneLeaves) {  // [HOST-10]
  for (int round = 0; round < 10; ++round) {
    Cluster cluster("abbab");
    ASSERT_TRUE(cluster.complete());
    each_rank(5, [&](int rank) {
      Floats values(70000, static_cast<float>(rank));
      const Status status = all_reduce(cluster[static_cast<size_t>(rank)], &values);
      EXPECT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(values, Floats(values.size(), 10.0F));
      cluster.sessions[static_cast<size_t>(rank)].reset();
    });
  }
}

// A rank that is done may leave while another of its host still asks the switch for a result that was lost.
TEST(Hosts, TheLastRankOfAHostTakesLeave) {
  Config config = preset_config();
  const auto server = start_for_all(&config);
  Cluster cluster("aabb", config);
  ASSERT_TRUE(cluster.complete());
  const auto closed = [&] { return server->counters().sessions_closed.get(); };
  for (const size_t rank : {1U, 2U}) cluster.sessions[rank].reset();
  EXPECT_EQ(closed(), 0U);
  cluster.sessions[0].reset();
  EXPECT_EQ(closed(), 0U);
  cluster.sessions[3].reset();
  EXPECT_EQ(closed(), 1U);
}

}  // namespace
}  // namespace switchml
