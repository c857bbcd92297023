#include "engine/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "base/limits.h"

namespace switchml {
namespace {

constexpr size_t kPayload = 256;
constexpr size_t kChunk = kPayload / sizeof(float);  // elements

std::vector<SessionParameters> sessions_of(const std::vector<uint32_t>& weights, bool exact = true) {
  std::vector<SessionParameters> sessions;
  for (const uint32_t weight : weights) {
    SessionParameters session;
    session.exact = exact;
    session.payload_bytes = kPayload;
    session.weight = weight;
    sessions.push_back(session);
  }
  return sessions;
}

Collective sum_of(size_t count, StreamChoice stream = StreamChoice::kByLength) {
  Collective collective;
  collective.count = count;
  collective.stream = stream;
  return collective;
}

Collective barrier() {
  Collective collective;
  collective.op = ReduceOp::kBarrier;
  return collective;
}

std::vector<size_t> shards_of(const std::vector<ShardPart>& parts) {
  std::vector<size_t> shards;
  for (const ShardPart& part : parts) shards.push_back(part.shard);
  return shards;
}

/// Who has each chunk, as docs/protocol.md has it: place i has chunk j where W(i) < (j + 1) * W(m) / c <= W(i + 1).
/// Walks the chunks, and divides nothing.
std::vector<size_t> owners_by_the_book(const std::vector<uint32_t>& weights, size_t home, size_t chunks) {
  const uint64_t total = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<size_t> owners;
  size_t shard = (home + 1) % weights.size();
  uint64_t upto = weights[shard];
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    while ((chunk + 1) * total > upto * chunks) {
      shard = (shard + 1) % weights.size();
      upto += weights[shard];
    }
    owners.push_back(shard);
  }
  return owners;
}

/// What `parts` say of it: who has each chunk. Every element must be in one part, and no chunk in two.
std::vector<size_t> owners_of(const std::vector<ShardPart>& parts, size_t count) {
  std::vector<size_t> owners;
  size_t next = 0;
  for (const ShardPart& part : parts) {
    EXPECT_EQ(part.range.begin, next);
    EXPECT_TRUE(part.range.begin % kChunk == 0 || part.range.count == 0) << part.range.begin;
    next = part.range.begin + part.range.count;
    EXPECT_TRUE(next % kChunk == 0 || next == count) << next;
    owners.resize((next + kChunk - 1) / kChunk, part.shard);
  }
  EXPECT_EQ(next, count);
  return owners;
}

/// Each shard once; without a chunk only the home.
void expect_who_takes_part(const std::vector<ShardPart>& parts, size_t home) {
  std::map<size_t, int> times;
  for (const ShardPart& part : parts) {
    ++times[part.shard];
    EXPECT_TRUE(part.range.count > 0 || part.shard == home) << part.shard;
  }
  EXPECT_EQ(times.size(), parts.size());
  EXPECT_EQ(times.count(home), 1U);
}

/// Less than a chunk from the exact share.
void expect_fair(const std::vector<size_t>& owners, const std::vector<uint32_t>& weights) {
  const uint64_t total = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<uint64_t> chunks(weights.size());
  for (const size_t owner : owners) ++chunks[owner];
  for (size_t shard = 0; shard < weights.size(); ++shard) {
    EXPECT_LT(chunks[shard] * total, owners.size() * weights[shard] + total) << "shard " << shard;
    EXPECT_LT(owners.size() * weights[shard], chunks[shard] * total + total) << "shard " << shard;
  }
}

/// As many collectives as it takes for every shard to be the home, of these counts in rotation.
void expect_shares(const std::vector<uint32_t>& weights, int shards, const std::vector<size_t>& counts) {
  std::vector<uint32_t> by_shard;
  for (const uint32_t weight : weights) by_shard.insert(by_shard.end(), static_cast<size_t>(shards), weight);
  Shares shares(sessions_of(weights), shards);
  for (size_t turn = 0; turn < by_shard.size() + counts.size(); ++turn) {
    const size_t home = turn % by_shard.size();
    const size_t count = counts[turn % counts.size()];
    SCOPED_TRACE(::testing::Message() << weights.size() << " sessions of " << shards << " shards, " << count
                                      << " elements, turn " << turn);
    const std::vector<ShardPart> parts = shares.next(sum_of(count));
    const std::vector<size_t> owners = owners_of(parts, count);
    ASSERT_EQ(owners, owners_by_the_book(by_shard, home, (count + kChunk - 1) / kChunk));
    expect_who_takes_part(parts, home);
    expect_fair(owners, by_shard);
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(Shares, EveryChunkHasOneShardInProportionToTheWeights) {
  const std::vector<size_t> counts = {0, 1, kChunk, kChunk + 1, 5 * kChunk, 1000 * kChunk - 1};
  expect_shares({1}, 1, counts);
  expect_shares({1}, 3, counts);
  expect_shares({1, 1}, 1, counts);
  expect_shares({1, 1000}, 1, counts);
  expect_shares({1000, 1}, 2, counts);
  expect_shares({1, 1000, 1, 1000, 7}, 3, counts);
  expect_shares(std::vector<uint32_t>(kMaxWorkers, 1), 1, counts);
  expect_shares(std::vector<uint32_t>(kMaxWorkers, 1000), 4, counts);
}

TEST(Shares, ByTheBookWhateverTheWeights) {  // [SHARE-2, SHARE-3, SHARE-4]
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<uint32_t> weights(1 + random() % (round % 10 == 0 ? kMaxWorkers : 6));
    for (uint32_t& weight : weights) weight = random() % 3 == 0 ? 1 + random() % 3 : 1 + random() % 1000;
    std::vector<size_t> counts(5);
    for (size_t& count : counts) count = random() % (kChunk * (random() % 2 == 0 ? 4 : 3000));
    expect_shares(weights, 1 + static_cast<int>(random() % 4), counts);
  }
}

// The last place, and with it the last chunk, is the home's.
TEST(Shares, AnExample) {  // [SHARE-3, SHARE-4]
  Shares shares(sessions_of({1, 3}), 1);
  const auto expect_parts = [&](size_t chunks, const std::vector<std::vector<size_t>>& expected) {
    std::vector<std::vector<size_t>> parts;
    for (const ShardPart& part : shares.next(sum_of(chunks * kChunk))) {
      parts.push_back({part.shard, part.range.begin / kChunk, part.range.count / kChunk});
    }
    EXPECT_EQ(parts, expected);
  };
  expect_parts(8, {{1, 0, 6}, {0, 6, 2}});
  expect_parts(8, {{0, 0, 2}, {1, 2, 6}});
  expect_parts(1, {{0, 0, 1}});
  expect_parts(1, {{1, 0, 1}});
  expect_parts(3, {{1, 0, 2}, {0, 2, 1}});
  expect_parts(3, {{1, 0, 3}});
}

TEST(Shares, OfATensorThatFillsTheMemoryOfAHost) {
  constexpr size_t kCount = (size_t{1} << 47) - 5;  // of bytes, in the most shards, of the greatest weight
  Shares shares(sessions_of(std::vector<uint32_t>(kMaxWorkers, 1000)), 64);
  Collective collective = sum_of(kCount);
  collective.type = ElementType::kUInt8;
  const std::vector<ShardPart> parts = shares.next(collective);
  ASSERT_EQ(parts.size(), size_t{64} * kMaxWorkers);
  size_t next = 0;
  for (const ShardPart& part : parts) {
    ASSERT_EQ(part.range.begin, next);
    next += part.range.count;
    ASSERT_NEAR(static_cast<double>(part.range.count), static_cast<double>(kCount) / (64.0 * kMaxWorkers), kPayload);
  }
  EXPECT_EQ(next, kCount);
}

TEST(Shares, ChunksAreOfThePayloadWhateverTheType) {
  for (int type = 0; type < kElementTypes; ++type) {
    Shares shares(sessions_of({1, 1}), 1);
    Collective collective = sum_of(10000);
    collective.type = static_cast<ElementType>(type);
    const std::vector<ShardPart> parts = shares.next(collective);
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[1].range.begin % elements_per_chunk(collective.type, kPayload, true), 0U);
    EXPECT_GT(parts[1].range.begin, 0U);
  }
}

/// Sessions in which tensors may travel in chunks of 256 bytes to 64 KiB.
std::vector<SessionParameters> sessions_with_small_chunks(size_t count) {
  std::vector<SessionParameters> sessions = sessions_of(std::vector<uint32_t>(count, 1));
  for (SessionParameters& session : sessions) {
    session.payload_bytes = 63 * 1024;
    session.least_chunk_bytes = 256;
  }
  return sessions;
}

TEST(Shares, ChunksAreAsSmallAsMakesManyForEachShard) {  // [NCHUNK-1, NCHUNK-2, NCHUNK-3, NCHUNK-4]
  const Shares shares(sessions_with_small_chunks(4), 2);
  EXPECT_EQ(shares.chunk_bytes(sum_of(0)), 256U);
  EXPECT_EQ(shares.chunk_bytes(sum_of(1000)), 256U);
  EXPECT_EQ(shares.chunk_bytes(sum_of(1 << 20)), 16384U) << "32 for each of 8 shards";
  EXPECT_EQ(shares.chunk_bytes(sum_of((1 << 20) + 100)), 16384U) << "whole cache lines";
  EXPECT_EQ(shares.chunk_bytes(sum_of(1 << 26)), 63U * 1024);
  EXPECT_EQ(shares.chunk_bytes(sum_of(1 << 15, StreamChoice::kBulk)), 4096U) << "4 of a piece";
  EXPECT_EQ(shares.chunk_bytes(sum_of(1 << 15, StreamChoice::kShort)), 63U * 1024) << "as few as its lane has slots";
  EXPECT_EQ(Shares(sessions_of({1, 1}), 1).chunk_bytes(sum_of(1 << 20)), kPayload) << "not where they may not";
  std::vector<SessionParameters> sessions = sessions_with_small_chunks(1);
  sessions[0].partial_sum_ranks = 4;
  const Shares partial(sessions, 4);  // [PART-9]
  EXPECT_EQ(partial.chunk_bytes(sum_of(1 << 26)), (63U * 1024 - 8) / 16 * 4) << "room for the terms of four ranks";
  EXPECT_EQ(partial.chunk_bytes(sum_of(1000)), 256U);
  Collective maximum = sum_of(1 << 26);
  maximum.op = ReduceOp::kMax;
  EXPECT_EQ(partial.chunk_bytes(maximum), 63U * 1024);
  std::vector<SessionParameters> integers = sessions_with_small_chunks(1);
  integers[0].exact = false;
  EXPECT_EQ(Shares(integers, 1).chunk_bytes(sum_of(1 << 20)), 63U * 1024) << "whose blocks depend on the payload";
}

TEST(Shares, PartsAreOfTheChunksThatTheyTravelIn) {
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{100003}, size_t{1} << 22}) {
    Shares shares(sessions_with_small_chunks(3), 1);
    const size_t chunk = shares.chunk_bytes(sum_of(count)) / sizeof(float);
    size_t next = 0;
    for (const ShardPart& part : shares.next(sum_of(count))) {
      EXPECT_EQ(part.range.begin, next);
      next += part.range.count;
      EXPECT_TRUE(next % chunk == 0 || next == count) << next;
    }
    EXPECT_EQ(next, count);
  }
}

