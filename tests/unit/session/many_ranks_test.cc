// Groups of more ranks than a switch has workers: hosts are the workers, and a limit that stays is an error of all
// ranks before any of them waits. The hosts are this one, by other names, and the ranks are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "agree_each.h"
#include "exact/float_format.h"
#include "kernels/exact_sum.h"
#include "messages/messages.h"
#include "open_sessions.h"
#include "socket/descriptor_limit.h"

namespace switchml {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

/// Ranks that are threads have the descriptors of all in one process.
constexpr size_t kDescriptors = 2048;

// ---- groups that are open ----

std::string hosts_of(std::initializer_list<size_t> ranks) {
  std::string hosts;
  char host = 'a';
  for (const size_t count : ranks) hosts.append(count, host++);
  return hosts;
}

/// Each rank's elements of a type: any significands, with exponents near that of 1, so that sums are rounded.
std::vector<Bytes> elements_of(size_t ranks, ElementType type, size_t count) {
  const FloatFormat format = format_of(type);
  const uint64_t hidden = uint64_t{1} << (format.precision - 1);
  std::vector<Bytes> all(ranks, Bytes(count * element_bytes(type)));
  uint64_t state = 1;
  for (Bytes& mine : all) {
    for (size_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const uint64_t field = format.limit / hidden / 2 - (state >> 60);
      const uint64_t bits = field * hidden + (state >> 20) % hidden + ((state >> 59 & 1) != 0 ? format.sign() : 0);
      std::memcpy(&mine[i * element_bytes(type)], &bits, element_bytes(type));
    }
  }
  return all;
}

uint64_t bits_at(const Bytes& elements, ElementType type, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, &elements[i * element_bytes(type)], element_bytes(type));
  return bits;
}

/// The exact sum of some ranks' elements, divided and then rounded once.
Bytes rounded_sum(const std::vector<Bytes>& inputs, ElementType type, uint32_t divisor) {
  const size_t size = element_bytes(type);
  Bytes result(inputs[0].size());
  for (size_t i = 0; i < result.size() / size; ++i) {
    std::vector<double> terms;
    for (const Bytes& input : inputs) terms.push_back(number_of(bits_at(input, type, i), format_of(type)));
    ExactTotal total;
    for (const double term : terms) total.add(term);
    const uint64_t bits = total.rounded(divisor, format_of(type));
    std::memcpy(&result[i * size], &bits, size);
  }
  return result;
}

class ManyRanks : public OpenSessions {
 public:
  ManyRanks(const std::string& hosts, Precision precision) : OpenSessions(hosts, config_of(precision)), hosts_(hosts) {}

  /// All-reduce of what each rank has, in place.
  void reduce(std::vector<Bytes>* values, ElementType type, uint32_t divisor) {
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < values->size(); ++rank) {
      Collective call;
      call.type = type;
      call.count = (*values)[rank].size() / element_bytes(type);
      call.operands()->input = (*values)[rank].data();
      call.operands()->output = {(*values)[rank].data(), 0, call.count};
      call.operands()->divisor = divisor;
      pending.push_back(submit(*sessions[rank], std::move(call), kPatience));
    }
    expect_ok(&pending);
  }
  void move(const std::function<Collective(size_t rank)>& call_of) {
    std::vector<std::future<Status>> pending;
    for (size_t rank = 0; rank < sessions.size(); ++rank) {
      Collective call = call_of(rank);
      call.type = ElementType::kUInt8;
      call.title = "moved";
      pending.push_back(submit(*sessions[rank], std::move(call), kPatience));
    }
    expect_ok(&pending);
  }
  /// As hosts that round their parts make it: those of a mean by more than the header takes are divided first.
  Bytes rounded_by_hosts(const std::vector<Bytes>& inputs, ElementType type, uint32_t divisor) const {
    std::vector<Bytes> parts;
    for (char host = 'a'; host <= 'z'; ++host) {
      std::vector<Bytes> here;
      for (size_t rank = 0; rank < hosts_.size(); ++rank) {
        if (hosts_[rank] == host) here.push_back(inputs[rank]);
      }
      if (!here.empty()) parts.push_back(rounded_sum(here, type, divisor));
    }
    return rounded_sum(parts, type, 1);
  }

  static constexpr Duration kPatience = seconds(120);

 private:
  static Config config_of(Precision precision) {
    Config config = preset_config(kPatience);
    config.precision = precision;
    return config;
  }
  static void expect_ok(std::vector<std::future<Status>>* pending) {
    for (auto& one : *pending) {
      const Status status = one.get();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
  }
  const std::string hosts_;
};

