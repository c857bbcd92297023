// Boards with owners, and local ranks that hand chunks up: one host's part where the ranks run on several.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "engine/in_place.h"
#include "integers.h"
#include "team.h"

namespace switchml::shm {
namespace {

using switchml::testing::in_place;
using testing::BoardMemory;
using ::testing::HasSubstr;
using testing::Ints;
using testing::kLong;
using testing::kSoon;
using testing::Outcomes;

ChunkCall agreed_call(size_t elements, uint64_t agreed = 77) {
  ChunkCall call;
  call.reduction.type = ElementType::kInt32;
  call.agreed = agreed;
  call.elements = static_cast<uint32_t>(elements);
  return call;
}

// ---- the board ----

TEST(BoardWithOwners, AChunkIsCompleteFromItsLastOfferToItsResult) {
  BoardMemory memory({3, 4, 64, 2});
  const Board& board = memory.board();
  for (uint64_t seq = 1; seq <= 50; ++seq) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_FALSE(board.is_complete(seq)) << seq;
      board.offer(rank, seq, agreed_call(1));
    }
    EXPECT_TRUE(board.is_complete(seq)) << seq;
    EXPECT_TRUE(board.is_agreed(seq));
    EXPECT_FALSE(board.is_ready(seq)) << "nobody but its owner takes it";
    EXPECT_EQ(board.owner_of(seq), static_cast<int>(seq % 2));
    board.publish(seq, Verdict::kReduced);
    EXPECT_FALSE(board.is_complete(seq));
    EXPECT_TRUE(board.is_published(seq));
    EXPECT_EQ(board.verdict(seq), Verdict::kReduced);
  }
}

TEST(BoardWithOwners, WhoSaysSomethingElseIsSeen) {
  BoardMemory memory({3, 4, 64, 1});
  const Board& board = memory.board();
  for (int odd = 0; odd < 3; ++odd) {
    const auto seq = static_cast<uint64_t>(odd + 1);
    for (int rank = 0; rank < 3; ++rank) board.offer(rank, seq, agreed_call(1, rank == odd ? 78 : 77));
    EXPECT_FALSE(board.is_agreed(seq)) << odd;
  }
}

TEST(BoardWithOwners, TheLastOfferWakesTheOwner) {
  BoardMemory memory({2, 4, 64, 2});
  const Board& board = memory.board();
  auto slept = std::async(std::launch::async, [&] {
    const Time begin = monotonic_now();
    testing::sleep_on(board, 1, UINT64_MAX, kLong, [&] { return board.is_complete(1); });
    return monotonic_now() - begin;
  });
  board.offer(1, 1, agreed_call(1));
  std::this_thread::sleep_for(milliseconds(20));
  board.offer(0, 1, agreed_call(1));
  EXPECT_LT(slept.get(), kSoon);
}

TEST(BoardWithOwners, TheFirstReasonToFailCountsAndWakesAll) {
  BoardMemory memory({2, 4, 64, 1});
  const Board& board = memory.board();
  EXPECT_TRUE(board.failure().ok());
  auto slept = std::async(std::launch::async, [&] {
    const Time begin = monotonic_now();
    testing::sleep_on(board, 1, UINT64_MAX, kLong, [&] { return !board.failure().ok(); });
    return monotonic_now() - begin;
  });
  std::this_thread::sleep_for(milliseconds(20));
  board.fail(Status(Code::kUnavailable, "the switch is gone"));
  EXPECT_LT(slept.get(), kSoon);
  board.fail(Status(Code::kTimeout, "another reason"));
  EXPECT_EQ(board.failure().code(), Code::kUnavailable);
  EXPECT_EQ(board.failure().message(), "the switch is gone");
}

TEST(BoardWithOwners, AReasonMayFillItsPlace) {
  for (const size_t length : {size_t{0}, Board::kMaxReason - 1, Board::kMaxReason, Board::kMaxReason + 1}) {
    BoardMemory memory({1, 1, 64, 1});
    const std::string text(length, 'x');
    memory.board().fail(Status(Code::kTimeout, text));
    EXPECT_EQ(memory.board().failure().message(), text.substr(0, Board::kMaxReason));
    EXPECT_EQ(memory.board().failure().code(), Code::kTimeout);
  }
}