TEST(Shares, SmallOnesGoToOneShardAfterTheOther) {  // [SHARE-5, SHARE-6]
  Shares shares(sessions_of({1, 1000, 1}), 2);
  for (size_t turn = 0; turn < 37;) {
    for (const size_t count : {size_t{0}, size_t{1}, kChunk}) {
      EXPECT_EQ(shards_of(shares.next(sum_of(count))), std::vector<size_t>{turn++ % 6}) << count;
    }
  }
}

TEST(Shares, ABarrierConcernsAllAndTakesItsTurn) {  // [SHARE-5]
  Shares shares(sessions_of({1, 5, 1000}), 2);
  EXPECT_EQ(shards_of(shares.next(sum_of(1))), std::vector<size_t>{0});
  for (const ShardPart& part : shares.next(barrier())) EXPECT_EQ(part.range.count, 0U);
  std::vector<size_t> all = shards_of(shares.next(barrier()));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shards_of(shares.next(sum_of(1))), std::vector<size_t>{3});
}

// Ranks agree about the order within what they chose, not between.
TEST(Shares, WhatWasChosenHasTurnsOfItsOwn) {  // [SHARE-7]
  constexpr StreamChoice kChoices[] = {StreamChoice::kByLength, StreamChoice::kShort, StreamChoice::kBulk};
  std::mt19937 random(3);
  Shares shares(sessions_of({1, 1, 1}), 1);
  size_t turns[3] = {};
  for (int i = 0; i < 100; ++i) {
    const size_t choice = random() % 3;
    EXPECT_EQ(shards_of(shares.next(sum_of(1, kChoices[choice]))), std::vector<size_t>{turns[choice]++ % 3});
  }
}

