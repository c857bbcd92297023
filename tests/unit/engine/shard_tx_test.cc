// Which frames leave, in which order, how long, and when: a shard without network or switch.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/limits.h"
#include "engine/shard.h"
#include "kernels/kernels.h"
#include "lone_shard.h"

namespace switchml::testing {
namespace {

uint32_t word(const Bytes& frame, size_t i) {
  return wire::detail::load<uint32_t>(frame.data() + wire::kHeaderBytes + 4 * i);
}
wire::Operation operation_of(const Bytes& frame) {
  return static_cast<wire::Operation>(header_of(frame).flags & wire::kOperationMask);
}

TEST(ShardTx, TheCallChunkGoesFirstAndFloatsFollowItsResult) {  // [CALL-1, CALL-2, CALL-8]
  LoneShard lone;
  std::vector<float> tensor(1000, 1.5F);
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  const auto calls = lone.step();
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(header_of(calls[0]).slot, 0);
  EXPECT_EQ(operation_of(calls[0]), wire::Operation::kMax);
  EXPECT_EQ(words_of(calls[0]), 2 * 4U + 1U) << "4 blocks of 256, one word of flags";
  EXPECT_TRUE(lone.step().empty()) << "no data before the exponents are known";

  const auto data = lone.deliver({result_of(calls[0])});
  ASSERT_EQ(slots_of(data), (std::vector<int>{2, 3, 4, 5}));
  for (const Bytes& frame : data) EXPECT_EQ(operation_of(frame), wire::Operation::kSum);
  EXPECT_EQ(words_of(data[2]), 256U);
  EXPECT_EQ(words_of(data[3]), 1000U - 3 * 256U) << "the last chunk is as long as what is left";
  EXPECT_TRUE(outcome->empty());
  lone.answer_all(data);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
  EXPECT_EQ(tensor, std::vector<float>(1000, 1.5F));
}

TEST(ShardTx, HeadersSayWhoSpeaksAndWhatItIs) {
  LoneOptions options;
  options.workers = 5;
  options.worker = 3;
  LoneShard lone(options);
  std::vector<int32_t> tensor(10, 7);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  for (const Bytes& frame : lone.step()) {
    const wire::Header header = header_of(frame);
    EXPECT_EQ(header.version, wire::kVersion);
    EXPECT_EQ(header.kind, static_cast<uint8_t>(wire::Kind::kContribution));
    EXPECT_EQ(header.flags & wire::kFlagRepeat, 0);
    EXPECT_EQ(header.job, 9);
    EXPECT_EQ(header.epoch, 0xabcdU);
    EXPECT_EQ(header.worker, 3);
    EXPECT_EQ(header.seq, kFirstSeq);
  }
  EXPECT_EQ(lone.counters().packets_sent.get(), 2U);
  EXPECT_EQ(lone.counters().bytes_sent.get(), 2 * wire::kHeaderBytes + 40);
  EXPECT_EQ(lone.counters().retransmissions.get(), 0U);
}

TEST(ShardTx, IntegersNeedNoExponentsAndDoNotWait) {  // [CALL-3, CALL-8]
  LoneShard lone;
  std::vector<int32_t> tensor(1000);
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<int32_t>(i) - 500;
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 2, 3, 4, 5}));
  EXPECT_EQ(words_of(frames[0]), 0U) << "an announcement without exponents";
  EXPECT_EQ(words_of(frames[4]), 1000U - 3 * 256U);
  EXPECT_EQ(word(frames[1], 0), static_cast<uint32_t>(-500));
  EXPECT_EQ(word(frames[4], 231), 499U);
}

TEST(ShardTx, ThreeWordsPerInt64) {  // [WORD-6]
  LoneShard lone;
  std::vector<int64_t> tensor(100, -1);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt64, tensor));
  const auto frames = lone.step();
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(words_of(frames[1]), 85U * 3) << "whole elements only: 255 of 256 words";
  EXPECT_EQ(words_of(frames[2]), 15U * 3);
}

