// Sums of few floats, sent before their exponents are known: one round trip where the guess was good, the usual two
// where it was not, and the same bits in either case, whatever comes when.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cluster.h"
#include "lone_shard.h"
#include "tensors.h"

namespace switchml::testing {
namespace {

constexpr int kLag = 4;        // group buffers: a prediction looks at least so far back
constexpr int kRoundTrip = 2;  // rounds: a frame takes one
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

ClusterOptions options(NetFaults faults = {}, int shards = 1) {
  ClusterOptions out;
  out.workers = 3;
  out.shards = shards;
  out.slots = 32 * shards;  // 8 of them for calls
  out.faults = faults;
  return out;
}

uint64_t speculated(Cluster& cluster, int worker = 0) {
  return cluster.shard(worker).counters().groups_speculated.get();
}
uint64_t missed(Cluster& cluster, int worker = 0) { return cluster.shard(worker).counters().groups_mispredicted.get(); }

/// The rounds that an all-reduce takes.
template <typename T>
int rounds_of(Cluster& cluster, ElementType type, Tensors<T>& tensors) {
  const Time begin = cluster.now();
  all_reduce(cluster, ReduceOp::kSum, type, tensors);
  return static_cast<int>((cluster.now() - begin) / Cluster::kRound);
}

/// What a cluster makes of the inputs that has no history.
Tensors<float> usual(const Tensors<float>& inputs) {
  Cluster cluster(options());
  Tensors<float> tensors = inputs;
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  EXPECT_EQ(speculated(cluster), 0U);
  return tensors;
}

bool same_bits(const Tensors<float>& a, const Tensors<float>& b) {
  for (size_t w = 0; w < a.size(); ++w) {
    if (a[w].size() != b[w].size() || std::memcmp(a[w].data(), b[w].data(), a[w].size() * 4) != 0) return false;
  }
  return a.size() == b.size();
}

void warm_up(Cluster& cluster, size_t count, float spread = 1.0F) {
  for (uint32_t i = 0; i < kLag; ++i) {
    Tensors<float> tensors = random_floats(3, count, i, spread);
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  }
}

TEST(ShardSpeculate, OneRoundTripInsteadOfTwo) {
  Cluster cluster(options());
  Tensors<float> tensors = random_floats(3, 700, 100);
  const int two_trips = rounds_of(cluster, ElementType::kFloat32, tensors);
  warm_up(cluster, 700);
  EXPECT_EQ(speculated(cluster), 1U);
  const Tensors<float> inputs = random_floats(3, 700, 9);
  tensors = inputs;
  const uint64_t chunks = cluster.shard(0).counters().chunks_completed.get();
  EXPECT_EQ(rounds_of(cluster, ElementType::kFloat32, tensors) + kRoundTrip, two_trips);
  EXPECT_EQ(speculated(cluster), 2U);
  EXPECT_EQ(cluster.shard(0).counters().chunks_completed.get() - chunks, 7U);  // exponents, and 128 elements each
  EXPECT_EQ(cluster.shard(0).counters().chunks_speculated.get(), 12U);
  EXPECT_EQ(missed(cluster), 0U);
  EXPECT_TRUE(same_bits(tensors, usual(inputs)));
}

TEST(ShardSpeculate, HalfFloatsToo) {
  Cluster cluster(options());
  for (uint16_t i = 0; i < 10; ++i) {
    Tensors<uint16_t> tensors(3, std::vector<uint16_t>(300, static_cast<uint16_t>(0x3c00 + 8 * i)));
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat16, tensors);
    const auto three_times = static_cast<uint16_t>(0x4200 + 12 * i);  // 3 * (1 + 8i/1024) = 2 * (1.5 + 12i/1024)
    for (const auto& tensor : tensors) ASSERT_EQ(tensor, std::vector<uint16_t>(300, three_times));
  }
  EXPECT_EQ(speculated(cluster), 6U);
  EXPECT_EQ(missed(cluster), 0U);
}

// Numbers between the windows and all else: after the miss the usual way, in as much time as ever.
TEST(ShardSpeculate, AMissCostsNoTimeAndNoBits) {
  for (const float spread : {1e-30F, 1e-3F, 1e5F, 1e30F}) {
    Cluster cluster(options());
    Tensors<float> tensors = random_floats(3, 700, 100);
    const int two_trips = rounds_of(cluster, ElementType::kFloat32, tensors);
    warm_up(cluster, 700);
    const Tensors<float> inputs = random_floats(3, 700, 9, spread);
    tensors = inputs;
    EXPECT_EQ(rounds_of(cluster, ElementType::kFloat32, tensors), two_trips);
    EXPECT_EQ(missed(cluster), 1U);
    EXPECT_EQ(cluster.shard(0).counters().blocks_mispredicted.get(), 3U);
    EXPECT_TRUE(same_bits(tensors, usual(inputs)));
  }
}

TEST(ShardSpeculate, OneBlockOfManyOutsideOfItsWindow) {
  Cluster cluster(options());
  warm_up(cluster, 700);
  Tensors<float> inputs = random_floats(3, 700, 9);
  inputs[1][300] = 4096.0F;
  Tensors<float> tensors = inputs;
  warm_up(cluster, 700);
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  EXPECT_EQ(missed(cluster), 1U);
  EXPECT_EQ(cluster.shard(0).counters().blocks_mispredicted.get(), 1U);
  EXPECT_TRUE(same_bits(tensors, usual(inputs)));
}

TEST(ShardSpeculate, NonFiniteValuesAreFound) {
  Cluster cluster(options());
  warm_up(cluster, 700);
  Tensors<float> inputs = random_floats(3, 700, 9);
  inputs[0][0] = kNan;
  inputs[1][1] = kInf;
  inputs[1][2] = kInf;
  inputs[2][2] = -kInf;
  inputs[2][699] = -kInf;
  Tensors<float> tensors = inputs;
  all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  EXPECT_EQ(missed(cluster), 1U);
  EXPECT_EQ(cluster.shard(0).counters().blocks_mispredicted.get(), 0U);  // their exponents were predicted
  for (const auto& tensor : tensors) {
    EXPECT_TRUE(std::isnan(tensor[0]) && tensor[1] == kInf && std::isnan(tensor[2]) && tensor[699] == -kInf);
  }
  EXPECT_TRUE(same_bits(tensors, usual(inputs)));
}

TEST(ShardSpeculate, ZerosAndWhatIsTooSmallToBeNormal) {
  Cluster cluster(options());
  const auto call = [&cluster](const Tensors<float>& inputs) {
    Tensors<float> tensors = inputs;
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
    EXPECT_TRUE(same_bits(tensors, usual(inputs)));
  };
  const Tensors<float> zeros(3, std::vector<float>(300, -0.0F));
  for (int i = 0; i < 6; ++i) call(zeros);
  EXPECT_EQ(speculated(cluster), 2U);
  EXPECT_EQ(missed(cluster), 0U);
  call(Tensors<float>(3, std::vector<float>(300, 1e-45F)));  // also exponent 0
  EXPECT_EQ(missed(cluster), 0U);
  call(random_floats(3, 300, 1));
  EXPECT_EQ(missed(cluster), 1U);
  for (uint32_t i = 0; i < 8; ++i) call(random_floats(3, 300, i));
  const uint64_t before = missed(cluster);
  call(zeros);
  EXPECT_EQ(missed(cluster), before + 1);
}

// Several ahead, of several sizes, without a pause: nobody waits for a result to make up its mind.
TEST(ShardSpeculate, ManyAheadInAnyWeatherGiveTheBitsOfTheUsualWay) {
  uint64_t hits = 0, misses = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const bool calm = seed % 5 == 0;
    const int shards = seed % 3 == 0 ? 2 : 1;
    ClusterOptions chosen = options(calm ? NetFaults{} : NetFaults{seed, 0.05, 0.05, 0.0, 8}, shards);
    chosen.payload = seed % 2 == 0 ? 256 : 1024;
    Cluster cluster(chosen);
    std::vector<Tensors<float>> inputs, tensors;
    const size_t counts[] = {1, 150, 40, 700};
    for (uint32_t i = 0; i < 48; ++i) {
      inputs.push_back(random_floats(3, counts[i % 4], i, i % 11 == 10 ? 1e6F : 1.0F));
      if (i % 13 == 12) inputs.back()[i % 3][0] = kNan;
    }
    tensors = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int w = 0; w < 3; ++w) {
        cluster.submit(w, in_place(ReduceOp::kSum, ElementType::kFloat32, tensors[i][static_cast<size_t>(w)]));
      }
    }
    ASSERT_TRUE(cluster.run());
    ASSERT_TRUE(cluster.failures.empty()) << cluster.failures.front().to_string();
    for (int w = 0; w < 3; ++w) {
      EXPECT_EQ(speculated(cluster, w), speculated(cluster));  // alike on all ranks
      EXPECT_EQ(missed(cluster, w), missed(cluster));
      EXPECT_EQ(cluster.shard(w).counters().witness_failures.get(), 0U);
    }
    hits += speculated(cluster) - missed(cluster);
    misses += missed(cluster);
    ClusterOptions plain = options();
    plain.payload = chosen.payload;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Cluster fresh(plain);
      all_reduce(fresh, ReduceOp::kSum, ElementType::kFloat32, inputs[i]);
      EXPECT_TRUE(same_bits(tensors[i], inputs[i])) << "seed " << seed << ", call " << i;
    }
  }
  EXPECT_GT(hits, 300U);
  EXPECT_GT(misses, 50U);
}

