#include "shm/board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "board_memory.h"
#include "integers.h"

namespace switchml::shm {
namespace {

using testing::BoardMemory;
using testing::kLong;
using testing::kSoon;

ChunkCall call_of(size_t elements) {
  ChunkCall call;
  call.reduction.type = ElementType::kInt32;
  call.agreed = 77;
  call.elements = static_cast<uint32_t>(elements);
  call.is_in_parts = true;
  return call;
}

/// Puts `values` in a rank's frame and offers it.
void offer(const Board& board, int rank, uint64_t seq, const std::vector<int32_t>& values) {
  const ChunkCall call = call_of(values.size());
  fill_frame(values.data(), values.size() * sizeof(int32_t), board.frame(rank, seq), Stores::kNonTemporal);
  board.offer(rank, seq, call);
}

void offer_by_all(const Board& board, uint64_t seq) {
  for (int rank = 0; rank < board.shape().ranks; ++rank) offer(board, rank, seq, {1});
}

/// What each rank does with a ready chunk of parts.
void make(const Board& board, int rank, uint64_t seq) {
  board.make_part(rank, seq, nullptr, nullptr, Stores::kNonTemporal);
  board.made(rank, seq);
}

/// Publishes chunk `seq`, the next of all, of one rank's board.
void publish(const Board& board, uint64_t seq) {
  offer_by_all(board, seq);
  make(board, 0, seq);
}

std::vector<int32_t> result_of(const Board& board, uint64_t seq, size_t n) {
  std::vector<int32_t> values(n);
  std::memcpy(values.data(), board.result(seq), n * sizeof(int32_t));
  return values;
}

// ---- a chunk ----

TEST(Board, PublishesNothingThatItHasReadOfTensorsWhoseRanksHaveGivenUp) {
  for (const bool tensors : {false, true}) {
    BoardMemory memory({2, 2, 4096, 0, 0, 0});
    const Board& board = memory.board();
    for (int rank = 0; rank < 2; ++rank) {
      ChunkCall call = call_of(3);
      if (tensors && rank == 1) {  // it lies where another slot's frame would be
        call.from = static_cast<uint64_t>(board.frame(1, 2) - memory.data());
      }
      const std::vector<int32_t> values = {1, 2, 3};
      std::memcpy(call.from != 0 ? board.frame(1, 2) : board.frame(rank, 1), values.data(), 12);
      board.offer(rank, 1, call);
    }
    ASSERT_TRUE(board.is_ready(1));
    make(board, 0, 1);
    board.fail(Status(Code::kUnavailable, "rank 1 gave up"));
    make(board, 1, 1);
    EXPECT_EQ(board.is_published(1), !tensors) << "frames stay as they are, tensors may not";
  }
}

TEST(Board, AChunkIsReadyWhenAllHaveOfferedItAndPublishedWhenAllHaveMadeTheirs) {
  BoardMemory memory({3, 2, 192, 0, 0, 0});
  const Board& board = memory.board();
  const std::vector<int32_t> values(40, 1);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(board.is_ready(1));
    EXPECT_FALSE(board.has_offered(rank, 1));
    offer(board, rank, 1, std::vector<int32_t>(40, rank + 1));
    EXPECT_TRUE(board.has_offered(rank, 1));
    EXPECT_FALSE(board.has_offered(rank, 2));
  }
  EXPECT_TRUE(board.is_ready(1));
  EXPECT_EQ(board.verdict(1), Verdict::kParts);
  for (const int rank : {2, 0, 1}) {
    EXPECT_FALSE(board.is_published(1) || board.has_made(rank, 1));
    EXPECT_EQ(board.published(), 0U);
    make(board, rank, 1);
    EXPECT_TRUE(board.has_made(rank, 1));
  }
  EXPECT_TRUE(board.is_published(1));
  EXPECT_EQ(board.published(), 1U);
  EXPECT_EQ(result_of(board, 1, 40), std::vector<int32_t>(40, 6));
}

TEST(Board, PartsCoverTheChunkOnceAndBeginOnLines) {
  for (const int ranks : {1, 2, 3, 7, kMaxHostRanks}) {
    BoardMemory memory(shape_for(ranks));
    for (const size_t elements : {0, 1, 15, 16, 17, 100, 1000, 16384}) {
      size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ElementRange part = memory.board().part_of(rank, call_of(elements));
        EXPECT_EQ(part.begin, next);
        EXPECT_TRUE(part.begin % 16 == 0 || part.count == 0);
        next += part.count;
      }
      EXPECT_EQ(next, elements) << ranks << " ranks";
    }
  }
}