void expect_all(const std::vector<Bytes>& values, const Bytes& expected) {
  for (size_t rank = 0; rank < values.size(); ++rank) ASSERT_TRUE(values[rank] == expected) << "rank " << rank;
}

void expect_moved(ManyRanks& group) {
  const size_t ranks = group.sessions.size();
  constexpr size_t kBytes = 100;
  const size_t root = ranks - 3;
  const auto bytes_of = [](size_t rank) { return Bytes(kBytes, static_cast<uint8_t>(rank % 251)); };
  std::vector<Bytes> own;
  for (size_t rank = 0; rank < ranks; ++rank) own.push_back(bytes_of(rank));
  group.move([&](size_t rank) {
    Collective call;
    call.kind = Broadcast{static_cast<int>(root), rank == root ? own[rank].data() : nullptr,
                          rank == root ? nullptr : own[rank].data()};
    call.count = kBytes;
    return call;
  });
  expect_all(own, bytes_of(root));
  std::vector<Bytes> pieces, inputs;
  for (size_t rank = 0; rank < ranks; ++rank) inputs.push_back(bytes_of(rank));
  pieces.assign(ranks, Bytes(ranks * kBytes));
  group.move([&](size_t rank) {
    Gather gather{inputs[rank].data(), {}};
    for (size_t i = 0; i < ranks; ++i) gather.receive_ranges.push_back({&pieces[rank][i * kBytes], 0, kBytes});
    Collective call;
    call.kind = std::move(gather);
    call.count = kBytes;
    return call;
  });
  Bytes all;
  for (const Bytes& input : inputs) all.insert(all.end(), input.begin(), input.end());
  expect_all(pieces, all);
}

/// One between two ranks of each host, and of two hosts.
void expect_message(ManyRanks& group, int from, int to) {
  const Bytes sent(1000, static_cast<uint8_t>(from));
  Bytes received(sent.size());
  std::promise<Status> done;
  Message message;
  message.peer = to;
  message.bytes = sent.size();
  message.from = sent.data();
  message.deadline = monotonic_now() + ManyRanks::kPatience;
  message.done = [](const Status& status, int) { EXPECT_TRUE(status.ok()) << status.to_string(); };
  group.sessions[static_cast<size_t>(from)]->messages()->send(message);
  message.peer = from;
  message.to = received.data();
  message.done = [&done, from](const Status& status, int source) {
    EXPECT_EQ(source, from);
    done.set_value(status);
  };
  group.sessions[static_cast<size_t>(to)]->messages()->receive(message);
  const Status status = done.get_future().get();
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(received, sent);
}