TEST(Shares, RanksThatAskForTheSameHaveTheSame) {
  std::mt19937 random(5);
  std::vector<SessionParameters> sessions = sessions_of({1, 20, 300});
  Shares one(sessions, 2);
  for (SessionParameters& session : sessions) session.worker = 1;
  Shares other(sessions, 2);
  for (int i = 0; i < 200; ++i) {
    const Collective collective = i % 17 == 0 ? barrier() : sum_of(random() % (20 * kChunk));
    const auto mine = one.next(collective);
    const auto theirs = other.next(collective);
    ASSERT_EQ(shards_of(mine), shards_of(theirs));
    for (size_t p = 0; p < mine.size(); ++p) {
      ASSERT_EQ(mine[p].range.begin, theirs[p].range.begin);
      ASSERT_EQ(mine[p].range.count, theirs[p].range.count);
    }
  }
}

TEST(Shares, IntegersConcernAllShardsInProportionToTheWeights) {  // [SHARE-10]
  const size_t span = elements_per_span(ElementType::kFloat32, kPayload, false);
  Shares shares(sessions_of({3, 1}, false), 1);
  for (const size_t count : {size_t{0}, size_t{1}, span, 4 * span, 7 * span + 5, 1000 * span}) {
    const size_t spans = (count + span - 1) / span;
    const std::vector<ShardPart> parts = shares.next(sum_of(count));
    ASSERT_EQ(shards_of(parts), (std::vector<size_t>{0, 1})) << "both agree about exponents, and on the order of calls";
    EXPECT_EQ(parts[0].range.begin, 0U);
    EXPECT_EQ(parts[0].range.count, std::min(count, spans * 3 / 4 * span));
    EXPECT_EQ(parts[1].range.begin, parts[0].range.count);
    EXPECT_EQ(parts[0].range.count + parts[1].range.count, count);
  }
}

