// A shard of an exact session: one round trip, one lane a stream, and what it does with results that it must not take.
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "base/limits.h"
#include "cluster.h"
#include "exact/reduction.h"
#include "lone_shard.h"

namespace switchml::testing {
namespace {

constexpr int kTwoStreams = 64;  // slots: 0 to 7 of the short stream, 8 to 63 of the bulk stream
constexpr int kShortSlots = 8;

std::vector<size_t> bytes_of(const std::vector<Bytes>& frames) {
  std::vector<size_t> bytes;
  for (const Bytes& frame : frames) bytes.push_back(elements_of(frame).size());
  return bytes;
}

/// A shard that has sent `elements` elements, from slot 0 on.
struct ExactSent {
  explicit ExactSent(size_t elements = kExactChunk) : tensor(counting(elements)), input(tensor) {
    outcome = lone.submit(exact_sum(tensor));
    frames = lone.step();
  }
  /// The result of the first frame with something changed, sealed as a switch would.
  Bytes altered(const std::function<void(wire::ExactHeader&)>& change) const {
    wire::ExactHeader header = exact_result_header(frames[0]);
    change(header);
    return sealed(header, elements_of(frames[0]));
  }
  Bytes with_elements(const Bytes& elements) const { return sealed(exact_result_header(frames[0]), elements); }
  /// What was rightly dropped has left no trace.
  void expect_unharmed() {
    EXPECT_TRUE(outcome->empty());
    EXPECT_EQ(tensor, input);
    lone.answer_all(frames);
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_TRUE(outcome->front().ok()) << outcome->front().to_string();
    EXPECT_EQ(tensor, input);
  }