TEST(Board, WhatIsToBeDoneDependsOnTheCall) {
  struct {
    const char* what;
    size_t few;
    int slots;
    bool tensor;
    bool in_parts;
    Verdict verdict;
  } const kCases[] = {
      {"a sum for all", 0, 2, false, true, Verdict::kParts},
      {"of few bytes", 12, 2, false, true, Verdict::kFrames},
      {"of few bytes of a tensor", 12, 2, true, true, Verdict::kParts},
      {"its own part of a sum", 0, 2, false, false, Verdict::kFrames},
      {"of tensors", 0, 2, true, false, Verdict::kTensors},
      {"where frames are overwritten as soon as a result is taken", 12, 1, false, true, Verdict::kTensors},
  };
  for (const auto& one : kCases) {
    BoardMemory memory({2, one.slots, 64, 0, 0, one.few});
    const Board& board = memory.board();
    for (int rank = 0; rank < 2; ++rank) {
      ChunkCall call = call_of(3);
      call.is_in_parts = one.in_parts;
      if (one.tensor && rank == 1) call.from = static_cast<uint64_t>(board.frame(1, 1) - memory.data());
      board.offer(rank, 1, call);
    }
    EXPECT_EQ(board.verdict(1), one.verdict) << one.what;
    EXPECT_EQ(board.is_published(1), one.verdict == Verdict::kFrames) << one.what;
  }
}

TEST(Board, RanksThatSayDifferentThingsAreNotAdded) {
  const auto differing = [](int what) {
    ChunkCall call = call_of(4);
    if (what == 0) call.reduction.op = ReduceOp::kMax;
    if (what == 1) call.reduction.type = ElementType::kFloat32;
    if (what == 2) call.agreed = 78;
    if (what == 3) call.elements = 3;
    if (what == 4) call.elements = 0;
    if (what == 5) call.is_in_parts = false;
    return call;
  };
  for (int what = 0; what < 6; ++what) {
    for (int odd = 0; odd < 3; ++odd) {
      BoardMemory memory({3, 1, 64});
      const Board& board = memory.board();
      for (int rank = 0; rank < 3; ++rank) board.offer(rank, 1, rank == odd ? differing(what) : call_of(4));
      EXPECT_TRUE(board.is_published(1));
      EXPECT_EQ(board.verdict(1), Verdict::kMismatch) << "difference " << what << " of rank " << odd;
      EXPECT_EQ(board.published(), 1U);
    }
  }
}

TEST(Board, AVerdictIsOfOneUse) {
  BoardMemory memory({2, 1, 64});
  const Board& board = memory.board();
  board.offer(0, 1, call_of(0));
  board.offer(1, 1, call_of(2));
  EXPECT_EQ(board.verdict(1), Verdict::kMismatch);
  board.offer(0, 2, call_of(0));
  board.offer(1, 2, call_of(0));
  EXPECT_EQ(board.verdict(2), Verdict::kTensors);
  EXPECT_FALSE(board.is_published(2));
}

// ---- memory ----

/// Bytes [begin, end) of a board.
struct Part {
  const uint8_t* begin;
  const uint8_t* end;
};