TEST(BoardWithOwners, IsDesertedWhenAllHaveLeft) {
  BoardMemory memory({3, 1, 64, 1});
  for (const int rank : {1, 0, 2}) {
    EXPECT_FALSE(memory.board().is_deserted());
    memory.board().leave(rank);
  }
  EXPECT_TRUE(memory.board().is_deserted());
}

// ---- local ranks ----

/// Ends what it is given when it is told to, as if there were another host whose ranks add `theirs` to each element.
class FakeUplink final : public Engine {
 public:
  void submit(Collective chunk) override { chunks.push_back(std::move(chunk)); }
  void abort(const std::string& reason) override { fail(Status(Code::kAborted, reason)); }
  void fail(const Status& status) override { failures.push_back(status); }
  Status status() const override { return {}; }
  int shards() const override { return 1; }
  const WorkerCounters& counters(int) const override { return counters_; }
  size_t memory_bytes() const override { return 0; }

  void finish(size_t i, const Status& status = {}) {
    const Collective chunk = std::move(chunks[i]);
    chunks.erase(chunks.begin() + static_cast<std::ptrdiff_t>(i));
    if (const switchml::Operands* operands = chunk.operands()) {
      auto* out = static_cast<int32_t*>(operands->output.data);
      for (size_t e = 0; status.ok() && e < chunk.count; ++e) {
        out[e] = theirs;
        for (const void* input : operands->inputs) out[e] += static_cast<const int32_t*>(input)[e];
      }
    }
    chunk.done(status);
  }

  int32_t theirs = 1000;
  std::vector<Collective> chunks;
  std::vector<Status> failures;

 private:
  WorkerCounters counters_;
};

/// The ranks of one host, 3, 5, 7 ... in their group, stepped in a seeded order.
class Host {
 public:
  Host(int ranks, int owners, size_t payload, uint64_t seed, bool exact = false)
      : memory_({ranks, 4, 4096, owners}), random_(seed), uplinks(static_cast<size_t>(owners)) {
    failures.resize(static_cast<size_t>(ranks));
    std::vector<std::vector<int>> names{{0, 1, 2}, {}};  // of another host and of this one
    for (int rank = 0; rank < ranks; ++rank) {
      names[1].push_back(2 * rank + 3);
      names[0].push_back(2 * rank + 4);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      HostUplink uplink{rank < owners ? &uplinks[r] : nullptr, payload, exact, HostMap(names, 1)};
      local_ranks.push_back(std::make_unique<LocalRank>(
          memory_.board(), rank, [this, r](const Status& status) { failures[r].push_back(status); }, uplink));
    }
  }
  Outcomes submit(size_t rank, Collective collective) {
    outcomes_.push_back(testing::record_into(&collective));
    local_ranks[rank]->submit(std::move(collective));
    return outcomes_.back();
  }
  /// A sum of every rank.
  std::vector<Outcomes> submit_all(std::vector<Ints>& tensors) {
    std::vector<Outcomes> outcomes;
    for (size_t rank = 0; rank < tensors.size(); ++rank) {
      outcomes.push_back(submit(rank, in_place(ReduceOp::kSum, ElementType::kInt32, tensors[rank])));
    }
    return outcomes;
  }
  bool all_done() const {
    return std::all_of(outcomes_.begin(), outcomes_.end(), [](const Outcomes& one) { return !one->empty(); });
  }
  /// Local ranks in any order; chunks end in any order, too.
  bool run(bool chunks_end = true) {
    for (int i = 0; i < 100000 && !all_done(); ++i) {
      local_ranks[random_() % local_ranks.size()]->step(now);
      FakeUplink& uplink = uplinks[random_() % uplinks.size()];
      if (chunks_end && !uplink.chunks.empty()) uplink.finish(random_() % uplink.chunks.size());
    }
    return all_done();
  }
  const Board& board() const { return memory_.board(); }

 private:
  BoardMemory memory_;
  std::mt19937_64 random_;
  std::vector<Outcomes> outcomes_;

 public:
  Time now{seconds(1000)};
  std::vector<FakeUplink> uplinks;
  std::vector<std::vector<Status>> failures;
  std::vector<std::unique_ptr<LocalRank>> local_ranks;
};