  LoneShard lone{exact_session()};
  std::vector<int32_t> tensor, input;
  std::shared_ptr<std::vector<Status>> outcome;
  std::vector<Bytes> frames;
};

TEST(LaneSlotsOfExact, AreOneLaneAStream) {  // [ELANE-1]
  for (int slots = 2; slots <= kMaxSlots; ++slots) {
    const LaneSlots lanes = LaneSlots::of(slots, true);
    EXPECT_EQ(lanes.calls + lanes.bulk_calls, 0);
    EXPECT_EQ(lanes.data + lanes.bulk_data, slots);
    EXPECT_EQ(lanes.has_bulk(), slots >= kLeastExactForBulk);
  }
  EXPECT_EQ(LaneSlots::of_exact(16).data, 4);
  EXPECT_EQ(LaneSlots::of_exact(39).data, 4);
  EXPECT_EQ(LaneSlots::of_exact(64).data, 8);
  EXPECT_EQ(LaneSlots::of_exact(255).data, 31);
  EXPECT_EQ(LaneSlots::of_exact(2048).data, 32);
}

TEST(ShardExact, ADirectLinkNeedsNeitherChecksumsNorRepeats) {
  LoneShard lone(exact_session());
  lone.transport->direct = true;
  std::vector<int32_t> tensor = counting(2 * kExactChunk);
  const auto outcome = lone.submit(exact_sum(tensor));
  std::vector<Bytes> frames = lone.step();
  ASSERT_EQ(frames.size(), 2U);
  const std::vector<Bytes> later = lone.pass(seconds(2));
  EXPECT_FALSE(later.empty()) << "the switch is asked what it waits for";
  EXPECT_EQ(std::count_if(later.begin(), later.end(), is_contribution), 0);
  for (Bytes& frame : frames) {
    EXPECT_EQ(exact_header_of(frame).checksum, 0U);
    wire::write_exact_header(exact_result_header(frame), frame.data());
  }
  lone.deliver(frames);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok()) << outcome->front().to_string();
  EXPECT_EQ(lone.counters().retransmissions.get(), 0U);
}

TEST(ShardExact, IsThroughInOneRoundTrip) {
  std::vector<float> tensor(3 * kExactChunk + 5, 1.5F);
  LoneShard lone(exact_session());
  Collective mean = in_place(ReduceOp::kSum, ElementType::kFloat32, tensor);
  mean.operands()->divisor = 3;
  const auto outcome = lone.submit(mean);
  const std::vector<Bytes> frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(bytes_of(frames), (std::vector<size_t>{1024, 1024, 1024, 20}));
  for (const Bytes& frame : frames) {
    const wire::ExactHeader header = exact_header_of(frame);
    EXPECT_EQ(header.kind, static_cast<uint8_t>(wire::Kind::kExactContribution));
    EXPECT_EQ(header.type, static_cast<uint8_t>(ElementType::kFloat32));
    EXPECT_EQ(header.operation, static_cast<uint8_t>(ReduceOp::kSum));
    EXPECT_EQ(header.divisor, 3);
    EXPECT_TRUE(wire::exact_intact(frame.data(), frame.size(), {kLoneKey}));
    EXPECT_EQ(std::memcmp(elements_of(frame).data(), tensor.data(), elements_of(frame).size()), 0);
  }
  std::vector<Bytes> results;
  for (const Bytes& frame : frames) results.push_back(result_of(frame));
  EXPECT_TRUE(lone.deliver(results).empty()) << "nothing goes ahead, nothing follows";
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
  EXPECT_EQ(lone.counters().elements_summed_by_switch.get(), tensor.size());
}

TEST(ShardExact, ChunksHoldBytesNotWords) {  // [ELANE-2]
  std::vector<int8_t> bytes(1025, 1);
  std::vector<int64_t> longs(129, 1);
  LoneShard lone(exact_session());
  lone.submit(in_place(ReduceOp::kMin, ElementType::kInt8, bytes));
  lone.submit(in_place(ReduceOp::kProduct, ElementType::kInt64, longs));
  EXPECT_EQ(bytes_of(lone.step()), (std::vector<size_t>{1024, 1, 1024, 8}));
}

// The result may be packed as well, and must have all elements.
TEST(ShardExact, LeavesBlocksOfZerosOut) {  // [ZERO-1, ZERO-7]
  static_assert(kExactChunk == wire::Blocks::kElements);
  std::vector<int32_t> tensor = counting(3 * kExactChunk);
  std::fill(tensor.begin() + kExactChunk, tensor.begin() + 2 * kExactChunk, 0);
  const std::vector<int32_t> input = tensor;
  LoneShard lone(exact_session());
  const auto outcome = lone.submit(exact_sum(tensor));
  const std::vector<Bytes> frames = lone.step();
  EXPECT_EQ(bytes_of(frames), (std::vector<size_t>{1024, 5, 1024}));
  EXPECT_EQ(exact_header_of(frames[1]).flags, wire::kFlagPacked);
  EXPECT_EQ(lone.counters().zero_blocks_left_out.get(), 1U);
  lone.deliver({result_of(frames[0]), result_of(frames[2])});
  std::fill(tensor.begin() + kExactChunk, tensor.begin() + 2 * kExactChunk, 7);
  wire::ExactHeader header = exact_result_header(frames[1]);
  header.flags = wire::kFlagPacked;
  Bytes cut_short = elements_of(frames[1]);
  cut_short[1] = 255;
  lone.deliver({sealed(header, cut_short)});
  EXPECT_TRUE(outcome->empty()) << "255 elements are not all";
  lone.deliver({sealed(header, elements_of(frames[1]))});
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(tensor, input);
}

TEST(ShardExact, OneTensorFollowsTheOther) {  // [ELANE-4]
  std::vector<int32_t> first = counting(5 * kExactChunk), second = counting(6 * kExactChunk);
  LoneShard lone(exact_session());
  const auto outcome = lone.submit(exact_sum(first));
  lone.submit(exact_sum(second));
  std::vector<Bytes> frames = lone.step();
  EXPECT_EQ(slots_of(frames), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_TRUE(lone.deliver({result_of(frames[1])}).empty());
  EXPECT_EQ(slots_of(lone.deliver({result_of(frames[0])})), (std::vector<int>{0, 1}));
  lone.deliver({result_of(frames[4]), result_of(frames[3]), result_of(frames[2])});
  EXPECT_EQ(outcome->size(), 1U);
}

TEST(ShardExact, WhatHasNoChunkInTheShortStreamHasAnEmptyOneThere) {  // [ELANE-5]
  LoneShard lone(exact_session(kTwoStreams));
  std::vector<int32_t> two = counting(2 * kExactChunk), none, many = counting(20 * kExactChunk), one = counting(1);
  const auto brief = lone.submit(exact_sum(two));
  const auto fence = lone.submit(barrier());
  const auto empty = lone.submit(exact_sum(none));
  const auto bulk = lone.submit(exact_sum(many));
  const auto last = lone.submit(exact_sum(one));
  const std::vector<Bytes> frames = lone.step();
  std::vector<int> expected = {0, 1, 2, 3, 4, 5};
  for (int i = 0; i < 20; ++i) expected.push_back(kShortSlots + i);
  ASSERT_EQ(slots_of(frames), expected);
  std::vector<size_t> bytes(26, 1024);
  bytes[2] = bytes[3] = bytes[4] = 0;
  bytes[5] = 4;
  EXPECT_EQ(bytes_of(frames), bytes);
  EXPECT_EQ(exact_header_of(frames[2]).operation, static_cast<uint8_t>(ReduceOp::kBarrier));
  // Each ends with its own results, the announcement's among them.
  for (size_t i = 6; i < frames.size(); ++i) lone.deliver({result_of(frames[i])});
  EXPECT_TRUE(bulk->empty());
  lone.deliver({result_of(frames[4]), result_of(frames[3]), result_of(frames[5])});
  EXPECT_EQ(bulk->size() + empty->size() + last->size(), 3U);
  lone.deliver({result_of(frames[2])});
  EXPECT_TRUE(fence->empty()) << "a barrier ends after what was called before it";
  lone.deliver({result_of(frames[0]), result_of(frames[1])});
  EXPECT_EQ(brief->size() + fence->size(), 2U);
}

TEST(ShardExact, WhatFitsTheShortLaneIsShort) {  // [ELANE-3]
  for (const size_t beyond : {0, 1}) {
    LoneShard lone(exact_session(kTwoStreams));
    std::vector<int32_t> tensor = counting(kShortSlots * kExactChunk + beyond);
    lone.submit(exact_sum(tensor));
    const std::vector<int> slots = slots_of(lone.step());
    EXPECT_EQ(slots.size(), kShortSlots + 2 * beyond);
    EXPECT_EQ(slots.back(), beyond == 0 ? kShortSlots - 1 : 2 * kShortSlots);
  }
}

TEST(ShardExact, ACallerThatChoosesAnnouncesItself) {  // [ELANE-6]
  LoneShard lone(exact_session(kTwoStreams));
  std::vector<int32_t> tensor = counting(kExactChunk);
  Collective bulk = exact_sum(tensor);
  bulk.stream = StreamChoice::kBulk;
  const auto outcome = lone.submit(bulk);
  const std::vector<Bytes> frames = lone.step();
  EXPECT_EQ(slots_of(frames), (std::vector<int>{kShortSlots}));
  lone.answer_all(frames);
  EXPECT_EQ(outcome->size(), 1U);
}

TEST(ShardExact, AnAnnouncementWaitsForASlot) {
  LoneShard lone(exact_session(kTwoStreams));
  std::vector<std::vector<int32_t>> tensors(10, counting((kShortSlots + 1) * kExactChunk));
  std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
  for (auto& tensor : tensors) outcomes.push_back(lone.submit(exact_sum(tensor)));
  const auto end = lone.submit(barrier());
  lone.answer_all(lone.step());
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome->size(), 1U);
  EXPECT_EQ(end->size(), 1U);
}

// ---- results that are none ----

TEST(ShardExact, AResultOfAnotherCallFailsTheCollective) {  // [ERES-3]
  ExactSent sent;
  sent.lone.deliver({sent.altered([](wire::ExactHeader& header) { header.call ^= 1; })});
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_EQ(sent.outcome->front().code(), Code::kMismatch);
  EXPECT_NE(sent.outcome->front().message().find("all_reduce(SUM, int32, 256 elements)"), std::string::npos)
      << sent.outcome->front().message();
  EXPECT_EQ(sent.lone.failures.size(), 1U);
  EXPECT_EQ(sent.tensor, sent.input);
}

TEST(ShardExact, WhatTheSwitchFoundToDisagreeFailsTheCollective) {  // [ERES-3]
  ExactSent sent;
  wire::ExactHeader header = exact_result_header(sent.frames[0]);
  header.flags = wire::kFlagDisagree;
  sent.lone.deliver({sealed(header, {})});
  ASSERT_EQ(sent.outcome->size(), 1U);
  EXPECT_EQ(sent.outcome->front().code(), Code::kMismatch);
  EXPECT_NE(sent.outcome->front().message().find("all_reduce(SUM, int32, 256 elements)"), std::string::npos);
}

TEST(ShardExact, WhatIsDamagedIsDroppedAndRepeated) {  // [EXACT-15, ERES-2]
  ExactSent sent;
  const Bytes good = result_of(sent.frames[0]);
  for (const size_t at : {wire::kExactHeaderBytes, good.size() - 1, size_t{wire::kExactHeaderOffsetFlags}}) {
    Bytes damaged = good;
    damaged[at] ^= 0x80;
    const uint64_t before = sent.lone.counters().results_damaged.get();
    EXPECT_TRUE(sent.lone.deliver({damaged}).empty());
    EXPECT_EQ(sent.lone.counters().results_damaged.get(), before + 1) << at;
  }
  const std::vector<Bytes> repeated = sent.lone.pass(milliseconds(10));
  ASSERT_EQ(repeated.size(), 1U);
  EXPECT_NE(repeated[0], sent.frames[0]);
  EXPECT_EQ(without_repeat_flag(repeated[0]), sent.frames[0]);
  EXPECT_TRUE(wire::exact_intact(repeated[0].data(), repeated[0].size(), {kLoneKey})) << "the flag is not covered";
  sent.expect_unharmed();
}

// Any bit: most are found by the checksum, the others say that the packet is somebody else's.
TEST(ShardExact, NoDamagedBitIsTaken) {
  ExactSent sent;
  const Bytes good = result_of(sent.frames[0]);
  for (size_t bit = 0; bit < (wire::kExactHeaderBytes + 8) * 8; ++bit) {
    Bytes damaged = good;
    damaged[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
    if (without_repeat_flag(damaged) == good) continue;
    sent.lone.deliver({damaged});
    ASSERT_TRUE(sent.outcome->empty()) << bit;
    ASSERT_TRUE(sent.lone.failures.empty()) << bit;
  }
  sent.expect_unharmed();
}

TEST(ShardExact, MalformedFramesAreCountedAndDropped) {  // [EXACT-14, ERES-2]
  ExactSent sent;
  const Bytes good = result_of(sent.frames[0]);
  Bytes longer = elements_of(sent.frames[0]), shorter = longer, half = longer;
  longer.resize(longer.size() + 4);
  shorter.resize(shorter.size() - 4);
  half.pop_back();
  const auto header = [&](const std::function<void(wire::ExactHeader&)>& change) { return sent.altered(change); };
  const std::vector<Bytes> bad = {
      {0x56},
      Bytes(good.begin(), good.begin() + wire::kExactHeaderBytes - 1),
      sent.with_elements(half),
      sent.with_elements(longer),   // more than the session's payload
      sent.with_elements(shorter),  // not what this worker contributed to
      sent.with_elements({}),
      sent.frames[0],
      header([](wire::ExactHeader& h) { h.kind = static_cast<uint8_t>(wire::Kind::kResult); }),
      header([](wire::ExactHeader& h) { h.version = wire::kVersion + 1; }),
      header([](wire::ExactHeader& h) { h.type = kElementTypes; }),
      header([](wire::ExactHeader& h) { h.operation = kReduceOps + 1; }),
      header([](wire::ExactHeader& h) { h.divisor = 2; }),  // of integers
      header([](wire::ExactHeader& h) { h.seq = 0; }),
      header([](wire::ExactHeader& h) { h.worker = 0; }),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    sent.lone.deliver({bad[i]});
    EXPECT_EQ(sent.lone.counters().results_malformed.get(), i + 1) << "case " << i;
  }
  sent.expect_unharmed();
}

TEST(ShardExact, ForeignStaleAndDuplicateResultsAreCountedAndDropped) {  // [ERES-2]
  ExactSent sent;
  sent.lone.deliver(
      {sent.altered([](wire::ExactHeader& h) { ++h.job; }), sent.altered([](wire::ExactHeader& h) { ++h.epoch; }),
       sent.altered([](wire::ExactHeader& h) { h.slot = 8; }), sent.altered([](wire::ExactHeader& h) { h.seq += 2; }),
       sent.altered([](wire::ExactHeader& h) { h.slot = 1; })});  // which is not open
  EXPECT_EQ(sent.lone.counters().results_foreign.get(), 3U);
  EXPECT_EQ(sent.lone.counters().results_stale.get(), 2U);
  sent.expect_unharmed();
  sent.lone.deliver({result_of(sent.frames[0])});
  EXPECT_EQ(sent.lone.counters().results_duplicate.get(), 1U);
  EXPECT_TRUE(sent.lone.failures.empty());
}

TEST(ShardExact, AnIntegerSessionTakesNoElements) {
  LoneOptions options = exact_session();
  options.exact = false;
  LoneShard lone(options);
  std::vector<int32_t> tensor = counting(1);
  const auto outcome = lone.submit(exact_sum(tensor));
  lone.step();
  ExactSent sent(1);
  lone.deliver({result_of(sent.frames[0])});
  EXPECT_EQ(lone.counters().results_malformed.get(), 1U);
  EXPECT_TRUE(outcome->empty());
}

// ---- where the result goes ----

/// The result of a chunk of int32 in which every element is one more.
Bytes one_more(const Bytes& contribution) {
  Bytes elements = elements_of(contribution);
  for (size_t at = 0; at < elements.size(); at += sizeof(int32_t)) {
    int32_t value = 0;
    std::memcpy(&value, &elements[at], sizeof value);
    ++value;
    std::memcpy(&elements[at], &value, sizeof value);
  }
  return sealed(exact_result_header(contribution), elements);
}

TEST(ShardExact, InPlaceTheFrameHasWhatARepeatNeeds) {
  ExactSent sent(2 * kExactChunk);
  sent.lone.deliver({one_more(sent.frames[1])});
  const std::vector<Bytes> repeated = sent.lone.pass(milliseconds(10));
  ASSERT_GE(repeated.size(), 1U);
  EXPECT_EQ(without_repeat_flag(repeated[0]), sent.frames[0]);
  sent.lone.deliver({one_more(repeated[0])});
  for (int32_t& value : sent.input) ++value;
  EXPECT_EQ(sent.tensor, sent.input);
  EXPECT_EQ(sent.outcome->size(), 1U);
}

TEST(ShardExact, OnlyWhatIsAskedForIsWritten) {  // [MOVED-5, MOVED-7]
  LoneShard lone(exact_session());
  const std::vector<int32_t> tensor = counting(3 * kExactChunk);
  std::vector<int32_t> input = tensor, output(302, 99);
  Collective c = exact_sum(input);
  c.operands()->output.data = output.data() + 1;
  c.operands()->output.begin = 200;
  c.operands()->output.end = 500;
  const auto outcome = lone.submit(c);
  const std::vector<Bytes> sent = lone.step();
  ASSERT_EQ(sent.size(), 3U);
  for (size_t i = 0; i < sent.size(); ++i) {
    const bool wanted = i * kExactChunk < 500 && (i + 1) * kExactChunk > 200;
    const wire::ExactHeader header = exact_header_of(sent[i]);
    EXPECT_EQ(header.flags, wanted ? 0 : wire::kFlagNoElements);
    lone.deliver({wanted ? one_more(sent[i]) : sealed(exact_result_header(sent[i]), {})});
  }
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(input, tensor);
  EXPECT_EQ(output.front() + output.back(), 198);
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(output[i + 1], tensor[200 + i] + 1);
}

TEST(ShardExact, AHostSpeaksForItsRanks) {
  std::vector<int32_t> first = counting(kExactChunk + 1), second = counting(kExactChunk + 1), out(kExactChunk + 1);
  Collective c = exact_sum(out);
  c.operands()->input = nullptr;
  c.operands()->inputs = {first.data(), second.data()};
  LoneShard lone(exact_session());
  const auto outcome = lone.submit(c);
  lone.answer_all(lone.step());
  ASSERT_EQ(outcome->size(), 1U);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 2 * first[i]);
}

// ---- workers and a switch ----

constexpr int kClusterWorkers = 3;

ClusterOptions exact_cluster(uint32_t seed, int shards = 1, int slots = 8) {
  ClusterOptions options;
  options.workers = kClusterWorkers;
  options.shards = shards;
  options.slots = slots * shards;
  options.exact = true;
  options.faults.seed = seed;
  return options;
}

NetFaults bad_weather(uint32_t seed) { return {seed, 0.05, 0.05, 0.03, 4}; }

using RawTensors = std::vector<std::vector<uint8_t>>;

RawTensors any_bits(ElementType type, size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  RawTensors tensors(kClusterWorkers, std::vector<uint8_t>(count * element_bytes(type)));
  for (auto& tensor : tensors) {
    for (uint8_t& byte : tensor) byte = static_cast<uint8_t>(type == ElementType::kBool ? random() % 3 : random());
  }
  return tensors;
}

std::vector<uint8_t> reduced(const Collective& call, const RawTensors& tensors) {
  std::vector<const uint8_t*> inputs;
  for (const auto& tensor : tensors) inputs.push_back(tensor.data());
  std::vector<uint8_t> out(call.count * result_bytes(call.op, call.type));
  reduce({call.op, call.type, call.operands()->divisor}, inputs.data(), kClusterWorkers, call.count, out.data());
  return out;
}

/// The longest chunks of narrow terms: their results are longer than a packet. [NSUM-4]
size_t longest_chunk_of(const Collective& call, const ClusterOptions& options) {
  return call.op == ReduceOp::kSumToFloat32 ? most_chunk_bytes(call.type, options.payload, call.op) : 0;
}

/// All of what the switch can, in tensors of several chunks, all under way at once.
void expect_every_operation(const ClusterOptions& options, size_t count) {
  Cluster cluster(options);
  std::vector<Collective> calls;
  std::vector<RawTensors> tensors;
  for (int op = 0; op < kReduceOps; ++op) {
    for (int type = 0; type < kElementTypes; ++type) {
      Collective call;
      call.op = static_cast<ReduceOp>(op);
      call.type = static_cast<ElementType>(type);
      if (call.op == ReduceOp::kBarrier || !exact_can(call.op, call.type)) continue;
      if (sums_floats(call.op, call.type)) call.operands()->divisor = kClusterWorkers;
      call.count = call.operands()->output.end = count;
      calls.push_back(call);
      tensors.push_back(any_bits(call.type, count, static_cast<uint32_t>(type)));
    }
  }
  std::vector<RawTensors> results = tensors;
  for (size_t i = 0; i < calls.size(); ++i) {
    for (int w = 0; w < kClusterWorkers; ++w) {
      std::vector<uint8_t>& result = results[i][static_cast<size_t>(w)];
      const bool in_place = calls[i].op != ReduceOp::kSumToFloat32;
      if (!in_place) result.assign(calls[i].count * result_bytes(calls[i].op, calls[i].type), 0xee);
      calls[i].operands()->output.data = result.data();
      calls[i].operands()->input = (in_place ? results : tensors)[i][static_cast<size_t>(w)].data();
      cluster.submit(w, calls[i], longest_chunk_of(calls[i], options));
    }
  }
  ASSERT_TRUE(cluster.run());
  ASSERT_TRUE(cluster.failures.empty()) << cluster.failures.front().to_string();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::vector<uint8_t> right = reduced(calls[i], tensors[i]);
    for (const auto& result : results[i]) ASSERT_EQ(result, right) << describe(calls[i]);
  }
}

