// SWITCHML_PRECISION=exact: a sum of floats has the same bits whatever the layout of the ranks, the path, the payload
// and the buckets [PART-1]. All rows are held to the sum of all terms at once (exact/reduction.h). The hosts are this
// one, by other names; trees are in exact/partial_sums_test.cc, and in tests/vectors/exact_partial_sums_tree.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exact/rank_data.h"
#include "open_sessions.h"

namespace switchml {
namespace {

using testing::Bytes;
using testing::Data;
using testing::kAllData;
using testing::kFloats;
using testing::Random;
using testing::RankData;
using testing::same;

struct Row {
  const char* name;
  const char* hosts;      // Of each rank the host.
  const char* transport;  // Of the setting.
  const char* path;       // What the session has.
  size_t payload = 0;
  bool named_switch = false;
  size_t bucket = 0;  // Elements of a call; 0: the tensor is one.
  Precision precision = Precision::kExact;
};

const Row kRows[] = {
    {"memory", "aaaa", "shm", "shm"},
    {"ranks that send by themselves", "abcd", "udp", "udp"},
    {"the same over TCP", "abcd", "tcp", "tcp"},
    {"a rank a host", "abcd", "auto", "udp"},
    {"two ranks a host", "aabb", "auto", "shm+udp"},
    {"the others two", "abba", "auto", "shm+udp"},
    {"two over TCP", "abab", "tcp", "shm+tcp"},
    {"three and one", "aaab", "auto", "shm+udp"},
    {"three and one over TCP", "baaa", "tcp", "shm+tcp"},
    {"short packets", "aabb", "auto", "shm+udp", 512},
    {"packets of Ethernet", "abbb", "auto", "shm+udp", 1408},
    {"a switch of its own", "aabb", "auto", "shm+udp", 1408, true},
    {"a switch of its own, by themselves", "abcd", "udp", "udp", 1408, true},
    {"buckets", "abbb", "auto", "shm+udp", 1408, false, 700},
    {"buckets in memory", "aaaa", "shm", "shm", 0, false, 129},
};

Config config_of(const Row& row, std::unique_ptr<SwitchServer>* own_switch) {
  Config config = quick_config(seconds(60));
  config.transport = row.transport;
  config.precision = row.precision;
  config.payload_bytes = row.payload;
  if (row.named_switch) *own_switch = start_for_all(&config);
  return config;
}

/// The switch of its own, if the row has one, outlives the sessions.
struct OwnSwitch {
  std::unique_ptr<SwitchServer> own_switch;
};

class Group : private OwnSwitch, public OpenSessions {
 public:
  explicit Group(const Row& row) : OpenSessions(row.hosts, config_of(row, &own_switch)) {}

  /// What each rank has of elements [begin, begin + count), in place.
  void reduce(std::vector<Bytes>* values, ElementType type, size_t begin, size_t count, uint32_t divisor) {
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < values->size(); ++rank) {
      Collective call;
      call.type = type;
      call.count = count;
      uint8_t* elements = (*values)[rank].data() + begin * element_bytes(type);
      call.operands()->input = elements;
      call.operands()->output = {elements, 0, count};
      call.operands()->divisor = divisor;
      pending.push_back(submit(*sessions[rank], std::move(call), seconds(60)));
    }
    for (auto& one : pending) {
      const Status status = one.get();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }

  /// Of all frames that the ranks have sent and received.
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& session : sessions) {
      for (int shard = 0; shard < session->engine().shards(); ++shard) {
        const WorkerCounters& counters = session->engine().counters(shard);
        sum += counters.bytes_sent.get() + counters.bytes_received.get();
      }
    }
    return sum;
  }
};

class LayoutTable : public ::testing::TestWithParam<Row> {};

TEST_P(LayoutTable, HaveTheSameBits) {  // [PART-1]
  const Row& row = GetParam();
  Group group(row);
  ASSERT_TRUE(group.complete());
  EXPECT_EQ(group.sessions[0]->abilities().transport, row.path);
  Random random(50);
  const size_t ranks = group.sessions.size();
  for (const ElementType type : kFloats) {
    for (const Data data : kAllData) {
      for (const size_t count : {size_t{1}, size_t{1500}, size_t{9001}}) {
        const RankData inputs(type, ranks, count, data, random);
        for (const uint32_t divisor : {1U, static_cast<uint32_t>(ranks)}) {
          std::vector<Bytes> values = inputs.inputs;
          const size_t bucket = row.bucket == 0 ? count : row.bucket;
          for (size_t begin = 0; begin < count; begin += bucket) {
            group.reduce(&values, type, begin, std::min(bucket, count - begin), divisor);
            if (HasFatalFailure()) return;
          }
          const Bytes expected = inputs.sum(divisor);
          for (size_t rank = 0; rank < ranks; ++rank) {
            ASSERT_TRUE(same(type, values[rank], expected)) << to_string(type) << ", data " << static_cast<int>(data)
                                                            << ", " << count << " elements, rank " << rank;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, LayoutTable, ::testing::ValuesIn(kRows),
                         [](const ::testing::TestParamInfo<Row>& row) { return "row" + std::to_string(row.index); });

// What leaves eight ranks on two hosts and what comes back, against hosts that round.
TEST(Layouts, TakeAtMostTwiceTheBytesOfHostsThatRound) {  // [PART-4, PART-9]
  const auto bytes_of = [](Row row, ElementType type) {
    constexpr size_t kCount = 200000;
    Group group(row);
    EXPECT_TRUE(group.complete());
    Random random(51);
    std::vector<Bytes> values = RankData(type, 8, kCount, Data::kGradients, random).inputs;
    const uint64_t before = group.bytes();
    group.reduce(&values, type, 0, kCount, 8);
    return static_cast<double>(group.bytes() - before);
  };
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const bool by_tcp : {false, true}) {
      const Row exact{"", "aaaabbbb", by_tcp ? "tcp" : "auto", "", by_tcp ? size_t{0} : 1408, true};
      Row rounding = exact;
      rounding.precision = Precision::kAuto;
      const double ratio = bytes_of(exact, type) / bytes_of(rounding, type);
      EXPECT_LE(ratio, 2.05) << to_string(type) << (by_tcp ? " over TCP" : " over UDP");
      EXPECT_GE(ratio, 1.3) << "the sums went rounded";
      RecordProperty(std::string(to_string(type)) + (by_tcp ? "_tcp" : "_udp"), std::to_string(ratio));
    }
  }
}

}  // namespace
}  // namespace switchml