TEST(MemberWithUplink, AddsWhatTheOtherHostsHave) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 4);
    const int owners = 1 + static_cast<int>(random() % static_cast<uint64_t>(ranks));
    const size_t payload = random() % 2 == 0 ? 1024 : 63 * 1024;
    Host host(ranks, owners, payload, seed, seed % 3 == 0);
    std::vector<std::vector<Ints>> tensors(static_cast<size_t>(ranks));
    std::vector<std::pair<size_t, int32_t>> calls;
    for (int call = 0; call < 5; ++call) calls.emplace_back(random() % 3 == 0 ? random() % 3 : random() % 20000, call);
    for (size_t rank = 0; rank < tensors.size(); ++rank) {
      for (const auto& [count, value] : calls) tensors[rank].emplace_back(count, value + static_cast<int32_t>(rank));
      for (Ints& tensor : tensors[rank]) host.submit(rank, in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
    }
    ASSERT_TRUE(host.run()) << seed;
    for (size_t rank = 0; rank < tensors.size(); ++rank) {
      for (size_t call = 0; call < calls.size(); ++call) {
        const int32_t sum = 1000 + ranks * calls[call].second + ranks * (ranks - 1) / 2;
        ASSERT_EQ(tensors[rank][call], Ints(calls[call].first, sum)) << "seed " << seed << ", rank " << rank;
      }
      EXPECT_TRUE(host.failures[rank].empty());
    }
  }
}

// Each owner hands its own chunks up, in their order: that order is the stream of its shard, the same on all hosts.
TEST(MemberWithUplink, OwnersTakeTurns) {  // [HOST-9]
  Host host(3, 2, 1024, 9);
  constexpr size_t kPerChunk = 1024;
  std::vector<Ints> tensors(3, Ints(4 * kPerChunk + 1));
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < tensors[rank].size(); ++i) tensors[rank][i] = static_cast<int32_t>(i);
    host.submit(rank, in_place(ReduceOp::kSum, ElementType::kInt32, tensors[rank]));
  }
  EXPECT_FALSE(host.run(false));
  const auto firsts = [&](size_t owner) {
    Ints found;
    for (const Collective& chunk : host.uplinks[owner].chunks) {
      found.push_back(static_cast<const int32_t*>(chunk.operands()->inputs[0])[0]);
      EXPECT_EQ(chunk.operands()->inputs.size(), 3U);
      EXPECT_EQ(chunk.total_count, 4 * kPerChunk + 1);
      EXPECT_EQ(chunk.count, kPerChunk);
      EXPECT_EQ(describe(chunk), "all_reduce(SUM, int32, 4097 elements)");
    }
    return found;
  };
  // Four slots: chunks 1 to 4 are under way, of which rank 1 has the odd ones.
  EXPECT_EQ(firsts(1), (Ints{0, 2 * kPerChunk}));
  EXPECT_EQ(firsts(0), (Ints{kPerChunk, 3 * kPerChunk}));
  EXPECT_TRUE(host.run());
}

TEST(MemberWithUplink, ChunksFillPackets) {  // [HOST-7]
  const auto first_count = [](size_t payload, size_t count) {
    Host host(1, 1, payload, 1);
    Ints tensor(count);
    host.submit(0, in_place(ReduceOp::kSum, ElementType::kInt32, tensor));
    host.run(false);
    const size_t found = host.uplinks[0].chunks.at(0).count;
    EXPECT_TRUE(host.run());
    return found;
  };
  EXPECT_EQ(first_count(1024, 5000), 1024U);  // 4096 bytes
  EXPECT_EQ(first_count(3072, 5000), 768U);   // not a packet and a third
  EXPECT_EQ(first_count(63 * 1024, 5000), 1024U);
  EXPECT_EQ(first_count(3072, 5), 5U);
  EXPECT_EQ(first_count(1408, 5000), 1024U);  // three, of which one is short: two would leave 320 elements empty
  EXPECT_EQ(first_count(1280, 5000), 960U);   // three
}

// So that the next piece begins with a block, as it does on one host alone.
TEST(MemberWithUplink, ChunksOfFloatsEndWithBlocks) {  // [HOST-7]
  for (const auto& [payload, count] : {std::pair{1792, 1792}, {1280, 1920}, {1408, 2048}}) {
    Host host(1, 1, static_cast<size_t>(payload), 1);
    std::vector<uint16_t> tensor(5000);
    host.submit(0, in_place(ReduceOp::kSum, ElementType::kFloat16, tensor));
    host.run(false);
    // There is room for 2048. Four spans of 448, and six of 320, are worth the rest; two of 704 are not.
    EXPECT_EQ(host.uplinks[0].chunks.at(0).count, static_cast<size_t>(count)) << payload;
  }
}