// The divisor is one that no header has. [PART-1, PART-3]
TEST(ManyRanks, HaveTheBitsOfOneExactSum) {
  if (allow_descriptors(kDescriptors) < kDescriptors)
    GTEST_SKIP() << "the process may open fewer than " << kDescriptors << " descriptors";
  ManyRanks group(hosts_of({80, 80}), Precision::kExact);
  ASSERT_TRUE(group.complete());
  EXPECT_EQ(group.sessions[0]->parameters().workers, 2);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBFloat16}) {
    for (const uint32_t divisor : {1U, 160U}) {
      std::vector<Bytes> values = elements_of(160, type, 2500);
      const Bytes expected = rounded_sum(values, type, divisor);
      group.reduce(&values, type, divisor);
      expect_all(values, expected);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  expect_moved(group);
  expect_message(group, 129, 140);
  expect_message(group, 3, 159);
  expect_message(group, 158, 0);
}

// As a subgroup of other ranks would be: on hosts that have unlike numbers of its ranks.
TEST(ManyRanks, OfUnlikeHostsRoundTwice) {  // [ELANE-7, ELANE-8]
  if (allow_descriptors(kDescriptors) < kDescriptors)
    GTEST_SKIP() << "the process may open fewer than " << kDescriptors << " descriptors";
  ManyRanks group(hosts_of({1, 2, 127}), Precision::kAuto);
  ASSERT_TRUE(group.complete());
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16}) {
    for (const uint32_t divisor : {1U, 130U}) {
      std::vector<Bytes> values = elements_of(130, type, 300);
      const Bytes expected = group.rounded_by_hosts(values, type, divisor);
      group.reduce(&values, type, divisor);
      expect_all(values, expected);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Small whole numbers, of which an integer switch rounds none; and on some places a value of all ranks or of one.
TEST(ManyRanks, AddExactlyThroughIntegersWithWhatIsNotFinite) {  // [CALL-9, WORD-8, WORD-9]
  if (allow_descriptors(kDescriptors) < kDescriptors)
    GTEST_SKIP() << "the process may open fewer than " << kDescriptors << " descriptors";
  constexpr size_t kRanks = 140, kCount = 2000;
  ManyRanks group(hosts_of({70, 70}), Precision::kInteger);
  ASSERT_TRUE(group.complete());
  EXPECT_FALSE(group.sessions[0]->parameters().exact);
  EXPECT_EQ(group.sessions[0]->parameters().workers, 2);
  for (const uint32_t divisor : {1U, 140U}) {
    std::vector<Bytes> values(kRanks, Bytes(kCount * sizeof(float)));
    std::vector<float> expected(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      for (size_t rank = 0; rank < kRanks; ++rank) {
        auto value = static_cast<float>(static_cast<int>((i * 7 + rank * 3) % 17) - 8);
        if (i % 300 == 5) value = INFINITY;
        if (i % 300 == 6 && rank == 139) value = -INFINITY;
        if (i % 300 == 7 && rank < 2) value = rank == 0 ? INFINITY : -INFINITY;
        if (i % 300 == 8) value = NAN;
        expected[i] += value;
        std::memcpy(&values[rank][i * sizeof value], &value, sizeof value);
      }
      expected[i] /= static_cast<float>(divisor);
      if (std::isnan(expected[i])) expected[i] = std::numeric_limits<float>::quiet_NaN();
    }
    Bytes bytes(kCount * sizeof(float));
    std::memcpy(bytes.data(), expected.data(), bytes.size());
    group.reduce(&values, ElementType::kFloat32, divisor);
    expect_all(values, bytes);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// ---- what is refused ----

std::string refusal_of(const std::string& hosts, const Config& config, const Alteration& alteration = {-1, "", {}}) {
  MapStore store;
  const Status status = common_failure(agree_on_hosts(hosts, config, store, alteration, seconds(60)));
  EXPECT_NE(status.code(), Code::kTimeout) << "they waited";
  return status.message();
}

TEST(ManyRanks, OfOneHostAreRefusedFrom129On) {
  EXPECT_THAT(refusal_of(std::string(129, 'a'), preset_config()),
              HasSubstr("a group of 129 ranks with 129 on the host of rank 0: allowed are up to 128 ranks of a host"));
  EXPECT_THAT(refusal_of("b" + std::string(129, 'a'), preset_config()),
              HasSubstr("with 129 on the host of rank 1: allowed are up to 128"));
}

TEST(ManyRanks, OfTooManyHostsAreRefused) {
  std::string hosts;
  for (int host = 0; host < 129; ++host) hosts += static_cast<char>('a' + host);
  EXPECT_THAT(refusal_of(hosts, preset_config()),
              HasSubstr("a group of 129 ranks on 129 hosts: allowed are up to 128 hosts"));
}

TEST(ManyRanks, ThatSendByThemselvesAreRefusedWithWhatMakesThem) {
  Config config = preset_config();
  config.transport = "udp";
  EXPECT_THAT(refusal_of(hosts_of({65, 64}), config),
              AllOf(HasSubstr("a group of 129 ranks that send to the switch by themselves"),
                    HasSubstr("because of SWITCHML_TRANSPORT=udp: allowed are up to 128 such ranks")));
}

TEST(ManyRanks, WhoseHostsHaveNoMemoryAreRefusedWithTheReason) {
  const Alteration none{0, rank_key("path", 3), [](Blob* path) { path->set("why", "/dev/shm is full"); }};
  EXPECT_THAT(refusal_of(hosts_of({65, 64}), preset_config(), none),
              AllOf(HasSubstr("cannot share memory (rank 3: /dev/shm is full)"),
                    HasSubstr("129 that send to the switch by themselves are too many: allowed are up to 128")));
}

}  // namespace
}  // namespace switchml