TEST(ShardExact, EveryOperationOfEveryTypeIsWhatReductionMakesOfIt) {
  expect_every_operation(exact_cluster(1), 1000);
  expect_every_operation(exact_cluster(1, 2), 1000);
  expect_every_operation(exact_cluster(1, 1, kTwoStreams), 3000);  // some of each stream
}

TEST(ShardExact, AlsoWhereTheNetworkLosesRepeatsAndDamages) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    ClusterOptions options = exact_cluster(seed, 2, seed == 1 ? 8 : kTwoStreams);
    options.faults = bad_weather(seed);
    expect_every_operation(options, 700);
  }
}

// Beside reduce, which the switch itself uses: what these are in C++.
TEST(ShardExact, IntegersWrapAndFloatsAreRoundedOnce) {
  Cluster cluster(exact_cluster(1));
  std::vector<std::vector<uint32_t>> products(kClusterWorkers, std::vector<uint32_t>(600));
  std::vector<std::vector<float>> sums(kClusterWorkers, std::vector<float>(600));
  for (size_t w = 0; w < kClusterWorkers; ++w) {
    for (size_t i = 0; i < 600; ++i) {
      products[w][i] = static_cast<uint32_t>(i * 2654435761U + w);
      sums[w][i] = w == 0 ? 1e30F : w == 1 ? static_cast<float>(i) + 0.25F : -1e30F;
    }
  }
  const auto inputs = products;
  for (int w = 0; w < kClusterWorkers; ++w) {
    cluster.submit(w, in_place(ReduceOp::kProduct, ElementType::kInt32, products[static_cast<size_t>(w)]));
    cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, sums[static_cast<size_t>(w)]));
  }
  ASSERT_TRUE(cluster.run());
  for (size_t w = 0; w < kClusterWorkers; ++w) {
    for (size_t i = 0; i < 600; ++i) {
      ASSERT_EQ(products[w][i], inputs[0][i] * inputs[1][i] * inputs[2][i]);
      ASSERT_EQ(sums[w][i], static_cast<float>(i) + 0.25F);
    }
  }
}