std::vector<Part> parts_of(const Board& board) {
  const size_t chunk = board.shape().chunk_bytes;
  std::vector<Part> parts;
  for (uint64_t seq = 1; seq <= static_cast<uint64_t>(board.shape().slots); ++seq) {
    parts.push_back({board.result(seq), board.result(seq) + chunk});
    for (int rank = 0; rank < board.shape().ranks; ++rank) {
      const uint8_t* frame = board.frame(rank, seq);
      parts.push_back({frame, frame + chunk});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return parts;
}

void expect_apart(BoardMemory& memory) {
  const Board& board = memory.board();
  const std::vector<Part> parts = parts_of(board);
  EXPECT_GE(parts.front().begin, memory.data());
  EXPECT_LE(parts.back().end, memory.data() + board.shape().bytes());
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(reinterpret_cast<uintptr_t>(parts[i].begin) % 64, 0U);
    ASSERT_TRUE(i == 0 || parts[i - 1].end <= parts[i].begin) << "part " << i;
  }
}

TEST(Board, ForAnyNumberOfRanksItTakesNoMoreThanItsBound) {
  for (int ranks = 1; ranks <= kMaxHostRanks; ++ranks) {
    const BoardShape shape = shape_for(ranks);
    EXPECT_EQ(shape.ranks, ranks);
    EXPECT_LE(Board::bytes(shape), kMaxBoardBytes);
    EXPECT_LE(shape.bytes(), kMaxBoardBytes + kMaxShortBoardBytes);
    EXPECT_EQ(shape.bytes() % 64, 0U);
    EXPECT_GE(shape.slots, 2) << "a chunk is reduced while the next is filled";
    // Blocks begin where they would in a packet, for whatever type.
    EXPECT_EQ(shape.chunk_bytes % (kMaxBlockElements * sizeof(uint64_t)), 0U);
    EXPECT_GE(shape.chunk_bytes, kMaxBlockElements * sizeof(uint64_t));
    EXPECT_GE(shape.short_chunk_bytes, ranks <= 8 ? 16384U : 512U);
    EXPECT_EQ(shape.short_chunk_bytes % 64, 0U);
    EXPECT_EQ(shape.short_shape().ranks, ranks);
    EXPECT_EQ(shape.bytes(), Board::bytes(shape) + Board::bytes(shape.short_shape()));
  }
}

TEST(Board, ItsPartsLieApart) {
  for (const int ranks : {1, 2, 3, 8, 20, kMaxHostRanks}) {
    BoardMemory memory(shape_for(ranks));
    expect_apart(memory);
  }
  for (const size_t chunk : {size_t{64}, size_t{192}, size_t{4096}}) {
    BoardMemory memory({5, 3, chunk});
    expect_apart(memory);
  }
}

TEST(Board, WhatRanksWriteIsNotWhatTheyAreToldBy) {
  BoardMemory memory({3, 2, 192});
  const Board& board = memory.board();
  for (const Part& part : parts_of(board))
    std::fill(memory.data() + (part.begin - memory.data()), memory.data() + (part.end - memory.data()), 0xff);
  EXPECT_EQ(board.published(), 0U);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(board.has_left(rank));
    for (const uint64_t seq : {1, 2}) {
      EXPECT_FALSE(board.has_offered(rank, seq) || board.is_ready(seq) || board.is_published(seq));
    }
  }
}

// ---- sleep ----

/// How long a sleep of rank 0 takes if this happens when it has said what it waits for, and is about to sleep.
template <typename Event>
Duration sleep_with(const Board& board, uint64_t until, Duration timeout, const Event& event) {
  const Time begin = monotonic_now();
  testing::sleep_on(board, 0, until, timeout, [&] {
    event();
    return false;
  });
  return monotonic_now() - begin;
}