TEST(Shares, IntegersConcernAllShardsInEqualParts) {
  for (const int shards : {1, 2, 5}) {
    Shares shares(sessions_of({1}, false), shards);
    for (const size_t count : {size_t{0}, size_t{1}, 7 * kChunk + 3, 5000 * kChunk}) {
      for (int turn = 0; turn < 3; ++turn) {
        const std::vector<ShardPart> parts = shares.next(sum_of(count));
        ASSERT_EQ(parts.size(), static_cast<size_t>(shards));
        for (int s = 0; s < shards; ++s) {
          const ShardPart& part = parts[static_cast<size_t>(s)];
          const ElementRange range = shard_part(count, elements_per_span(ElementType::kFloat32, kPayload), s, shards);
          EXPECT_EQ(part.shard, static_cast<size_t>(s));
          EXPECT_EQ(part.range.begin, range.begin);
          EXPECT_EQ(part.range.count, range.count);
        }
      }
    }
  }
}

// ---- aggregators beside workers ----

/// Each worker has one on its host.
std::vector<SessionParameters> sessions_of_hosts(int workers) {
  std::vector<SessionParameters> sessions = sessions_of(std::vector<uint32_t>(static_cast<size_t>(workers), 1));
  for (int i = 0; i < workers; ++i) {
    sessions[static_cast<size_t>(i)].workers = workers;
    sessions[static_cast<size_t>(i)].beside = i;
  }
  return sessions;
}