TEST(ShardExact, RanksThatDisagreeAllFindOut) {  // [ERES-1]
  using Change = std::function<void(Collective&)>;
  const std::vector<Change> changes = {
      [](Collective& c) { c.op = ReduceOp::kMax; },
      [](Collective& c) { c.type = ElementType::kFloat32; },
      [](Collective& c) { c.count = c.operands()->output.end = c.count - 1; },
      [](Collective& c) { c.count = c.operands()->output.end = 0; },
      [](Collective& c) { c.tag = 1; },
      [](Collective& c) { c.title = "reduce"; },
      [](Collective& c) {
        c.op = ReduceOp::kBarrier;
        c.count = c.operands()->output.end = 0;
      },
  };
  for (const size_t count : {size_t{10}, kExactChunk, 20 * kExactChunk}) {  // 20: of the bulk stream
    for (size_t change = 0; change < changes.size(); ++change) {
      Cluster cluster(exact_cluster(1, 1, kTwoStreams));
      std::vector<std::vector<int32_t>> tensors(kClusterWorkers, counting(count));
      std::vector<std::shared_ptr<std::vector<Status>>> outcomes;
      for (int w = 0; w < kClusterWorkers; ++w) {
        Collective c = exact_sum(tensors[static_cast<size_t>(w)]);
        if (w == 1) changes[change](c);
        outcomes.push_back(cluster.submit(w, c));
      }
      ASSERT_TRUE(cluster.run());
      for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome->at(0).code(), Code::kMismatch) << count << " elements, change " << change;
      }
    }
  }
}

}  // namespace
}  // namespace switchml::testing