// Exact packets hold elements of their own size, and no blocks.
TEST(MemberWithUplink, ChunksFillExactPackets) {  // [ELANE-6]
  const auto first_count = [](ElementType type, size_t payload) {
    Host host(2, 1, payload, 1, true);
    std::vector<std::vector<uint64_t>> tensors(2, std::vector<uint64_t>(5000));
    for (size_t rank = 0; rank < 2; ++rank) {
      Collective c = in_place(ReduceOp::kSum, type, tensors[rank]);
      host.submit(rank, c);
    }
    host.run(false);
    EXPECT_EQ(host.uplinks[0].chunks.at(0).operands()->inputs.size(), 2U);
    return host.uplinks[0].chunks.at(0).count;
  };
  EXPECT_EQ(first_count(ElementType::kInt8, 1024), 4096U);
  EXPECT_EQ(first_count(ElementType::kFloat16, 1024), 2048U);
  EXPECT_EQ(first_count(ElementType::kFloat64, 1024), 512U);
  EXPECT_EQ(first_count(ElementType::kFloat16, 1792), 1792U);  // two packets: a third does not fit
  EXPECT_EQ(first_count(ElementType::kFloat16, 1280), 1920U);  // three
  EXPECT_EQ(first_count(ElementType::kFloat32, 3072), 768U);
  EXPECT_EQ(first_count(ElementType::kInt64, 1408), 512U);  // two would leave a third of the room empty
}

// Of 65 ranks on one of 64 hosts.
TEST(MemberWithUplink, WhatHasNoElementsNeedsNoRoomForAPieceOfEach) {
  std::vector<std::vector<int>> ranks(64);
  for (int rank = 0; rank < 65; ++rank) ranks[0].push_back(rank);
  for (size_t host = 1; host < 64; ++host) ranks[host].push_back(static_cast<int>(64 + host));
  BoardMemory memory({1, 4, 4096, 1});
  const auto ignore = [](const Status&) {};
  FakeUplink engine;
  LocalRank local_rank(memory.board(), 0, ignore, {&engine, 1024, true, HostMap(ranks, 1)});
  Collective gathering;
  gathering.kind = Gather();
  gathering.type = ElementType::kUInt8;
  const Outcomes empty = testing::record_into(&gathering);
  local_rank.submit(gathering);
  gathering.count = 1000;
  const Outcomes announced = testing::record_into(&gathering);
  local_rank.announce(gathering);
  for (int i = 0; i < 10; ++i) {
    local_rank.step(Time{seconds(1)});
    if (!engine.chunks.empty()) engine.finish(0);
  }
  EXPECT_EQ(empty->size(), 1U);
  EXPECT_EQ(announced->size(), 1U);
}

TEST(MemberWithUplink, WhatTheSwitchSaysIsToldToAll) {
  Host host(3, 1, 1024, 4);
  std::vector<Ints> tensors(3, Ints(5000, 1));
  const std::vector<Outcomes> outcomes = host.submit_all(tensors);
  EXPECT_FALSE(host.run(false));
  host.uplinks[0].finish(0, Status(Code::kUnavailable, "the switch s is gone"));
  ASSERT_TRUE(host.run(false));
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank]->at(0).code(), Code::kUnavailable);
    EXPECT_EQ(outcomes[rank]->at(0).message(), "the switch s is gone");
    EXPECT_EQ(host.failures[rank].size(), 1U);
  }
  EXPECT_EQ(host.uplinks[0].failures.size(), 1U);
}

// It may still hold chunks of this host's board.
TEST(MemberWithUplink, ARankThatIsShutDownTellsItsEngineAndNobodyElse) {
  Host host(2, 1, 1024, 4);
  std::vector<Ints> tensors(2, Ints(5000, 1));
  const std::vector<Outcomes> outcomes = host.submit_all(tensors);
  EXPECT_FALSE(host.run(false));
  host.local_ranks[0]->request_failure(Status(Code::kAborted, "shut down"));
  host.local_ranks[0]->step(host.now);
  EXPECT_EQ(outcomes[0]->at(0).code(), Code::kAborted);
  ASSERT_EQ(host.uplinks[0].failures.size(), 1U);
  while (!host.uplinks[0].chunks.empty()) host.uplinks[0].finish(0, Status(Code::kAborted, "shut down"));
  host.local_ranks[1]->step(host.now);
  EXPECT_TRUE(outcomes[1]->empty());
  host.board().leave(0);
  host.local_ranks[1]->step(host.now);
  ASSERT_EQ(outcomes[1]->size(), 1U);
  EXPECT_THAT(outcomes[1]->at(0).message(), HasSubstr("no contribution from rank 3 (left the session)"));
}

