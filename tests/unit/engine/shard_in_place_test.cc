// A shard whose card reaches the tensor: elements travel straight from there, and results are written there.
#include <algorithm>
#include <cstring>
#include <vector>

#include "lone_shard.h"

namespace switchml::testing {
namespace {

constexpr wire::ChecksumRule kOverRdma{kLoneKey, false};

wire::ExactPacket contribution_in(const Bytes& frame) {
  wire::ExactPacket packet;
  EXPECT_EQ(wire::parse_exact(frame.data(), frame.size(), wire::Kind::kExactContribution, &packet),
            wire::ParseError::kNone);
  EXPECT_TRUE(wire::exact_intact(frame.data(), frame.size(), kOverRdma));
  return packet;
}

/// A shard whose card reaches a tensor of three chunks, the last one short, that it has sent.
struct PlacedSent {
  explicit PlacedSent(bool keep_results = false, size_t elements = 2 * kExactChunk + 5)
      : lone(options(keep_results)), tensor(counting(elements)), input(tensor) {
    lone.transport->reachable = {reinterpret_cast<uint8_t*>(tensor.data()), tensor.size() * sizeof(int32_t)};
    outcome = lone.submit(exact_sum(tensor));
    frames = lone.step();
  }
  static LoneOptions options(bool keep_results) {
    LoneOptions options = exact_session();
    options.carrier = Carrier::kRdma;
    options.keep_results = keep_results;
    return options;
  }
  const uint8_t* at(size_t element) const { return reinterpret_cast<const uint8_t*>(tensor.data() + element); }
  static Bytes result(const Bytes& contribution, uint8_t flags, const Bytes& elements = {}) {
    wire::ExactHeader header = exact_result_header(contribution);
    header.flags = flags;
    return sealed(header, elements, kOverRdma);
  }
  /// By frames, all that is open.
  void answer() {
    for (const Bytes& frame : frames) {
      const wire::ExactPacket packet = contribution_in(frame);
      lone.deliver({result(frame, 0, {packet.elements, packet.elements + packet.bytes})});
    }
  }

