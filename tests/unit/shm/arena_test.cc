#include "shm/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <numeric>
#include <random>
#include <thread>

#include "child.h"
#include "integers.h"
#include "shm/engine.h"

namespace switchml::shm {
namespace {

using ::testing::HasSubstr;
using testing::kLong;

size_t page() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// Ranks of one host, with a mapping each, as processes have.
class Host {
 public:
  Host(const BoardShape& shape, size_t arena_bytes) : shape_(shape) {
    auto first = Segment::create(segment_bytes(shape, arena_bytes));
    EXPECT_TRUE(first.ok());
    for (int rank = 0; rank < shape.ranks; ++rank) {
      auto own = Segment::adopt(Fd(::dup(first->fd())), first->size());
      EXPECT_TRUE(own.ok());
      segments_.push_back(std::make_shared<const Segment>(std::move(own.value())));
      arenas_.push_back(Arena::open(segments_.back(), shape, rank));
    }
  }
  void start() {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const auto mine = static_cast<size_t>(rank);
      MemoryEngineOptions options;
      options.segment = segments_[mine];
      options.shape = shape_;
      options.rank = rank;
      options.arena = arenas_[mine];
      engines_.push_back(start_memory_engine(options));
    }
  }
  std::future<Status> submit(int rank, Collective collective) {
    auto end = testing::end_of(&collective);
    engine(rank).submit(std::move(collective));
    return end;
  }
  Engine& engine(int rank) { return *engines_[static_cast<size_t>(rank)]; }
  const std::shared_ptr<Arena>& arena(int rank) const { return arenas_[static_cast<size_t>(rank)]; }
  const Segment& segment(int rank) const { return *segments_[static_cast<size_t>(rank)]; }
  int ranks() const { return shape_.ranks; }
  uint64_t in_place() {
    uint64_t bytes = 0;
    for (const auto& engine : engines_) {
      for (int i = 0; i < engine->shards(); ++i) bytes += engine->counters(i).bytes_written_in_place.get();
    }
    return bytes;
  }

