#include "integer/integer_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/limits.h"
#include "integer/nonfinite.h"
#include "integer/witness.h"

namespace switchml {
namespace {

uint32_t word(const std::vector<uint8_t>& words, size_t i) {
  return static_cast<uint32_t>(words[4 * i]) << 24 | static_cast<uint32_t>(words[4 * i + 1]) << 16 |
         static_cast<uint32_t>(words[4 * i + 2]) << 8 | words[4 * i + 3];
}

Collective of(ReduceOp op, ElementType type, const void* in, void* out, size_t count) {
  Collective c;
  c.op = op;
  c.type = type;
  c.operands()->input = in;
  c.operands()->output.data = out;
  c.count = count;
  c.operands()->output.end = count;
  return c;
}

// A superblock of a plan as its call chunk leaves it, with n blocks of these widths and exponents.
Superblock known(const ChunkPlan& plan, const std::vector<uint8_t>& exponents, const std::vector<Width>& widths) {
  Superblock superblock;
  superblock.range = plan.superblock(0);
  superblock.exponents = exponents;
  superblock.widths = widths;
  return superblock;
}

TEST(IntegerCodec, CallChunkHasBothExponentsThenFlags) {  // [CALL-6]
  std::vector<float> x(600, 0.0F);
  x[3] = 1.5F;                                      // block 0: biased exponents 127 and 127
  x[256] = -8.0F;                                   // block 1: 130; the float below it has 129
  x[257] = 0x1p-140F;                               // and what is below a normal float has 0
  x[599] = std::numeric_limits<float>::infinity();  // block 2: all finite elements are 0
  const Collective c = of(ReduceOp::kSum, ElementType::kFloat32, x.data(), x.data(), x.size());
  const ChunkPlan plan(c.type, true, {0, x.size()}, 1024);
  const IntegerCodec codec(c, plan, 2, std::nullopt);
  std::vector<uint8_t> words(1024, 0xff);
  ASSERT_EQ(codec.encode_call(0, words.data()), 7U);
  const std::vector<uint32_t> expected = {127, 130, 0, 128, 255, 0, 1};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(word(words, i), expected[i]) << i;
  Witness(1, 2, 256).guard(words.data(), 7, 99);
  Superblock superblock;
  superblock.range = plan.superblock(0);
  superblock.exponents.resize(16);
  superblock.widths.resize(16);
  ASSERT_TRUE(codec.plausible_call(0, words.data(), 7));
  codec.decode_call(words.data(), 7, &superblock);
  EXPECT_TRUE(superblock.ready && superblock.has_nonfinite);
  EXPECT_EQ(superblock.exponents[1], 130);
  EXPECT_EQ(superblock.widths[0], Width::k32);
  EXPECT_EQ(superblock.widths[1], Width::k64);
  EXPECT_EQ(superblock.widths[2], Width::kNone);
  for (const size_t count : {256, 128, 216}) {  // Zeros need no words.
    EXPECT_EQ(codec.next_chunk(superblock, 256).count, count);
    superblock.sent += count;
  }
}

TEST(IntegerCodec, WhatNoBlockCanHaveIsRefused) {  // [MAX-3]
  std::vector<float> x(10, 1.0F);
  const Collective c = of(ReduceOp::kSum, ElementType::kFloat32, x.data(), x.data(), x.size());
  const ChunkPlan plan(c.type, true, {0, x.size()}, 1024);
  const IntegerCodec codec(c, plan, 2, std::nullopt);
  const auto plausible = [&codec](const std::vector<uint16_t>& values) {
    std::vector<uint8_t> words;
    for (const uint16_t v : values) words.insert(words.end(), {0, 0, uint8_t(v >> 8), uint8_t(v & 255)});
    Witness(1, 2, 256).guard(words.data(), values.size(), 99);
    return codec.plausible_call(0, words.data(), values.size());
  };
  EXPECT_TRUE(plausible({254, 1, 1}));
  EXPECT_TRUE(plausible({0, 255, 0}));  // Only numbers below the normal ones.
  EXPECT_TRUE(plausible({0, 0, 0}));
  EXPECT_FALSE(plausible({255, 1, 0}));
  EXPECT_FALSE(plausible({256 + 127, 128, 0}));  // Nine bits.
  EXPECT_FALSE(plausible({127, 256 + 128, 0}));
  EXPECT_FALSE(plausible({127, 0, 0}));    // A largest term, and no least one.
  EXPECT_FALSE(plausible({127, 127, 0}));  // The least one is larger.
  EXPECT_FALSE(plausible({127, 128, 2}));
  EXPECT_FALSE(plausible({127, 128}));
  EXPECT_FALSE(plausible({127, 128, 0, 1}));
  EXPECT_FALSE(codec.plausible_call(0, std::vector<uint8_t>(12, 0xff).data(), 3));
}

// One worker's own words decode to its own values, exactly where the quantum allows it.
TEST(IntegerCodec, RoundTripOfEveryPathWithAPartialOutput) {
  std::vector<float> x(700), out(100, -1.0F);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 64.0F;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    Collective c = of(op, ElementType::kFloat32, x.data(), out.data(), x.size());
    c.operands()->output.begin = 250;  // inside a block, across its end
    c.operands()->output.end = 350;
    const ChunkPlan plan(c.type, op == ReduceOp::kSum, {0, x.size()}, 4096);
    const IntegerCodec codec(c, plan, 1, std::nullopt);
    const Superblock superblock = known(plan, std::vector<uint8_t>(3, 130), std::vector<Width>(3, Width::k32));
    std::vector<uint8_t> words(4096);
    ASSERT_EQ(codec.encode_data({0, 700}, &superblock, words.data()), 700U);
    codec.decode_data(words.data(), {0, 700}, &superblock);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], x[250 + i]) << to_string(op);
  }
}