TEST(Board, ASleepEndsAtItsCount) {
  BoardMemory memory({1, 4, 64, 0, 0, 0});
  const Board& board = memory.board();
  EXPECT_LT(sleep_with(board, 1, kLong, [&] { publish(board, 1); }), kSoon);
  EXPECT_GE(sleep_with(board, 3, milliseconds(50), [&] { publish(board, 2); }), milliseconds(45))
      << "one is not enough";
  EXPECT_LT(sleep_with(board, 3, kLong, [&] { publish(board, 3); }), kSoon);
  EXPECT_LT(sleep_with(board, 3, kLong, [&] { publish(board, 4); }), kSoon) << "the count is past";
}

// Two boards with the same doorbells: what happens on either ends a sleep on both, whichever is waited on.
TEST(Board, ASleepOnTwoBoardsEndsByEither) {
  const BoardShape shape{1, 4, 64, 0, 0, 0};
  BoardMemory first(shape);
  BoardMemory memory(shape);
  const Board second(shape, memory.data(), &first.board());
  for (const Board* where : {&first.board(), &second}) {
    for (const Board* waits : {&first.board(), &second}) {
      const Time begin = monotonic_now();
      const uint64_t seq = where->published() + 1;
      const uint32_t heard = first.board().fall_asleep(0, UINT64_MAX, first.board().published() + 1);
      second.fall_asleep(0, UINT64_MAX, second.published() + 1);
      publish(*where, seq);
      waits->wait_for_bell(0, heard, kLong);
      first.board().awake(0);
      second.awake(0);
      EXPECT_LT(monotonic_now() - begin, kSoon);
    }
  }
}

TEST(Board, ASleepEndsWhereThereIsSomethingToDo) {
  BoardMemory memory({1, 1, 64});
  const Time begin = monotonic_now();
  testing::sleep_on(memory.board(), 0, 1, kLong, [] { return true; });
  testing::sleep_on(memory.board(), 0, 1, Duration(-5), [] { return false; });
  EXPECT_LT(monotonic_now() - begin, kSoon);
}

TEST(Board, ASleepEndsByAWakeOrWhenSomebodyLeaves) {
  BoardMemory memory({3, 1, 64});
  const Board& board = memory.board();
  EXPECT_LT(sleep_with(board, 1, kLong, [&] { board.wake(0); }), kSoon);
  EXPECT_LT(sleep_with(board, 1, kLong, [&] { board.leave(2); }), kSoon);
  EXPECT_GE(sleep_with(board, 1, milliseconds(50), [&] { board.wake(1); }), milliseconds(45)) << "another's wake";
  board.wake(0);
  EXPECT_GE(sleep_with(board, 1, milliseconds(50), [] {}), milliseconds(45)) << "a wake of who is awake is nothing";
}

// ---- threads ----

/// One rank of a stream of chunks: offers as far as the window goes, makes its parts, looks at results.
class Streamer {
 public:
  Streamer(const Board& board, int rank, uint64_t chunks) : board_(board), rank_(rank), chunks_(chunks) {}

  /// Between two steps that do nothing it calls idle(busy, count to wait for).
  template <typename Idle>
  void run(const Idle& idle) {
    while (oldest_ <= chunks_) {
      if (!step()) idle([this] { return has_work(); }, mine_, std::max(oldest_, board_.published() + 1));
    }
  }
  uint64_t wrong() const { return wrong_; }

 private:
  bool can_offer() const { return next_ <= chunks_ && next_ - oldest_ < board_.window(); }
  bool can_make() const { return mine_ < next_ && board_.is_ready(mine_); }
  bool has_work() const { return can_offer() || can_make() || board_.is_published(oldest_); }

