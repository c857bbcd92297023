// Sessions of ranks on several hosts, each of which is one worker of the switch. The hosts are this one, by other
// names.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <utility>

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

/// "aabbb": two ranks on one host, three on another.
class Cluster {
 public:
  explicit Cluster(const std::string& hosts, const Config& config = preset_config()) {
    const int size = static_cast<int>(hosts.size());
    for (int rank = 0; rank < size; ++rank) {
      stores_.push_back(std::make_unique<PlacedStore>(store_, rank, hosts[static_cast<size_t>(rank)]));
    }
    sessions.resize(hosts.size());
    each_rank(size, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      auto session = Session::open(config, {rank, size, "group g"}, *stores_[r], monotonic_now() + seconds(20));
      EXPECT_TRUE(session.ok()) << session.status().to_string();
      if (session.ok()) sessions[r] = std::move(session.value());
    });
  }
  ~Cluster() {
    each_rank(static_cast<int>(sessions.size()), [&](int rank) { sessions[static_cast<size_t>(rank)].reset(); });
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  bool complete() const {
    for (const auto& session : sessions) {
      if (session == nullptr) return false;
    }
    return true;
  }
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
  uint64_t sum(size_t rank, const std::string& counter) {
    uint64_t total = 0;
    Engine& engine = sessions[rank]->engine();
    for (int shard = 0; shard < engine.shards(); ++shard) {
      engine.counters(shard).for_each([&](const CounterInfo& info, uint64_t value) {
        if (counter == info.name) total += value;
      });
    }
    return total;
  }

 private:
  MapStore store_;
  std::vector<std::unique_ptr<PlacedStore>> stores_;

 public:
  Sessions sessions;
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

TEST(Hosts, InAExactSessionRanksHaveTheSameBitsEveryTime) {
  Cluster cluster("aabbb", with_two_streams());
  ASSERT_TRUE(cluster.complete());
  for (const size_t count : {size_t{257}, size_t{32769}}) {
    for (const bool finite : {true, false}) {
      std::vector<Floats> first;
      for (int time = 0; time < 3; ++time) {
        std::vector<Floats> values = uneven_of_all(5, count, finite);
        cluster.reduce(&values, 5);
        if (time == 0) first = values;
        for (const Floats& mine : values) {
          ASSERT_EQ(std::memcmp(mine.data(), first[0].data(), count * sizeof(float)), 0) << count;
        }
      }
    }
  }
}

TEST(Hosts, ReduceEveryTypeAndOperation) {
  Config integers = with_two_streams();
  integers.precision = Precision::kInteger;
  for (const Config& config : {preset_config(), with_two_streams(), integers}) {
    Cluster cluster("aabbb", config);
    ASSERT_TRUE(cluster.complete());
    for (const size_t count : {0U, 1U, 63U, 680U, 4097U, 100001U}) {
      expect_reduced<float>(cluster.sessions, ElementType::kFloat32, ReduceOp::kSum, count);
      expect_reduced<float>(cluster.sessions, ElementType::kFloat32, ReduceOp::kMin, count);
      expect_reduced<float>(cluster.sessions, ElementType::kFloat32, ReduceOp::kMax, count);
      expect_reduced<int8_t>(cluster.sessions, ElementType::kInt8, ReduceOp::kSum, count);
      expect_reduced<uint8_t>(cluster.sessions, ElementType::kUInt8, ReduceOp::kMax, count);
      expect_reduced<int16_t>(cluster.sessions, ElementType::kInt16, ReduceOp::kMin, count);
      expect_reduced<int32_t>(cluster.sessions, ElementType::kInt32, ReduceOp::kMax, count);
      expect_reduced<int64_t>(cluster.sessions, ElementType::kInt64, ReduceOp::kSum, count);
      expect_reduced<double>(cluster.sessions, ElementType::kFloat64, ReduceOp::kSum, count);
    }
  }
}

TEST(Hosts, SendOnceForAllTheirRanks) {
  constexpr size_t kCount = 1 << 20;
  const auto packets_of_host_a = [](const std::string& hosts) {
    Cluster cluster(hosts);
    EXPECT_TRUE(cluster.complete());
    std::vector<Floats> values(hosts.size(), Floats(kCount, 1.0F));
    cluster.reduce(&values);
    EXPECT_EQ(values.back(), Floats(kCount, static_cast<float>(hosts.size())));
    uint64_t first_transmissions = 0, senders = 0;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      EXPECT_EQ(cluster.sum(rank, "elements_summed_in_memory"), size_t{kCount});
      if (hosts[rank] != 'a') continue;
      const uint64_t sent = cluster.sum(rank, "packets_sent");
      first_transmissions += sent - cluster.sum(rank, "retransmissions") - cluster.sum(rank, "repeats_waiting");
      senders += sent > 0 ? 1 : 0;
    }
    EXPECT_EQ(senders, 3U) << "each rank takes its turn";
    return first_transmissions;
  };
  const uint64_t three = packets_of_host_a("aaabbb");
  const uint64_t chunks = kCount * sizeof(float) / (128 * 1024);
  Cluster alone("ab", preset_config());
  ASSERT_TRUE(alone.complete());
  EXPECT_EQ(alone[0].abilities().transport, "udp");
  std::vector<Floats> values(2, Floats(kCount, 1.0F));
  alone.reduce(&values);
  const uint64_t one = alone.sum(0, "packets_sent") - alone.sum(0, "retransmissions") - alone.sum(0, "repeats_waiting");
  EXPECT_LE(three, one + chunks) << "one chunk of exponents more for each chunk of the board, at most";
  constexpr uint64_t kAnnouncements = 2;  // of a bulk collective, to each of two switches; boards make their own
  EXPECT_GE(three + kAnnouncements, one);
}