template <typename Kind>
Collective moved(Kind kind, size_t bytes) {
  Collective collective;
  collective.type = ElementType::kUInt8;
  collective.kind = std::move(kind);
  collective.count = bytes;
  return collective;
}

/// [[shard, begin, count]]
std::vector<std::vector<size_t>> numbers_of(const std::vector<ShardPart>& parts) {
  std::vector<std::vector<size_t>> numbers;
  for (const ShardPart& part : parts) numbers.push_back({part.shard, part.range.begin, part.range.count});
  return numbers;
}
using Numbers = std::vector<std::vector<size_t>>;

TEST(SharesOfHosts, APieceIsItsOwnersAggregators) {  // [SHARE-8]
  for (const bool gathers : {true, false}) {
    const auto pieces_of = [&](size_t bytes) { return gathers ? moved(Gather(), bytes) : moved(Scatter(), bytes); };
    Shares shares(sessions_of_hosts(3), 1);
    EXPECT_EQ(numbers_of(shares.next(pieces_of(1000))), (Numbers{{0, 0, 1000}, {1, 1000, 1000}, {2, 2000, 1000}}));
    EXPECT_EQ(numbers_of(shares.next(pieces_of(50))), (Numbers{{1, 0, 150}})) << "a chunk goes to whose turn it is";
    Shares pairs(sessions_of_hosts(2), 2);
    const Numbers halves = {{0, 0, 512}, {1, 512, 488}, {2, 1000, 512}, {3, 1512, 488}};
    EXPECT_EQ(numbers_of(pairs.next(pieces_of(1000))), halves);
  }
}

TEST(SharesOfHosts, ThePartsOfAReductionToo) {
  Collective collective = sum_of(1000);
  collective.kind = ReduceScatter{{}, {400, 400, 1000}};
  Shares shares(sessions_of_hosts(3), 1);
  EXPECT_EQ(numbers_of(shares.next(collective)), (Numbers{{0, 0, 400}, {2, 400, 600}}));
  EXPECT_EQ(numbers_of(shares.next(collective)), (Numbers{{0, 0, 400}, {1, 400, 0}, {2, 400, 600}}))
      << "whose turn it is";
}

Collective narrow_sum_of(size_t count) {
  Collective collective = sum_of(count);
  collective.op = ReduceOp::kSumToFloat32;
  collective.type = ElementType::kBFloat16;
  return collective;
}