  bool step() {
    bool moved = false;
    if (can_offer()) {
      offer(board_, rank_, next_, std::vector<int32_t>(16, static_cast<int32_t>(next_) * (rank_ + 1)));
      ++next_;
      moved = true;
    }
    if (can_make()) {
      make(board_, rank_, mine_++);
      moved = true;
    }
    while (oldest_ < next_ && board_.is_published(oldest_)) {
      const int ranks = board_.shape().ranks;
      const auto sum = static_cast<int32_t>(oldest_) * (ranks * (ranks + 1) / 2);
      if (result_of(board_, oldest_, 16) != std::vector<int32_t>(16, sum)) ++wrong_;
      ++oldest_;
      moved = true;
    }
    return moved;
  }

  const Board& board_;
  const int rank_;
  const uint64_t chunks_;
  uint64_t next_ = 1;
  uint64_t mine_ = 1;
  uint64_t oldest_ = 1;
  uint64_t wrong_ = 0;
};

/// All ranks of `board` stream in threads; how long that takes.
template <typename Idle>
Duration stream(const Board& board, uint64_t chunks, const Idle& idle) {
  std::vector<Streamer> streamers;
  for (int rank = 0; rank < board.shape().ranks; ++rank) streamers.emplace_back(board, rank, chunks);
  const Time begin = monotonic_now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < board.shape().ranks; ++rank) {
    threads.emplace_back([&, rank] {
      streamers[static_cast<size_t>(rank)].run(
          [&, rank](const auto& busy, uint64_t ready, uint64_t until) { idle(rank, busy, ready, until); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Streamer& streamer : streamers) EXPECT_EQ(streamer.wrong(), 0U);
  EXPECT_EQ(board.published(), chunks);
  return monotonic_now() - begin;
}

// Nobody looks for work, so a wake that is lost would cost half a minute.
TEST(Board, NoWakeIsLost) {
  for (const int slots : {1, 2, 3}) {
    BoardMemory memory({3, slots, 64, 0, 0, 0});
    const Board& board = memory.board();
    const Duration took = stream(board, 3000, [&](int rank, const auto& busy, uint64_t ready, uint64_t until) {
      testing::sleep_on(board, rank, until, kLong, busy, ready);
    });
    EXPECT_LT(took, kSoon) << slots << " slots";
  }
}

/// Waits until `word` is `value`; soon, if the other thread runs.
void await(const std::atomic<uint64_t>& word, uint64_t value) {
  for (int i = 0; word.load(std::memory_order_acquire) != value; ++i) {
    if (i > 2000) std::this_thread::yield();
  }
}

void pause(int turns) {
  for (std::atomic<int> left{turns}; left > 0; --left) {
  }
}

// One rank falls asleep in the moment in which the other publishes what it waits for: both write one word and read
// another, and neither may read before its own is written. Who is too early waits a little longer the next time.
TEST(Board, NoWakeIsLostInTheMomentOfFallingAsleep) {
  constexpr uint64_t kChunks = 60000;
  BoardMemory memory({2, 2, 64, 0, 0, 0});
  const Board& board = memory.board();
  std::atomic<uint64_t> about_to_sleep{0};
  std::atomic<int> delay{0};
  std::thread publisher([&] {
    for (uint64_t seq = 1; seq <= kChunks; ++seq) {
      for (const int rank : {0, 1}) board.offer(rank, seq, call_of(1));
      board.made(0, seq);
      await(about_to_sleep, seq);
      pause(delay.load(std::memory_order_relaxed));
      board.made(1, seq);
    }
  });
  int slow = 0;
  for (uint64_t seq = 1; seq <= kChunks; ++seq) {
    const Time begin = monotonic_now();
    bool early = false;
    about_to_sleep.store(seq, std::memory_order_release);
    testing::sleep_on(board, 0, seq, seconds(5), [&] { return early = board.is_published(seq); });
    if (monotonic_now() - begin > seconds(4)) ++slow;
    delay = std::clamp(delay + (early ? 1 : -1), 0, 500);
    while (!board.is_published(seq)) std::this_thread::yield();
  }
  publisher.join();
  EXPECT_EQ(slow, 0);
}

}  // namespace
}  // namespace switchml::shm