TEST(MemberWithUplink, DifferentCallsReachNoOtherHostUnnoticed) {  // [HOST-11]
  Host host(2, 1, 1024, 4);
  Ints one(10, 1), two(10, 1);
  Collective odd = in_place(ReduceOp::kSum, ElementType::kInt32, two);
  odd.tag = 5;
  const Outcomes first = host.submit(0, in_place(ReduceOp::kSum, ElementType::kInt32, one));
  const Outcomes second = host.submit(1, odd);
  EXPECT_FALSE(host.run(false));
  ASSERT_EQ(host.uplinks[0].chunks.size(), 1U);
  Host other(1, 1, 1024, 4);
  Ints three(10, 1);
  other.submit(0, in_place(ReduceOp::kSum, ElementType::kInt32, three));
  EXPECT_FALSE(other.run(false));
  EXPECT_NE(host.uplinks[0].chunks[0].tag, other.uplinks[0].chunks[0].tag) << "the witness tells them apart";
  EXPECT_TRUE(other.run());
  ASSERT_TRUE(host.run()) << "though the sums should match";
  EXPECT_EQ(first->at(0).code(), Code::kMismatch);
  EXPECT_EQ(second->at(0).code(), Code::kMismatch);
}

TEST(MemberWithUplink, ARankThatGivesUpTakesItsHostAlong) {
  Host host(3, 1, 1024, 4);
  std::vector<Ints> tensors(2, Ints(10, 1));
  std::vector<Outcomes> outcomes;
  for (size_t rank = 0; rank < 2; ++rank) {
    Collective call = in_place(ReduceOp::kSum, ElementType::kInt32, tensors[rank]);
    if (rank == 1) call.deadline = host.now + seconds(1);
    outcomes.push_back(host.submit(rank, std::move(call)));
  }
  EXPECT_FALSE(host.run(false));
  host.now += seconds(2);
  host.local_ranks[1]->step(host.now);
  ASSERT_EQ(outcomes[1]->size(), 1U);
  EXPECT_TRUE(host.local_ranks[0]->has_work());
  host.local_ranks[0]->step(host.now);
  ASSERT_EQ(outcomes[0]->size(), 1U);
  EXPECT_EQ(outcomes[0]->at(0).message(), outcomes[1]->at(0).message());
  EXPECT_THAT(outcomes[0]->at(0).message(), HasSubstr("no contribution from rank 7"));
}

TEST(MemberWithUplink, ATimeoutSaysWhatIsLacking) {
  for (const bool all_here : {false, true}) {
    Host host(2, 1, 1024, 4);
    std::vector<Ints> tensors(2, Ints(10, 1));
    std::vector<Outcomes> outcomes;
    for (size_t rank = 0; rank < (all_here ? 2U : 1U); ++rank) {
      Collective call = in_place(ReduceOp::kSum, ElementType::kInt32, tensors[rank]);
      call.deadline = host.now + seconds(1);
      outcomes.push_back(host.submit(rank, std::move(call)));
    }
    EXPECT_FALSE(host.run(false));
    host.now += seconds(1);
    for (const auto& local_rank : host.local_ranks) local_rank->step(host.now);
    if (all_here) {
      EXPECT_TRUE(outcomes[0]->empty()) << "the engine's own message comes first";
      EXPECT_GT(host.local_ranks[0]->next_wakeup(), host.now);
      host.now = host.local_ranks[0]->next_wakeup();
      for (const auto& local_rank : host.local_ranks) local_rank->step(host.now);
    }
    ASSERT_EQ(outcomes[0]->size(), 1U);
    EXPECT_EQ(outcomes[0]->at(0).code(), Code::kTimeout);
    EXPECT_THAT(outcomes[0]->at(0).message(),
                HasSubstr(all_here ? "all ranks of this host have contributed, and rank 3 has "
                                     "not got the sum of all hosts"
                                   : "no contribution from rank 5"));
  }
}

}  // namespace
}  // namespace switchml::shm