 private:
  const BoardShape shape_;
  std::vector<std::shared_ptr<const Segment>> segments_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// ---- of one rank alone ----

TEST(Arena, MayHaveAllOfASegmentAndSaysWhatBytesLieIn) {
  auto segment = Segment::create(8 * page());
  ASSERT_TRUE(segment.ok());
  const auto arena = Arena::open(std::make_shared<const Segment>(std::move(segment.value())));
  EXPECT_EQ(arena->capacity(), 8 * page());
  auto* const first = static_cast<uint8_t*>(arena->allocate(page() + 1));
  auto* const second = static_cast<uint8_t*>(arena->allocate(page()));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(arena->extent_of(first, 1).data, first);
  EXPECT_EQ(arena->extent_of(first, 1).bytes, 2 * page());
  EXPECT_EQ(arena->extent_of(first + 2 * page() - 1, 1).data, first);
  EXPECT_EQ(arena->extent_of(first + 2 * page() - 1, 2).data, nullptr) << "of two";
  EXPECT_EQ(arena->extent_of(second, page()).data, second);
  EXPECT_EQ(arena->extent_of(second + page(), 1).data, nullptr) << "not allocated";
  EXPECT_EQ(arena->extent_of(&segment, 1).data, nullptr);
  arena->release(first);
  EXPECT_EQ(arena->extent_of(first, 1).data, nullptr);
}

// ---- allocations ----

constexpr BoardShape kSmall = {2, 2, 64};

TEST(Arena, IsThereWhereTheSegmentHasRoomForIt) {
  auto segment = Segment::create(segment_bytes(kSmall, 0));
  EXPECT_EQ(Arena::open(std::make_shared<const Segment>(std::move(segment.value())), kSmall, 0), nullptr);
  const Host host(kSmall, 1);
  EXPECT_EQ(host.arena(0)->capacity(), page());
}

TEST(Arena, GivesWholePagesOfTheRanksOwnPart) {
  const Host host(kSmall, 10 * page());
  std::vector<uint8_t*> all;
  for (int rank = 0; rank < 2; ++rank) {
    for (const size_t bytes : {size_t{1}, page(), page() + 1}) {
      all.push_back(static_cast<uint8_t*>(host.arena(rank)->allocate(bytes)));
      ASSERT_NE(all.back(), nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back()) % page(), 0U);
      EXPECT_NE(host.arena(rank)->offset_of(all.back(), bytes), 0U);
      EXPECT_EQ(host.arena(1 - rank)->offset_of(all.back(), bytes), 0U);
      std::memset(all.back(), static_cast<int>(all.size()), bytes);
    }
    EXPECT_EQ(host.arena(rank)->used(), 4 * page());
  }
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(*all[i], i + 1) << "no two have a byte in common";
  for (size_t i = 0; i < all.size(); ++i) host.arena(i < 3 ? 0 : 1)->release(all[i]);
  EXPECT_EQ(host.arena(0)->used(), 0U);
}

TEST(Arena, HasNoMoreThanItsBytes) {
  const Host host(kSmall, 8 * page());
  Arena& arena = *host.arena(0);
  EXPECT_EQ(arena.allocate(0), nullptr);
  EXPECT_EQ(arena.allocate(8 * page() + 1), nullptr);
  EXPECT_EQ(arena.allocate(SIZE_MAX), nullptr);
  void* const half = arena.allocate(4 * page());
  EXPECT_EQ(arena.allocate(5 * page()), nullptr);
  void* const rest = arena.allocate(4 * page());
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(arena.allocate(1), nullptr);
  arena.release(half);
  arena.release(rest);
  void* const whole = arena.allocate(8 * page());
  EXPECT_NE(whole, nullptr) << "what was released is one piece again";
  arena.release(whole);
  arena.release(nullptr);
  arena.close();
  EXPECT_EQ(arena.allocate(1), nullptr);
}

TEST(Arena, KnowsWhatLiesInIt) {
  const Host host(kSmall, 4 * page());
  const Arena& arena = *host.arena(1);
  auto* const data = static_cast<uint8_t*>(host.arena(1)->allocate(4 * page()));
  EXPECT_EQ(data, host.segment(1).data() + arena.offset_of(data, 4 * page()));
  EXPECT_EQ(arena.offset_of(data + 5, 3), arena.offset_of(data, 1) + 5);
  EXPECT_EQ(arena.offset_of(data, 0), 0U);
  EXPECT_EQ(arena.offset_of(data + 1, 4 * page()), 0U);
  EXPECT_EQ(arena.offset_of(data - 1, 1), 0U);
  EXPECT_EQ(arena.offset_of(&arena, 1), 0U);
  EXPECT_EQ(arena.offset_of(nullptr, 1), 0U);
  EXPECT_EQ(arena.offset_of(data, SIZE_MAX), 0U);
}

TEST(Arena, SurvivesAnyOrderOfAllocationsAndReleases) {
  const Host host(kSmall, 64 * page());
  Arena& arena = *host.arena(0);
  std::mt19937 random(1);
  std::vector<std::pair<uint8_t*, size_t>> live;
  for (int i = 0; i < 5000; ++i) {
    if (live.empty() || random() % 2 == 0) {
      const size_t bytes = 1 + random() % (9 * page());
      auto* const data = static_cast<uint8_t*>(arena.allocate(bytes));
      if (data == nullptr) continue;
      std::memset(data, static_cast<int>(bytes % 251), bytes);
      live.emplace_back(data, bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto [data, bytes] = live.back();
      for (size_t at = 0; at < bytes; at += 997) ASSERT_EQ(data[at], bytes % 251);
      arena.release(data);
      live.pop_back();
    }
  }
  for (const auto& [data, bytes] : live) arena.release(data);
  EXPECT_EQ(arena.used(), 0U);
  EXPECT_NE(arena.allocate(arena.capacity()), nullptr);
}

TEST(Arena, AForkedChildHasTheTensorsAndCannotAllocate) {
  const Host host(kSmall, 4 * page());
  Arena& arena = *host.arena(0);
  auto* const data = static_cast<uint8_t*>(arena.allocate(10));
  data[0] = 1;
  testing::Child child([&] {
    const bool same = data[0] == 1;
    data[1] = 2;
    arena.release(data);
    return same && arena.allocate(1) == nullptr ? 0 : 1;
  });
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(data[1], 2);
  EXPECT_EQ(arena.used(), page()) << "what a child releases stays allocated here";
}

TEST(Arena, WhatIsIsolatedIsTheRanksOwn) {
  const Host host(kSmall, 4 * page());
  auto* const data = static_cast<uint8_t*>(host.arena(0)->allocate(3 * page()));
  std::memset(data, 1, 3 * page());
  const uint64_t at = host.arena(0)->offset_of(data, 3 * page());
  uint8_t* const seen = host.segment(1).data() + at;  // by the other rank
  host.arena(0)->isolate(at + page() + 5, 10);
  EXPECT_EQ(data[page() + 5], 1) << "it keeps its contents";
  std::memset(seen, 2, 3 * page());
  EXPECT_EQ(data[page() - 1], 2);
  EXPECT_EQ(data[page()], 1);
  EXPECT_EQ(data[2 * page() - 1], 1);
  EXPECT_EQ(data[2 * page()], 2);
  host.arena(0)->release(data);
}

// ---- collectives ----

/// Elements of a rank, in its arena or elsewhere.
class Tensor {
 public:
  Tensor(const std::shared_ptr<Arena>& arena, bool shared, size_t count, size_t shift = 0) : count_(count) {
    const size_t bytes = (count + shift) * sizeof(int32_t);
    if (shared && bytes > 0) {
      memory_ = {arena->allocate(bytes), [arena](void* data) { arena->release(data); }};
      EXPECT_NE(memory_, nullptr);
    } else {
      memory_ = {new int32_t[count + shift], [](void* data) { delete[] static_cast<int32_t*>(data); }};
    }
    data_ = static_cast<int32_t*>(memory_.get()) + shift;
  }
  void fill(int32_t begin) { std::iota(data_, data_ + count_, begin); }
  int32_t* data() const { return data_; }
  std::vector<int32_t> values() const { return {data_, data_ + count_}; }

 private:
  std::shared_ptr<void> memory_;
  int32_t* data_;
  size_t count_;
};

/// Calls of all kinds; where each rank has its tensors is drawn.
class Calls {
 public:
  Calls(Host& host, unsigned seed) : host_(host), random_(seed) {}

  /// A call of all ranks.
  void one(size_t count) {
    count_ = count;
    begin_ = static_cast<int32_t>(random_() % 1000);
    expected_.clear();
    held_.clear();
    std::vector<std::future<Status>> ends;
    const auto kind = random_() % 5;
    root_ = static_cast<int>(random_() % static_cast<unsigned>(host_.ranks()));
    std::vector<Collective> calls;
    for (int rank = 0; rank < host_.ranks(); ++rank) {
      calls.push_back(kind == 0   ? sum(rank)
                      : kind == 1 ? part_of_sum(rank)
                      : kind == 2 ? broadcast(rank)
                      : kind == 3 ? gather(rank)
                                  : scatter(rank));
    }
    for (int rank = 0; rank < host_.ranks(); ++rank) {
      ends.push_back(host_.submit(rank, std::move(calls[static_cast<size_t>(rank)])));
    }
    for (auto& end : ends) {
      ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
      const Status status = end.get();
      ASSERT_TRUE(status.ok()) << status.to_string();
    }
    for (size_t i = 0; i < expected_.size(); ++i) {
      ASSERT_EQ(expected_[i].first.values(), expected_[i].second) << "kind " << kind << ", count " << count;
    }
  }

 private:
  using Values = std::vector<int32_t>;
  Tensor tensor(int rank, size_t count) {
    held_.emplace_back(host_.arena(rank), random_() % 2 == 0, count, random_() % 3);
    return held_.back();
  }
  Tensor input(int rank, size_t count) {
    Tensor result = tensor(rank, count);
    result.fill(begin_ + rank);
    return result;
  }
  Values values(int first, size_t begin, size_t end, int factor = 1) const {
    Values result;
    for (size_t i = begin; i < end; ++i) result.push_back(first + factor * static_cast<int32_t>(i));
    return result;
  }
  Collective call(const void* given) const {
    Collective result;
    result.type = ElementType::kInt32;
    result.operands()->input = given;
    result.count = count_;
    return result;
  }
  int sum_of_firsts() const { return host_.ranks() * begin_ + host_.ranks() * (host_.ranks() - 1) / 2; }

  Collective sum(int rank) {
    const Tensor given = input(rank, count_);
    const Tensor taken = random_() % 2 == 0 ? given : tensor(rank, count_);
    Collective result = call(given.data());
    result.operands()->output.data = taken.data();
    result.operands()->output.end = count_;
    expected_.emplace_back(taken, values(sum_of_firsts(), 0, count_, host_.ranks()));
    return result;
  }
  Collective part_of_sum(int rank) {
    const Tensor given = input(rank, count_);
    const size_t begin = count_ * static_cast<size_t>(rank) / static_cast<size_t>(host_.ranks());
    const size_t end = count_ * static_cast<size_t>(rank + 1) / static_cast<size_t>(host_.ranks());
    const bool in_place = random_() % 2 == 0;
    const Tensor taken = tensor(rank, end - begin);
    Collective result = call(given.data());
    result.operands()->output.data = in_place ? given.data() + begin : taken.data();
    result.operands()->output.begin = begin;
    result.operands()->output.end = end;
    const Values mine = values(sum_of_firsts(), begin, end, host_.ranks());
    if (!in_place) {
      expected_.emplace_back(taken, mine);
    } else {
      Values whole = values(begin_ + rank, 0, count_);
      std::copy(mine.begin(), mine.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin));
      expected_.emplace_back(given, whole);
    }
    return result;
  }
  template <typename Kind>
  Collective moved(Kind kind) const {
    Collective result;
    result.kind = std::move(kind);
    result.type = ElementType::kUInt8;
    result.count = count_ * sizeof(int32_t);
    return result;
  }
  Collective broadcast(int rank) {
    const Tensor mine = input(rank, count_);
    expected_.emplace_back(mine, values(begin_ + root_, 0, count_));
    const bool is_root = rank == root_;
    return moved(Broadcast{root_, is_root ? mine.data() : nullptr, is_root ? nullptr : mine.data()});
  }
  Collective gather(int rank) {
    const auto ranks = static_cast<size_t>(host_.ranks());
    const Tensor all = tensor(rank, count_ * ranks);
    const bool in_place = random_() % 2 == 0;
    const Tensor given = input(rank, count_);
    int32_t* const own = all.data() + static_cast<size_t>(rank) * count_;
    std::copy_n(given.data(), count_, own);
    Gather gathered;
    gathered.input = in_place ? own : given.data();
    Values expected;
    for (size_t i = 0; i < ranks; ++i) {
      gathered.receive_ranges.push_back({all.data() + i * count_, 0, count_ * sizeof(int32_t)});
      const Values piece = values(begin_ + static_cast<int>(i), 0, count_);
      expected.insert(expected.end(), piece.begin(), piece.end());
    }
    if (random_() % 4 == 0) {
      gathered.receive_ranges.clear();  // it wants no result
    } else {
      expected_.emplace_back(all, expected);
    }
    return moved(gathered);
  }
  Collective scatter(int rank) {
    Scatter scattered;
    scattered.root = root_;
    if (rank == root_) {
      const Tensor all = input(rank, count_ * static_cast<size_t>(host_.ranks()));
      for (int i = 0; i < host_.ranks(); ++i) scattered.inputs.push_back(all.data() + static_cast<size_t>(i) * count_);
    }
    const Tensor taken = tensor(rank, count_);
    scattered.output = taken.data();
    const size_t begin = static_cast<size_t>(rank) * count_;
    expected_.emplace_back(taken, values(begin_ + root_, begin, begin + count_));
    return moved(scattered);
  }

  Host& host_;
  std::mt19937 random_;
  size_t count_ = 0;
  int32_t begin_ = 0;
  int root_ = 0;
  std::vector<Tensor> held_;
  std::vector<std::pair<Tensor, Values>> expected_;
};

class SharedTensors : public ::testing::TestWithParam<BoardShape> {};
INSTANTIATE_TEST_SUITE_P(Boards, SharedTensors,
                         ::testing::Values(BoardShape{1, 2, 64}, BoardShape{2, 1, 64}, BoardShape{3, 4, 128},
                                           BoardShape{5, 8, 256, 0, 64}, shape_for(2), shape_for(4)));

TEST_P(SharedTensors, AreReadAndWrittenWhereTheyAre) {
  Host host(GetParam(), 32 << 20);
  host.start();
  const size_t chunk = GetParam().chunk_bytes / sizeof(int32_t);
  Calls calls(host, 7);
  for (int round = 0; round < 20; ++round) {
    for (const size_t count : {size_t{0}, size_t{1}, chunk - 1, chunk, chunk + 1, 3 * chunk + 5, 9 * chunk + 3}) {
      calls.one(count);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(host.in_place(), 0U);
}

/// The sum of `tensor` over the ranks, in place.
Collective sum_of(const Tensor& tensor, size_t count) {
  Collective result;
  result.type = ElementType::kInt32;
  result.operands()->input = result.operands()->output.data = tensor.data();
  result.count = result.operands()->output.end = count;
  return result;
}

TEST(SharedTensors, OfARankThatGivesUpAreItsOwnAgain) {
  Host host({2, 4, 4096}, 1 << 20);
  host.start();
  constexpr size_t kCount = 8192;  // two windows
  const Tensor mine(host.arena(0), true, kCount);
  mine.data()[0] = 5;
  Collective late = sum_of(mine, kCount);
  late.deadline = monotonic_now() + milliseconds(50);
  auto end = host.submit(0, late);
  ASSERT_EQ(end.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(end.get().code(), Code::kTimeout);
  const uint64_t at = host.arena(0)->offset_of(mine.data(), kCount * sizeof(int32_t));
  reinterpret_cast<int32_t*>(host.segment(1).data() + at)[0] = 6;  // a rank that wakes up late
  EXPECT_EQ(mine.data()[0], 5);

  const Tensor other(host.arena(1), true, kCount);
  auto told = host.submit(1, sum_of(other, kCount));
  ASSERT_EQ(told.wait_for(kLong), std::future_status::ready);
  const Status status = told.get();
  EXPECT_EQ(status.code(), Code::kTimeout) << "what rank 0 has offered may have changed";
  EXPECT_THAT(status.message(), HasSubstr("rank 0 gave up: "));
}

}  // namespace
}  // namespace switchml::shm