TEST(Hosts, ABarrierEndsWhenAllHaveCalledIt) {
  Cluster cluster("aabb");
  ASSERT_TRUE(cluster.complete());
  const auto enter = [&](size_t rank) { return submit(cluster[rank], barrier_call()); };
  std::vector<std::future<Status>> pending;
  for (const size_t rank : {0U, 1U, 3U}) pending.push_back(enter(rank));
  for (const auto& one : pending) EXPECT_FALSE(ends_within(one, milliseconds(50)));
  pending.push_back(enter(2));
  for (auto& one : pending) {
    const Status status = one.get();
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
}

TEST(Hosts, SendByThemselvesWhereTheSettingsSaySo) {
  Config slots = preset_config();
  slots.slots = 4;
  Config shards = preset_config();
  shards.shards = 2;
  for (const Config& config : {quick_config(), slots, shards}) {
    Cluster cluster("aabb", config);
    ASSERT_TRUE(cluster.complete());
    for (size_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(cluster[rank].abilities().transport, "udp");
      EXPECT_EQ(cluster[rank].parameters().workers, 4);
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

void expect_all_differ(std::vector<std::future<Status>>* pending) {
  for (auto& one : *pending) {
    ASSERT_TRUE(ends_within(one, seconds(10)));
    const Status status = one.get();
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  }
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
  for (const char* hosts : {"aabb", "abab", "aaab", "abbca"}) {
    for (const Config& config : {preset_config(), with_two_streams()}) {
      Cluster cluster(hosts, config);
      ASSERT_TRUE(cluster.complete());
      for (const size_t count : {0U, 1U, 63U, 3000U, 70001U, 1000003U}) {
        expect_gathered(cluster, count, -1);
        for (const int root : {0, 1, 3}) {
          expect_gathered(cluster, count, root);
          expect_broadcast_and_scattered(cluster, count, root);
        }
      }
    }
  }
}

TEST(Hosts, ThatMoveDifferentlyAreTold) {
  for (const size_t odd : {1U, 2U}) {
    Cluster cluster("aabb", with_two_streams());
    ASSERT_TRUE(cluster.complete());
    std::vector<Bytes> tensors(4, Bytes(5000));
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < 4; ++rank) {
      pending.push_back(
          submit(cluster[rank], broadcast_of(&tensors[rank], static_cast<int>(rank), rank == odd ? 3 : 0)));
    }
    expect_all_differ(&pending);
  }
}

// Of the sum a host gets what its ranks want.
TEST(Hosts, AHostGetsThePartThatItsRanksWant) {
  Config integers = with_two_streams();
  integers.precision = Precision::kInteger;
  for (const Config& config : {preset_config(), integers}) {
    Cluster cluster("aabb", config);
    ASSERT_TRUE(cluster.complete());
    constexpr size_t kPart = 50000;
    std::vector<Floats> values(4, Floats(4 * kPart)), parts(4, Floats(kPart));
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < 4 * kPart; ++i) values[rank][i] = static_cast<float>(i % 1000 + rank);
      Collective call = in_place(&values[rank], ElementType::kFloat32);
      call.operands()->output.data = parts[rank].data();
      call.operands()->output.begin = rank * kPart;
      call.operands()->output.end = (rank + 1) * kPart;
      call.kind = ReduceScatter{*call.operands(), {kPart, 2 * kPart, 3 * kPart, 4 * kPart}};
      pending.push_back(submit(cluster[rank], std::move(call)));
    }
    expect_all_ok(&pending);
    for (size_t rank = 0; rank < 4; ++rank) {
      for (size_t i = 0; i < kPart; ++i) {
        ASSERT_EQ(parts[rank][i], static_cast<float>((rank * kPart + i) % 1000 * 4 + 6)) << rank << ", " << i;
      }
    }
  }
}

// ---- what goes wrong ----

TEST(Hosts, DifferentCallsFailOnAllHosts) {
  struct Case {
    const char* hosts;
    size_t odd;
  };
  for (const Case& c : {Case{"aabb", 1}, Case{"aabb", 2}, Case{"abbb", 0}, Case{"abab", 3}}) {
    Cluster cluster(c.hosts);
    ASSERT_TRUE(cluster.complete());
    std::vector<Floats> values(4, Floats(100));
    values[c.odd].resize(200);
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

TEST(Hosts, TensorsOfAllSizesInAQueue) {
  for (const char* hosts : {"aabb", "aaaabbbb", "abbb"}) {
    Cluster cluster(hosts, with_two_streams());
    ASSERT_TRUE(cluster.complete());
    const size_t ranks = std::string(hosts).size();
    std::vector<std::vector<Floats>> values(ranks);
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < 60; ++i) {
        values[rank].emplace_back(i % 4 == 0 ? 70000 : 37 * i);
        for (size_t k = 0; k < values[rank][i].size(); ++k) {
          values[rank][i][k] = static_cast<float>((31 * i + k) % 97 + rank);
        }
      }
      for (Floats& each : values[rank])
        pending.push_back(submit(cluster[rank], in_place(&each, ElementType::kFloat32)));
    }
    for (auto& one : pending) {
      ASSERT_TRUE(ends_within(one, seconds(20)));
      const Status status = one.get();
      EXPECT_TRUE(status.ok()) << status.to_string();
    }
    for (const auto& mine : values) {
      for (size_t i = 0; i < mine.size(); ++i) {
        for (size_t k = 0; k < mine[i].size(); ++k) {
          ASSERT_EQ(mine[i][k], static_cast<float>((31 * i + k) % 97 * ranks + ranks * (ranks - 1) / 2)) << hosts;
        }
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
  expect_all_differ(&pending);
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

TEST(Hosts, ARankThatDoesNotCallIsNamedOnItsHost) {
  Cluster cluster("aabb");
  ASSERT_TRUE(cluster.complete());
  std::vector<Floats> values(4, Floats(1000, 1.0F));
  std::vector<std::future<Status>> pending;
  for (const size_t rank : {0U, 1U, 2U}) {
    pending.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32), seconds(1)));
  }
  for (size_t i = 0; i < pending.size(); ++i) {
    ASSERT_TRUE(ends_within(pending[i], seconds(60)));
    const Status status = pending[i].get();
    EXPECT_EQ(status.code(), Code::kTimeout) << status.to_string();
    EXPECT_TRUE(contains(
        status, i == 2 ? "no contribution from rank 3 for" : "no contribution from rank 2 or 3 (one host) for"))
        << status.message();
  }
}

TEST(Hosts, ASwitchThatEndsIsToldToAllRanks) {
  Config config = preset_config();
  config.failure_timeout = seconds(2);
  auto server = start_for_all(&config);
  Cluster cluster("aabb", config);
  ASSERT_TRUE(cluster.complete());
  std::vector<Floats> values(4, Floats(1000, 1.0F));
  cluster.reduce(&values);
  server.reset();
  std::vector<std::future<Status>> pending;
  for (size_t rank = 0; rank < 4; ++rank) {
    pending.push_back(submit(cluster[rank], in_place(&values[rank], ElementType::kFloat32)));
  }
  for (auto& one : pending) {
    ASSERT_TRUE(ends_within(one, seconds(15)));
    const Status status = one.get();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    EXPECT_TRUE(contains(status, "the switch")) << status.message();
  }
}

}  // namespace
}  // namespace switchml
