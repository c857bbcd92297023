#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/limits.h"
#include "in_place.h"
#include "quant/kernels.h"

namespace switchml {
namespace {

SessionParameters session_of(int workers, size_t payload) {
  SessionParameters session;
  session.workers = workers;
  session.payload_bytes = payload;
  return session;
}

size_t chunks(ReduceOp op, ElementType type, size_t count, size_t payload = 1024, int call_slots = 17) {
  Collective c;
  c.op = op;
  c.type = type;
  c.count = count;
  const ChunkPlan plan(type, op == ReduceOp::kSum && is_floating(type) && count > 0, {0, count}, payload);
  return Speculation(c, plan, session_of(2, payload), call_slots).chunks();
}

TEST(Speculation, IsForSumsOfFewFloats) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBFloat16}) {
    EXPECT_EQ(chunks(ReduceOp::kSum, type, 1), 1U);
    EXPECT_EQ(chunks(ReduceOp::kSum, type, 128), 1U);  // two words each
    EXPECT_EQ(chunks(ReduceOp::kSum, type, 129), 2U);
    EXPECT_EQ(chunks(ReduceOp::kSum, type, 0), 0U);
    EXPECT_EQ(chunks(ReduceOp::kMax, type, 1), 0U);
  }
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kInt32, 1), 0U);
  EXPECT_EQ(chunks(ReduceOp::kBarrier, ElementType::kFloat32, 0), 0U);
}

TEST(Speculation, IsBoundedByChunksBlocksAndTheCallLane) {
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, Speculation::kMaxChunks * 128), Speculation::kMaxChunks);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, Speculation::kMaxChunks * 128 + 1), 0U);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, kMaxSpeculatedBlocks * 256, kMaxPayloadBytes), 1U);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, kMaxSpeculatedBlocks * 256, 3072), 6U);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, kMaxSpeculatedBlocks * 256 + 1, kMaxPayloadBytes), 0U);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, 128, 1024, 2), 1U);  // behind the call chunk
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, 129, 1024, 2), 0U);
  EXPECT_EQ(chunks(ReduceOp::kSum, ElementType::kFloat32, 1, 1024, 1), 0U);
}

/// Two workers' tensors through speculated chunks, added as a switch adds.
class Sum {
 public:
  Sum(size_t count, size_t payload)
      : a_(count), b_(count), payload_(payload), plan_(ElementType::kFloat32, true, {0, count}, payload) {
    for (size_t i = 0; i < count; ++i) {
      a_[i] = static_cast<float>(i % 97) - 40;
      b_[i] = static_cast<float>(i % 89) / 4;
    }
    group_.range = plan_.group(0);
    group_.exponents.resize(plan_.blocks_of_group(0));
    group_.tops.resize(kMaxSpeculatedBlocks);
    for (size_t block = 0; block < group_.exponents.size(); ++block) {
      const size_t begin = block * plan_.block_elements(), n = std::min(plan_.block_elements(), count - begin);
      const auto range = quant::kernels().range[0];
      group_.exponents[block] = std::max(range(&a_[begin], n).max_exponent, range(&b_[begin], n).max_exponent);
    }
  }

  /// The windows are `off` exponents from where they would be best.
  std::vector<float> run(size_t output_begin, size_t output_end, int off) {
    std::vector<float> out(output_end - output_begin + 1, -1.0F);
    std::vector<uint8_t> predicted = group_.exponents;
    for (uint8_t& exponent : predicted) exponent = static_cast<uint8_t>(exponent + off);
    const Collective mine = call(a_, &out, output_begin, output_end), other = call(b_, &out, 0, 0);
    const Speculation first(mine, plan_, session_of(2, payload_), 17),
        second(other, plan_, session_of(2, payload_), 17);
    first.predict(predicted.data(), &group_);
    outside = first.blocks_outside(group_);
    if (outside > 0) return {};
    for (size_t c = 0; c < first.chunks(); ++c) {
      std::vector<uint8_t> words(payload_), others(payload_);
      const size_t n = first.encode(first.chunk(c), group_, words.data());
      EXPECT_EQ(second.encode(first.chunk(c), group_, others.data()), n);
      EXPECT_LE(n * 4, payload_);
      std::vector<int32_t> total(n);
      quant::kernels().store(total.data(), words.data(), n);
      quant::kernels().add(total.data(), others.data(), n);
      quant::kernels().load(total.data(), words.data(), n);
      first.decode(words.data(), first.chunk(c), group_);
    }
    return out;
  }
  std::vector<float> expected(size_t begin, size_t end) const {
    std::vector<float> out;
    for (size_t i = begin; i < end; ++i) out.push_back(a_[i] + b_[i]);
    out.push_back(-1.0F);  // not written
    return out;
  }
  size_t outside = 0;
  GroupBuffer& group() { return group_; }
  const ChunkPlan& plan() const { return plan_; }