TEST(IntegerCodec, SpecialCountsBecomeIeeeClasses) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.0F, std::numeric_limits<float>::quiet_NaN(), inf, -inf};
  const Collective c = of(ReduceOp::kSum, ElementType::kFloat32, x.data(), x.data(), x.size());
  const ChunkPlan plan(c.type, true, {0, x.size()}, 1024);
  const IntegerCodec codec(c, plan, 3, std::nullopt);
  std::vector<uint8_t> words(16);
  ASSERT_EQ(codec.encode_nonfinite({0, 4}, words.data()), 4U);
  EXPECT_EQ(word(words, 0), 0U);
  EXPECT_EQ(word(words, 1), 1U);
  EXPECT_EQ(word(words, 2), 1U << 10);
  EXPECT_EQ(word(words, 3), 1U << 20);
  Superblock superblock;
  superblock.range = {0, 4};
  std::vector<uint8_t> classes(4);
  superblock.classes = classes.data();
  codec.decode_nonfinite(words.data(), {0, 4}, &superblock);
  EXPECT_EQ(classes, (std::vector<uint8_t>{0, 1, 2, 3}));
  words = {0, 0x10, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};  // +Inf once and -Inf once
  codec.decode_nonfinite(words.data(), {0, 4}, &superblock);
  EXPECT_EQ(classes[0], static_cast<uint8_t>(Nonfinite::kNan));
}