  LoneShard lone;
  std::vector<int32_t> tensor, input;
  std::shared_ptr<std::vector<Status>> outcome;
  std::vector<Bytes> frames;
};

TEST(ShardInPlace, ElementsAreSentFromTheTensorAndItIsTheTarget) {  // [RDMA-5, RDMA-6]
  PlacedSent sent;
  ASSERT_EQ(sent.frames.size(), 3U);
  EXPECT_EQ(sent.lone.transport->in_place, (std::vector<const uint8_t*>{sent.at(0), sent.at(kExactChunk)}));
  for (size_t i = 0; i < 3; ++i) {
    const wire::ExactPacket packet = contribution_in(sent.frames[i]);
    EXPECT_EQ(std::memcmp(packet.elements, sent.at(i * kExactChunk), packet.bytes), 0);
    ASSERT_EQ(packet.target.has_value(), i < 2) << "short ones travel as they do elsewhere";
    if (i == 2) continue;
    EXPECT_EQ(packet.target->address, reinterpret_cast<uintptr_t>(sent.at(i * kExactChunk)));
    EXPECT_EQ(packet.target->key, 77U);
    EXPECT_EQ(packet.target->bytes, kExactChunk * sizeof(int32_t));
  }
}

TEST(ShardInPlace, AResultIsThereOrInTheFrame) {  // [RDMA-7]
  PlacedSent sent;
  std::fill(sent.tensor.begin(), sent.tensor.begin() + kExactChunk, 42);  // as a switch does
  sent.lone.deliver({PlacedSent::result(sent.frames[0], wire::kFlagTarget)});
  sent.lone.deliver({PlacedSent::result(sent.frames[1], 0, Bytes(kExactChunk * sizeof(int32_t), 1))});
  EXPECT_TRUE(sent.outcome->empty());
  sent.lone.deliver({PlacedSent::result(sent.frames[2], 0, Bytes(5 * sizeof(int32_t), 2))});
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_TRUE(sent.outcome->front().ok());
  for (size_t i = 0; i < sent.tensor.size(); ++i) {
    ASSERT_EQ(sent.tensor[i], i < kExactChunk ? 42 : i < 2 * kExactChunk ? 0x01010101 : 0x02020202) << i;
  }
}

TEST(ShardInPlace, OnlyWhoHasNamedATargetTakesAResultWithoutElements) {  // [RDMA-7, ERES-2]
  PlacedSent sent;
  const uint64_t before = sent.lone.counters().results_malformed.get();
  sent.lone.deliver({PlacedSent::result(sent.frames[2], wire::kFlagTarget)});
  sent.lone.deliver({PlacedSent::result(sent.frames[0], 0)});
  sent.lone.deliver({PlacedSent::result(sent.frames[0], wire::kFlagTarget, Bytes(kExactChunk * 4, 1))});
  EXPECT_EQ(sent.lone.counters().results_malformed.get(), before + 3);
  sent.answer();
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_TRUE(sent.outcome->front().ok());
  EXPECT_EQ(sent.tensor, sent.input);
}

TEST(ShardInPlace, ARepeatIsCopiedAndNamesNoTarget) {  // [RDMA-8]
  PlacedSent sent;
  sent.lone.transport->in_place.clear();
  size_t repeats = 0;
  for (const Bytes& frame : sent.lone.pass(milliseconds(200))) {
    const wire::ExactPacket packet = contribution_in(frame);
    EXPECT_EQ(packet.header.flags, wire::kFlagRepeat);
    EXPECT_EQ(std::memcmp(packet.elements, sent.at(packet.header.slot * kExactChunk), packet.bytes), 0);
    ++repeats;
  }
  EXPECT_TRUE(sent.lone.transport->in_place.empty());
  EXPECT_GE(repeats, 1U);
  EXPECT_EQ(sent.lone.transport->copied.size(), repeats);
  sent.lone.deliver({PlacedSent::result(sent.frames[0], wire::kFlagTarget)});
  EXPECT_EQ(sent.lone.counters().chunks_completed.get(), 1U) << "the first one has named a target";
}

TEST(ShardInPlace, NotWhereResultsAreKept) {
  PlacedSent sent(true);
  EXPECT_TRUE(sent.lone.transport->in_place.empty());
  for (const Bytes& frame : sent.frames) EXPECT_EQ(exact_header_of(frame).flags, 0);
}

TEST(ShardInPlace, NotWhatACardDoesNotReach) {
  LoneShard lone(PlacedSent::options(false));
  std::vector<int32_t> tensor = counting(2 * kExactChunk);
  lone.submit(exact_sum(tensor));
  EXPECT_EQ(lone.step().size(), 2U);
  EXPECT_TRUE(lone.transport->in_place.empty());
}

LoneOptions over_tcp() {
  LoneOptions options = exact_session();
  options.carrier = Carrier::kTcp;
  return options;
}

TEST(ShardInPlace, OverTcpAnyTensorIsSentFromWhereItLies) {
  LoneShard lone(over_tcp());
  lone.transport->gathers_rests = true;
  std::vector<int32_t> tensor = counting(2 * kExactChunk + 5);
  const std::vector<int32_t> input = tensor;
  const auto outcome = lone.submit(exact_sum(tensor));
  const std::vector<Bytes> frames = lone.step();
  ASSERT_EQ(frames.size(), 3U);
  const auto* const begin = reinterpret_cast<const uint8_t*>(tensor.data());
  EXPECT_EQ(lone.transport->in_place, (std::vector<const uint8_t*>{begin, begin + kExactChunk * sizeof(int32_t)}))
      << "short ones are copied";
  for (const Bytes& frame : frames) EXPECT_TRUE(wire::exact_intact(frame.data(), frame.size(), {kLoneKey}));
  lone.answer_all(frames);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
  EXPECT_EQ(tensor, input);
}

TEST(ShardInPlace, OverTcpNotAsLongAsAResultMayOverwriteIt) {
  LoneShard lone(over_tcp());
  lone.transport->gathers_rests = true;
  std::vector<int32_t> tensor = counting(2 * kExactChunk + 1);
  Collective shifted = exact_sum(tensor);
  shifted.count = shifted.operands()->output.end = 2 * kExactChunk;
  shifted.operands()->output.data = tensor.data() + 1;
  lone.submit(shifted);
  EXPECT_EQ(lone.step().size(), 2U);
  EXPECT_TRUE(lone.transport->in_place.empty());
}

TEST(ShardInPlace, TheSwitchIsForgottenBeforeAFailureIsTold) {
  PlacedSent sent;
  bool told_first = true;
  sent.lone.transport->on_forget = [&] { told_first = !sent.outcome->empty(); };
  sent.lone.deliver({PlacedSent::result(sent.frames[0], wire::kFlagDisagree)});
  EXPECT_EQ(sent.outcome->size(), 1U);
  EXPECT_FALSE(told_first) << "it might write there until then";
}

}  // namespace
}  // namespace switchml::testing