TEST(ShardTx, ASlotIsRefilledInTheOrderOfTheStream) {
  LoneShard lone;
  std::vector<int32_t> tensor(20 * 256, 1);
  lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 2, 3, 4, 5, 6, 7})) << "as many as there are slots";
  EXPECT_TRUE(lone.step().empty());
  // Chunk 6 belongs into slot 2, whatever else is free.
  EXPECT_TRUE(lone.deliver({result_of(frames[3])}).empty());
  const auto refill = lone.deliver({result_of(frames[1])});
  ASSERT_EQ(slots_of(refill), (std::vector<int>{2}));
  EXPECT_EQ(header_of(refill[0]).seq, 2U);
  const auto two = lone.deliver({result_of(frames[2])});
  ASSERT_EQ(slots_of(two), (std::vector<int>{3, 4}));
  EXPECT_EQ(header_of(two[0]).seq, 2U);
  EXPECT_EQ(header_of(two[1]).seq, 2U);
}

// Two lanes: a tensor's announcement does not wait for the data before it.
TEST(ShardTx, CallsRunAheadOfDataAsFarAsTheirSlots) {
  LoneShard lone;
  std::vector<int32_t> tensor(6 * 256, 1);
  for (int i = 0; i < 4; ++i) lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  const auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  const auto next = lone.deliver({result_of(frames[0])});
  ASSERT_EQ(slots_of(next), (std::vector<int>{0})) << "the third call; the data lane is full";
  EXPECT_EQ(header_of(next[0]).seq, 2U);
}

TEST(ShardTx, ExponentsRunAsManySuperblocksAheadAsTheRingHas) {
  LoneOptions options;
  options.slots = 12;  // 3 for calls
  LoneShard lone(options);
  std::vector<std::vector<float>> tensors(34, std::vector<float>(10, 1.0F));
  for (auto& tensor : tensors) lone.submit(in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  int calls = 0;
  std::vector<Bytes> data;
  for (std::vector<Bytes> frames = lone.step(); !frames.empty();) {
    std::vector<Bytes> results;
    for (const Bytes& frame : frames) {
      if (header_of(frame).slot < 3) {
        ++calls;
        results.push_back(result_of(frame));
      } else {
        data.push_back(frame);
      }
    }
    frames = results.empty() ? std::vector<Bytes>() : lone.deliver(results);
  }
  EXPECT_EQ(calls, 32) << "exponents are kept for so many superblocks";
  ASSERT_EQ(data.size(), 9U);
  const std::vector<int> next = slots_of(lone.deliver({result_of(data[0])}));
  EXPECT_EQ(std::count_if(next.begin(), next.end(), [](int slot) { return slot < 3; }), 1)
      << "a finished superblock makes room for one more call";
}

TEST(ShardTx, ABarrierOrAnEmptyTensorIsAnAnnouncementAlone) {  // [CALL-3]
  LoneShard lone;
  std::vector<float> empty;
  const auto first = lone.submit(in_place(ReduceOp::kSum, ElementType::kFloat32, empty));
  const auto second = lone.submit(barrier());
  const auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0, 1}));
  for (const Bytes& frame : frames) EXPECT_EQ(frame.size(), wire::kHeaderBytes);
  EXPECT_TRUE(first->empty());
  lone.deliver({result_of(frames[1])});
  EXPECT_TRUE(second->empty()) << "a barrier waits for what was called before it";
  lone.deliver({result_of(frames[0])});
  ASSERT_EQ(first->size(), 1U);
  ASSERT_EQ(second->size(), 1U);
  EXPECT_TRUE(first->front().ok() && second->front().ok());
}

TEST(ShardTx, CountsOfNonFiniteElementsGoBeforeTheData) {  // [CALL-9, CALL-10]
  LoneShard lone;
  std::vector<float> tensor(300, 2.0F);
  tensor[5] = std::numeric_limits<float>::quiet_NaN();
  tensor[290] = -std::numeric_limits<float>::infinity();
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kFloat32, tensor));
  const auto call = lone.step();
  ASSERT_EQ(call.size(), 1U);
  const auto classes = lone.deliver({result_of(call[0])});
  ASSERT_EQ(slots_of(classes), (std::vector<int>{2, 3}));
  EXPECT_EQ(word(classes[0], 5), kCountNan);
  EXPECT_EQ(word(classes[0], 6), 0U);
  EXPECT_EQ(word(classes[1], 290 - 256), kCountNegInf);
  EXPECT_TRUE(lone.deliver({result_of(classes[0])}).empty()) << "all counts before any data";
  const auto data = lone.deliver({result_of(classes[1])});
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(words_of(data[1]), 44U);
  lone.answer_all(data);
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(std::isnan(tensor[5]));
  EXPECT_EQ(tensor[290], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(tensor[6], 2.0F);
}