// Chunks of whole blocks, and such as begin and end inside of them.
TEST(IntegerCodec, TheHashSeesEveryExponentOfTheChunkAndNoOther) {
  for (const size_t payload : {size_t{2048}, size_t{1408}}) {
    std::vector<float> x(2816, 1.0F);
    const Collective c = of(ReduceOp::kSum, ElementType::kFloat32, x.data(), x.data(), x.size());
    const ChunkPlan plan(c.type, true, {0, x.size()}, payload);
    const IntegerCodec codec(c, plan, 2, std::nullopt);
    Superblock superblock = known(plan, std::vector<uint8_t>(11, 127), std::vector<Width>(11, Width::k32));
    for (size_t chunk = 0; chunk < plan.chunks_of_superblock(0); ++chunk) {
      const ElementRange range = plan.chunk(0, chunk);
      const uint64_t hash = codec.exponents_hash(range, &superblock);
      for (size_t b = 0; b < 11; ++b) {
        superblock.exponents[b] = 128;
        const bool has = b * 256 < range.begin + range.count && (b + 1) * 256 > range.begin;
        EXPECT_EQ(codec.exponents_hash(range, &superblock) != hash, has) << payload << " " << chunk << " " << b;
        superblock.exponents[b] = 127;
        superblock.widths[b] = Width::k48;
        EXPECT_EQ(codec.exponents_hash(range, &superblock) != hash, has) << payload << " " << chunk << " " << b;
        superblock.widths[b] = Width::k32;
      }
    }
  }
}

// Every element with the exponent of its own block, whichever chunk it is in.
TEST(IntegerCodec, BlocksThatLieInTwoChunksKeepTheirExponents) {
  std::vector<float> x(2816), out(x.size(), -1.0F);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0F + static_cast<float>(i % 64) / 64.0F, static_cast<int>(i / 256) * 8 - 40);
  const Collective c = of(ReduceOp::kSum, ElementType::kFloat32, x.data(), out.data(), x.size());
  const ChunkPlan plan(c.type, true, {0, x.size()}, 1408);
  const IntegerCodec codec(c, plan, 1, std::nullopt);
  std::vector<uint8_t> exponents;
  for (int b = 0; b < 11; ++b) exponents.push_back(static_cast<uint8_t>(127 + b * 8 - 40));
  const Superblock superblock = known(plan, exponents, std::vector<Width>(11, Width::k32));
  for (size_t chunk = 0; chunk < plan.chunks_of_superblock(0); ++chunk) {
    std::vector<uint8_t> words(1408);
    ASSERT_EQ(codec.encode_data(plan.chunk(0, chunk), &superblock, words.data()), 352U);
    codec.decode_data(words.data(), plan.chunk(0, chunk), &superblock);
  }
  EXPECT_EQ(out, x);
}

// ---- a worker that speaks for several ranks ----

/// What the switch makes of the words that workers send for one input each.
template <typename Encode>
std::vector<uint8_t> by_switch(const std::vector<const void*>& inputs, const Collective& c, const ChunkPlan& plan,
                               wire::Operation how, std::optional<int> significant_bits, const Encode& encode) {
  const Kernels& kernels = switchml::kernels();
  std::vector<uint8_t> words(4096 * kWordBytes), out(words.size());
  struct alignas(64) Line {
    int32_t words[16];
  };
  std::vector<Line> total(words.size() / sizeof(Line));
  size_t n = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Collective one = c;
    one.operands()->inputs.clear();
    one.operands()->input = inputs[i];
    n = encode(IntegerCodec(one, plan, static_cast<int>(inputs.size()) + 3, significant_bits), words.data());
    const auto combine = i == 0 ? kernels.store : how == wire::Operation::kSum ? kernels.add : kernels.max;
    combine(total[0].words, words.data(), n);
  }
  kernels.load(total[0].words, out.data(), n);
  out.resize(n * kWordBytes);
  return out;
}

template <typename Encode>
void expect_the_switch_s_words(const Collective& c, const ChunkPlan& plan, wire::Operation how, const Encode& encode) {
  const std::optional<int> significant_bits = 4;
  std::vector<uint8_t> words(4096 * kWordBytes);
  const size_t n =
      encode(IntegerCodec(c, plan, static_cast<int>(c.operands()->inputs.size()) + 3, significant_bits), words.data());
  words.resize(n * kWordBytes);
  EXPECT_EQ(words, by_switch(c.operands()->inputs, c, plan, how, significant_bits, encode))
      << to_string(c.op) << " of " << to_string(c.type);
}