Collective sum_of(std::vector<float>& tensor) { return in_place(ReduceOp::kSum, ElementType::kFloat32, tensor); }

/// A lone shard that has a history of sums of `count` ones.
void teach(LoneShard& lone, size_t count) {
  for (int i = 0; i < kLag; ++i) {
    std::vector<float> ones(count, 1.0F);
    lone.submit(sum_of(ones));
    lone.answer_all(lone.step());
  }
}

// Slots 0 to 7 are for calls. After four calls and 8 of 32 slots each round, the fifth call's chunks are in order.
TEST(ShardSpeculate, ResultsInAnyOrder) {
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    LoneOptions of;
    of.slots = 32;
    LoneShard lone(of);
    teach(lone, 300);
    std::vector<float> tensor(300);
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = 0.5F + static_cast<float>(i) / 256;
    const std::vector<float> input = tensor;
    const auto outcome = lone.submit(sum_of(tensor));
    const std::vector<Bytes> sent = lone.step();
    ASSERT_EQ(slots_of(sent), (std::vector<int>{4, 5, 6, 7}));  // exponents, 128, 128 and 44 elements
    EXPECT_EQ(words_of(sent[3]), 88U);
    for (const size_t i : order) {
      EXPECT_TRUE(outcome->empty());
      lone.deliver({result_of(sent[i])});
    }
    ASSERT_EQ(outcome->size(), 1U);
    EXPECT_TRUE(outcome->front().ok());
    EXPECT_EQ(tensor, input);  // of one worker
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(ShardSpeculate, WhatComesAfterTheMissIsDropped) {
  LoneOptions of;
  of.slots = 32;
  LoneShard lone(of);
  teach(lone, 200);
  std::vector<float> tensor(200, 1000.0F);
  const auto outcome = lone.submit(sum_of(tensor));
  const std::vector<Bytes> sent = lone.step();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_TRUE(lone.deliver({result_of(sent[1])}).empty());  // held, and of no use
  const std::vector<Bytes> data = lone.deliver({result_of(sent[0])});
  ASSERT_EQ(data.size(), 1U);
  EXPECT_GE(header_of(data[0]).slot, 8);
  lone.deliver({result_of(data[0])});
  EXPECT_TRUE(outcome->empty());  // its last slot is still open
  EXPECT_EQ(tensor, std::vector<float>(200, 1000.0F));
  lone.deliver({result_of(sent[2])});
  ASSERT_EQ(outcome->size(), 1U);
  EXPECT_EQ(tensor, std::vector<float>(200, 1000.0F));
  EXPECT_EQ(lone.counters().groups_mispredicted.get(), 1U);
}

/// What a switch makes of the contributions of two workers.
Bytes result_of_two(const Bytes& a, const Bytes& b) {
  Bytes sum = result_of(a);
  wire::Header header = header_of(sum);
  header.witness += header_of(b).witness;
  wire::write_header(header, sum.data());
  const bool adds = (header.flags & wire::kOperationMask) == static_cast<uint8_t>(wire::Operation::kSum);
  for (size_t at = wire::kHeaderBytes; at < sum.size(); at += kWordBytes) {
    const auto x = wire::detail::load<uint32_t>(a.data() + at), y = wire::detail::load<uint32_t>(b.data() + at);
    wire::detail::store(sum.data() + at, adds ? x + y : std::max(x, y));
  }
  return sum;
}

// A copy that is asked for again lies in the frame that the next one is held in.
TEST(ShardSpeculate, ADamagedResultAndAWholeOneInOneBurst) {
  LoneOptions of;
  of.slots = 32;
  of.workers = 2;
  LoneShard one(of);
  of.worker = 1;
  LoneShard other(of);
  std::vector<float> a(300), b(300);
  std::vector<Bytes> mine, theirs;
  for (int call = 0; call <= kLag; ++call) {
    std::fill(a.begin(), a.end(), 1.5F);
    std::fill(b.begin(), b.end(), 1.25F);
    one.submit(sum_of(a));
    other.submit(sum_of(b));
    mine = one.step();
    theirs = other.step();
    while (call < kLag && !mine.empty()) {
      std::vector<Bytes> results;
      for (size_t i = 0; i < mine.size(); ++i) results.push_back(result_of_two(mine[i], theirs[i]));
      mine = one.deliver(results);
      theirs = other.deliver(results);
    }
  }
  ASSERT_EQ(mine.size(), 4U);  // exponents, 128, 128 and 44 elements
  std::vector<Bytes> results;
  for (size_t i = 0; i < mine.size(); ++i) results.push_back(result_of_two(mine[i], theirs[i]));
  Bytes damaged = results[1];
  damaged[wire::kHeaderBytes] ^= 1;
  const std::vector<Bytes> again = one.deliver({damaged, results[1]});
  EXPECT_EQ(one.counters().witness_failures.get(), 1U);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(without_repeat_flag(again[0]), mine[1]);
  one.deliver({results[0], results[2], results[3]});
  EXPECT_EQ(a, std::vector<float>(300, 2.75F));
}

// A group that is over before the last of its speculated chunks has found a slot keeps its windows until then.
TEST(ShardSpeculate, SumsTheUsualWayBeforeItsSpeculatedChunksAreOut) {
  LoneOptions of;
  of.slots = 32;
  LoneShard lone(of);
  teach(lone, 300);
  std::vector<Bytes> barriers;
  for (int i = 0; i < 3; ++i) lone.submit(barrier());
  barriers = lone.step();
  ASSERT_EQ(slots_of(barriers), (std::vector<int>{4, 5, 6}));
  std::vector<float> tensor(300, 1000.0F);
  const auto outcome = lone.submit(sum_of(tensor));
  const std::vector<Bytes> first = lone.step();
  ASSERT_EQ(slots_of(first), (std::vector<int>{7, 0, 1, 2}));
  lone.answer_all(barriers);
  lone.answer_all(first);
  ASSERT_EQ(outcome->size(), 1U);

  // The same with a slot in the way: 3, 4, 5 for barriers, 6 for exponents; 7, 0, 1 follow.
  LoneShard late(of);
  teach(late, 300);
  for (int i = 0; i < 7; ++i) late.submit(barrier());
  barriers = late.step();
  ASSERT_EQ(slots_of(barriers), (std::vector<int>{4, 5, 6, 7, 0, 1, 2}));
  std::fill(tensor.begin(), tensor.end(), 1000.0F);
  const auto end = late.submit(sum_of(tensor));
  const std::vector<Bytes> call = late.step();
  ASSERT_EQ(slots_of(call), (std::vector<int>{3}));  // 4 is a barrier's
  std::vector<Bytes> data = late.deliver({result_of(call[0])});
  data.erase(std::remove_if(data.begin(), data.end(), [](const Bytes& f) { return header_of(f).slot < 8; }),
             data.end());
  ASSERT_EQ(data.size(), 2U);  // beside repeats of the barriers
  late.deliver({result_of(data[0]), result_of(data[1])});
  EXPECT_EQ(tensor, std::vector<float>(300, 1000.0F));
  EXPECT_TRUE(end->empty());
  late.answer_all(barriers);
  ASSERT_EQ(end->size(), 1U);
  EXPECT_TRUE(end->front().ok());
  EXPECT_EQ(tensor, std::vector<float>(300, 1000.0F));
  EXPECT_EQ(late.counters().chunks_speculated.get(), 3U);
}

// Guesses that go wrong time and again are not sent any more, and are when they would have been right.
TEST(ShardSpeculate, StopsWhereItDoesNotPay) {
  Cluster cluster(options());
  for (uint32_t i = 0; i < 40; ++i) {
    Tensors<float> tensors = random_floats(3, 50, i, std::pow(2.0F, static_cast<float>(i * i * 7 % 90)));
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  }
  EXPECT_LT(speculated(cluster), 16U);
  const uint64_t before = speculated(cluster);
  for (uint32_t i = 0; i < 40; ++i) {
    Tensors<float> tensors = random_floats(3, 50, i);
    all_reduce(cluster, ReduceOp::kSum, ElementType::kFloat32, tensors);
  }
  EXPECT_GT(speculated(cluster), before + 20);
}

// Ranks that guess differently, which the rules exclude, would add words that do not belong together.
TEST(ShardSpeculate, TheWitnessCoversTheWindows) {
  LoneOptions of;
  of.slots = 32;
  LoneShard small(of), large(of);
  teach(small, 100);
  for (int i = 0; i < kLag; ++i) {
    std::vector<float> numbers(100, 4.0F);
    large.submit(sum_of(numbers));
    large.answer_all(large.step());
  }
  std::vector<float> a(100, 2.0F), b(100, 2.0F);
  small.submit(sum_of(a));
  large.submit(sum_of(b));
  const std::vector<Bytes> by_small = small.step(), by_large = large.step();
  ASSERT_EQ(by_small.size(), 2U);
  ASSERT_EQ(by_large.size(), 2U);
  EXPECT_EQ(by_small[0], by_large[0]);  // the exponents
  small.deliver({result_of(by_large[1])});
  EXPECT_EQ(small.counters().witness_failures.get(), 1U);
}

}  // namespace
}  // namespace switchml::testing