 private:
  static Collective call(const std::vector<float>& in, std::vector<float>* out, size_t begin, size_t end) {
    Collective c;
    c.input = in.data();
    c.count = in.size();
    c.output = out->data();
    c.output_begin = begin;
    c.output_end = end;
    return c;
  }
  std::vector<float> a_, b_;
  size_t payload_;
  ChunkPlan plan_;
  GroupBuffer group_;
};

// Blocks that end inside a chunk, and chunks that end inside a block: 31.5, 2, half and quarter blocks.
TEST(Speculation, SumsAreReadForEveryPayload) {
  for (const size_t payload :
       {size_t{256}, size_t{512}, size_t{1024}, size_t{1408}, size_t{3072}, size_t{4096}, kMaxPayloadBytes}) {
    for (const size_t count : {size_t{1}, size_t{31}, size_t{33}, size_t{257}, size_t{500}}) {
      if ((count - 1) / ChunkPlan::block_elements_for(payload) >= kMaxSpeculatedBlocks) continue;
      Sum sum(count, payload);
      for (const int off : {-2, 0, 2}) {
        EXPECT_EQ(sum.run(0, count, off), sum.expected(0, count)) << payload << " " << count << " " << off;
      }
    }
  }
}

TEST(Speculation, OnlyTheWantedPartIsWritten) {
  Sum sum(500, 1024);
  for (const auto& [begin, end] :
       std::vector<std::pair<size_t, size_t>>{{0, 0}, {0, 1}, {127, 129}, {250, 300}, {255, 257}, {499, 500}}) {
    EXPECT_EQ(sum.run(begin, end, 1), sum.expected(begin, end)) << begin << " to " << end;
  }
}

// A worker that speaks for several ranks.
TEST(Speculation, SeveralInputsAreTheSumOfTheirWords) {
  constexpr size_t kCount = 300;
  std::vector<std::vector<float>> inputs(3, std::vector<float>(kCount));
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t j = 0; j < kCount; ++j) inputs[i][j] = static_cast<float>((i + 1) * j % 101) / 3 - 15;
  }
  SessionParameters session = session_of(2, 4096);
  session.ranks = 4;
  const ChunkPlan plan(ElementType::kFloat32, true, {0, kCount}, 4096);
  GroupBuffer group;
  group.range = plan.group(0);
  group.tops.resize(kMaxSpeculatedBlocks);
  const std::vector<uint8_t> exponents = {131, 130};
  const auto words = [&](const Collective& c) {
    const Speculation speculation(c, plan, session, 17);
    speculation.predict(exponents.data(), &group);
    std::vector<uint8_t> out(4096, 0);
    EXPECT_EQ(speculation.encode({0, kCount}, group, out.data()), 2 * kCount);
    return out;
  };
  Collective together;
  together.count = kCount;
  std::vector<int32_t> total(1024, 0);
  for (const auto& input : inputs) {
    together.inputs.push_back(input.data());
    Collective alone;
    alone.count = kCount;
    alone.input = input.data();
    quant::kernels().add(total.data(), words(alone).data(), total.size());
  }
  std::vector<uint8_t> expected(4096);
  quant::kernels().load(total.data(), expected.data(), total.size());
  EXPECT_EQ(words(together), expected);
}

TEST(Speculation, CountsTheBlocksOutsideOfTheirWindows) {
  Sum sum(600, 4096);
  sum.run(0, 600, 3);
  EXPECT_EQ(sum.outside, 3U);
  sum.run(0, 600, -3);
  EXPECT_EQ(sum.outside, 3U);
  sum.run(0, 600, 2);
  EXPECT_EQ(sum.outside, 0U);
}

TEST(Speculation, TheHashTellsWindowsApart) {
  Sum sum(600, 4096);
  Collective c;
  const Speculation speculation(c, sum.plan(), session_of(2, 4096), 17);
  std::vector<uint8_t> exponents = {100, 101, 102};
  speculation.predict(exponents.data(), &sum.group());
  const uint64_t hash = speculation.windows_hash(sum.group());
  EXPECT_EQ(speculation.windows_hash(sum.group()), hash);
  exponents[2] = 103;
  speculation.predict(exponents.data(), &sum.group());
  EXPECT_NE(speculation.windows_hash(sum.group()), hash);
}

}  // namespace
}  // namespace switchml