// However many ranks have it: all ranks of all hosts would not fit ten bits. [CALL-9]
void expect_the_switch_s_classes(const Collective& c, const ChunkPlan& plan, ElementRange range) {
  const auto encode = [&](const IntegerCodec& codec, uint8_t* words) { return codec.encode_nonfinite(range, words); };
  std::vector<uint8_t> words(4096 * kWordBytes);
  const int ranks = static_cast<int>(c.operands()->inputs.size()) + 3;
  words.resize(encode(IntegerCodec(c, plan, ranks, 4), words.data()) * kWordBytes);
  std::vector<uint8_t> once = by_switch(c.operands()->inputs, c, plan, wire::Operation::kSum, 4, encode);
  for (size_t i = 0; i < once.size() / kWordBytes; ++i)
    wire::detail::store<uint32_t>(&once[i * kWordBytes], counted_once(word(once, i)));
  EXPECT_EQ(words, once) << to_string(c.type);
}

using Tensors = std::vector<std::vector<float>>;
constexpr size_t kHostRanks = 128;

/// What a switch makes of the words of hosts of 128 ranks.
template <typename Encode>
std::vector<uint8_t> by_hosts(const Tensors& tensors, Collective c, const ChunkPlan& plan, wire::Operation how,
                              int significant_bits, const Encode& encode) {
  std::vector<uint8_t> words(4096 * kWordBytes);
  std::vector<uint32_t> total(4096);
  size_t n = 0;
  for (size_t first = 0; first < tensors.size(); first += kHostRanks) {
    c.operands()->inputs.clear();
    for (size_t rank = first; rank < first + kHostRanks; ++rank) c.operands()->inputs.push_back(tensors[rank].data());
    n = encode(IntegerCodec(c, plan, static_cast<int>(tensors.size()), significant_bits), words.data());
    for (size_t i = 0; i < n; ++i) {
      total[i] = how == wire::Operation::kSum ? total[i] + word(words, i) : std::max(total[i], word(words, i));
    }
  }
  words.resize(n * kWordBytes);
  for (size_t i = 0; i < n; ++i) wire::detail::store<uint32_t>(&words[i * kWordBytes], total[i]);
  return words;
}

/// A block that lies in the superblock alone, reduced.
void reduce_block(const Tensors& tensors, const Collective& c, int significant_bits, Width* width) {
  const ElementRange all{0, c.count};
  const ChunkPlan plan(c.type, true, all, 4096);
  const IntegerCodec codec(c, plan, static_cast<int>(tensors.size()), significant_bits);
  const auto exponents = by_hosts(tensors, c, plan, wire::Operation::kMax, significant_bits,
                                  [](const IntegerCodec& one, uint8_t* words) { return one.encode_call(0, words); });
  const BlockExponents block{static_cast<uint8_t>(word(exponents, 0)), static_cast<uint8_t>(word(exponents, 1))};
  *width = WidthChoice(c.type, static_cast<int>(tensors.size()), significant_bits).of(block);
  Superblock superblock = known(plan, {block.largest}, {*width});
  std::vector<uint8_t> classes(c.count);
  superblock.classes = classes.data();
  superblock.has_nonfinite = word(exponents, 2) != 0;
  const auto counts =
      by_hosts(tensors, c, plan, wire::Operation::kSum, significant_bits,
               [&](const IntegerCodec& one, uint8_t* words) { return one.encode_nonfinite(all, words); });
  codec.decode_nonfinite(counts.data(), all, &superblock);
  const auto data =
      by_hosts(tensors, c, plan, wire::Operation::kSum, significant_bits,
               [&](const IntegerCodec& one, uint8_t* words) { return one.encode_data(all, &superblock, words); });
  codec.decode_data(data.data(), all, &superblock);
}