TEST(ShardTx, EachShardHasItsOwnSlotsAndPart) {  // [SHARD-1]
  std::vector<int32_t> tensor(4 * 256, 1);
  for (int s = 0; s < 2; ++s) {
    LoneOptions options;
    options.shards = 2;
    options.shard = s;
    options.slots = 16;
    LoneShard lone(options);
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<int32_t>(i);
    lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
    const auto frames = lone.step();
    const int base = 8 * s;
    ASSERT_EQ(slots_of(frames), (std::vector<int>{base, base + 2, base + 3}));
    EXPECT_EQ(word(frames[1], 0), static_cast<uint32_t>(s) * 512U);
  }
}

TEST(ShardTx, ABurstGoesOutWhenItIsLongOrLarge) {
  LoneOptions many;
  many.payload = 256;
  many.slots = 144;  // 99 of them for the elements of many
  LoneShard small(many);
  std::vector<int32_t> tensor(95 * 64, 1);  // announced in one stream, called in the other
  small.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  EXPECT_EQ(small.step().size(), 97U);
  EXPECT_EQ(small.transport->bursts, (std::vector<size_t>{kBurst, kBurst, kBurst, 1}));

  LoneOptions large;
  large.payload = kMaxPayloadBytes;
  large.slots = 16;
  LoneShard big(large);
  std::vector<int32_t> long_tensor(5 * kMaxPayloadBytes / 4, 1);
  big.submit(in_place(ReduceOp::kSum, ElementType::kInt32, long_tensor));
  EXPECT_EQ(big.step().size(), 6U);
  // The announcement (20 bytes) and three chunks make 128 KiB.
  EXPECT_EQ(big.transport->bursts, (std::vector<size_t>{4, 2}));
}

TEST(ShardTx, WhatTheTransportDoesNotTakeIsLostAndComesBack) {
  LoneShard lone;
  std::vector<int32_t> tensor(256, 5);
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  lone.transport->takes = 1;
  auto frames = lone.step();
  ASSERT_EQ(slots_of(frames), (std::vector<int>{0}));
  EXPECT_EQ(lone.counters().send_errors.get(), 1U);
  EXPECT_EQ(lone.counters().packets_sent.get(), 1U);
  EXPECT_EQ(lone.counters().bytes_sent.get(), wire::kHeaderBytes);
  lone.transport->takes = SIZE_MAX;
  lone.answer_all(frames);
  lone.answer_all(lone.pass(milliseconds(10)));
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_TRUE(outcome->front().ok());
}

// Same words in the same slot, but another call: the witness must differ, or ranks could not find out.
TEST(ShardTx, TheWitnessCoversWhatRanksMustAgreeAbout) {  // [WIT-8]
  std::vector<int32_t> tensor(100, 5);
  const Collective plain = in_place(ReduceOp::kSum, ElementType::kInt32, tensor);
  const auto witnesses = [](const Collective& c) {
    LoneShard lone;
    lone.submit(c);
    std::vector<uint32_t> found;
    for (const Bytes& frame : lone.step()) found.push_back(header_of(frame).witness);
    return found;
  };
  const auto expected = witnesses(plain);
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(witnesses(plain), expected);
  Collective tagged = plain;
  tagged.tag = 1;
  Collective titled = plain;
  titled.title = "reduce";
  Collective divided = plain;
  divided.operands()->divisor = 2;
  Collective shorter = plain;
  shorter.count = shorter.operands()->output.end = 99;
  for (const Collective& other : {tagged, titled, divided, shorter}) {
    const auto found = witnesses(other);
    ASSERT_EQ(found.size(), 2U);
    EXPECT_NE(found[0], expected[0]) << "the announcement";
    EXPECT_NE(found[1], expected[1]) << "the data";
  }
}

TEST(ShardTx, NothingIsSentAfterAFailure) {
  LoneShard lone;
  std::vector<int32_t> tensor(256, 5);
  const auto outcome = lone.submit(in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
  lone.shard->request_failure(Status(Code::kAborted, "enough"));
  EXPECT_TRUE(lone.step().empty());
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(outcome->front().message(), "enough");
  EXPECT_TRUE(lone.pass(milliseconds(100)).empty());
}

}  // namespace
}  // namespace switchml::testing