TEST(SharesOfHosts, ChunksOfTermsFillPacketsWhereTheirSumStaysOnItsHost) {  // [NSUM-4]
  Collective scattered = narrow_sum_of(1000);
  scattered.kind = ReduceScatter{{}, {400, 1000}};
  const auto longest_of = [](const std::vector<ShardPart>& parts) {
    return elements_per_chunk(ElementType::kBFloat16, parts.front().chunk_bytes, true, ReduceOp::kSumToFloat32);
  };
  Shares shares(sessions_of_hosts(2), 1);
  const auto parts = shares.next(scattered);
  EXPECT_EQ(numbers_of(parts), (Numbers{{0, 0, 400}, {1, 400, 600}}));
  EXPECT_EQ(longest_of(parts), kPayload / 2);
  EXPECT_EQ(longest_of(shares.next(narrow_sum_of(1000))), kPayload / 4) << "all ranks want all of it";
  scattered.count = 100;
  scattered.kind = ReduceScatter{{}, {50, 100}};
  EXPECT_EQ(longest_of(shares.next(scattered)), kPayload / 4) << "one chunk is not shared out";

  std::vector<SessionParameters> over_tcp = sessions_of_hosts(2);
  for (SessionParameters& session : over_tcp) session.least_chunk_bytes = kPayload;
  scattered.count = 1000;
  scattered.kind = ReduceScatter{{}, {400, 1000}};
  EXPECT_EQ(longest_of(Shares(over_tcp, 1).next(scattered)), kPayload / 4);
  std::vector<SessionParameters> elsewhere = sessions_of_hosts(2);
  elsewhere[1].beside = -1;
  EXPECT_EQ(longest_of(Shares(elsewhere, 1).next(scattered)), kPayload / 4);
}

TEST(SharesOfHosts, NotWhereOneHasMostOfItNorWhereThereAreFewChunks) {  // [SHARE-8]
  Collective collective = sum_of(6 * kChunk);
  collective.kind = ReduceScatter{{}, {0, 0, 6 * kChunk}};
  Shares shares(sessions_of_hosts(3), 1);
  const Numbers even = {{1, 0, 2 * kChunk}, {2, 2 * kChunk, 2 * kChunk}, {0, 4 * kChunk, 2 * kChunk}};
  EXPECT_EQ(numbers_of(shares.next(collective)), even);
  EXPECT_EQ(numbers_of(shares.next(moved(Gather(), 100))), (Numbers{{0, 0, 256}, {1, 256, 44}})) << "of 2 chunks";
}

TEST(SharesOfHosts, WhoAloneGivesOrGetsAggregatesNothing) {  // [SHARE-9]
  Collective reduced = sum_of(6 * kChunk);
  std::get<Reduce>(reduced.kind).root = 2;
  Shares shares(sessions_of_hosts(3), 1);
  const size_t half = 3 * kPayload;
  EXPECT_EQ(numbers_of(shares.next(moved(Broadcast{1}, 2 * half))), (Numbers{{2, 0, half}, {0, half, half}}));
  EXPECT_EQ(numbers_of(shares.next(reduced)), (Numbers{{0, 0, 3 * kChunk}, {1, 3 * kChunk, 3 * kChunk}}))
      << "the home, which is not the root, has the last place";
  EXPECT_EQ(shards_of(shares.next(moved(Broadcast{2}, kPayload))), std::vector<size_t>{2}) << "of one chunk";
  EXPECT_EQ(numbers_of(shares.next(moved(Broadcast{0}, 2 * half))),
            (Numbers{{1, 0, half}, {2, half, half}, {0, 2 * half, 0}}))
      << "the root's turn: nothing but a meeting";
}

TEST(SharesOfHosts, NotWhereASwitchIsNotBesideAWorker) {
  std::vector<SessionParameters> sessions = sessions_of_hosts(2);
  sessions[1].beside = -1;
  Shares shares(sessions, 1);
  EXPECT_EQ(numbers_of(shares.next(moved(Gather(), 300))), (Numbers{{1, 0, 256}, {0, 256, 344}}));
  sessions.pop_back();
  Shares alone(sessions, 1);
  EXPECT_EQ(numbers_of(alone.next(moved(Broadcast{0}, 1000))), (Numbers{{0, 0, 1000}}));
}

}  // namespace
}  // namespace switchml