TEST(IntegerCodec, HostsOf1024RanksAddUp) {  // [WORD-8, WORD-12, CALL-9]
  constexpr size_t kCount = 256;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  Tensors tensors(kMaxRanks, std::vector<float>(kCount));
  std::vector<double> exact(kCount);
  double largest = 0;
  for (auto& tensor : tensors) {
    for (size_t i = 0; i < kCount; ++i) {
      exact[i] += static_cast<double>(tensor[i] = normal(random));
      largest = std::max(largest, static_cast<double>(std::abs(tensor[i])));
    }
    tensor[100] = kInfinity;  // 1,024 times, which ten bits do not have.
  }
  tensors[700][101] = std::numeric_limits<float>::quiet_NaN();
  for (const int significant_bits : {0, 24}) {  // As few bits as there are, and as many as keep each term.
    std::vector<float> out(kCount);
    Collective c = of(ReduceOp::kSum, ElementType::kFloat32, nullptr, out.data(), kCount);
    c.operands()->divisor = kMaxRanks;
    Width width = Width::kNone;
    reduce_block(tensors, c, significant_bits, &width);
    const int bits = WidthChoice(c.type, kMaxRanks, significant_bits).bits(width);
    const double unit = std::ldexp(largest, -bits);
    for (size_t i = 0; i < kCount; ++i) {
      if (i == 100 || i == 101) continue;
      ASSERT_LE(std::abs(static_cast<double>(out[i]) - exact[i] / kMaxRanks), unit + std::abs(exact[i]) * 0x1p-32)
          << i << " with " << bits << " bits";
    }
    EXPECT_EQ(out[100], kInfinity);
    EXPECT_TRUE(std::isnan(out[101]));
  }
}

TEST(IntegerCodec, SeveralInputsAreWhatASwitchWouldMakeOfThem) {  // [HOST-2]
  constexpr size_t kCount = 700;
  std::mt19937_64 random(5);
  for (const size_t ranks : {2U, 3U, 7U}) {
    for (int type = 0; type < kElementTypes; ++type) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
        const auto element = static_cast<ElementType>(type);
        if (!integer_can(op, element)) continue;
        std::vector<std::vector<uint64_t>> tensors(ranks, std::vector<uint64_t>(kCount));  // any bits, NaN among them
        Collective c = of(op, element, nullptr, nullptr, kCount);
        for (auto& tensor : tensors) {
          for (uint64_t& bits : tensor) bits = random();
          c.operands()->inputs.push_back(tensor.data());
        }
        const bool with_exponents = op == ReduceOp::kSum && is_floating(element);
        const ChunkPlan plan(element, with_exponents, {0, kCount}, 4096);
        std::vector<uint8_t> exponents;
        std::vector<Width> widths;
        for (size_t b = 0; b < 16; ++b) {
          exponents.push_back(static_cast<uint8_t>(254 - b));
          widths.push_back(static_cast<Width>((b + ranks) % 5));
        }
        const Superblock superblock = known(plan, exponents, widths);
        const wire::Operation how = op == ReduceOp::kSum ? wire::Operation::kSum : wire::Operation::kMax;
        for (const ElementRange range : {ElementRange{0, kCount}, ElementRange{256, 300}, ElementRange{512, 1},
                                         ElementRange{100, 500}, ElementRange{352, 348}}) {
          expect_the_switch_s_words(c, plan, how, [&](const IntegerCodec& codec, uint8_t* words) {
            return codec.encode_data(range, &superblock, words);
          });
          if (!with_exponents) continue;
          expect_the_switch_s_classes(c, plan, range);
        }
        expect_the_switch_s_words(c, plan, wire::Operation::kMax, [&](const IntegerCodec& codec, uint8_t* words) {
          return codec.encode_call(0, words);
        });
      }
    }
  }
}

}  // namespace
}  // namespace switchml
